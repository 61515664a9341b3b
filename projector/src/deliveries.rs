//! Keeps in Postgres, for people to find, which deliveries were given up, and measures what failed. Any number of processes may: the queue decides, and what
//! is written twice is the same.

use std::{collections::BTreeMap, time::Duration};

use async_nats::jetstream::{
    consumer::{DeliverPolicy, pull::OrderedConfig},
    stream::Stream,
};
use base::{
    clock,
    explain::explain,
    metric::catalog::{FAILED_EVENTS, FAILED_EVENTS_AGE, VIEW_STOPPED},
};
use eventlog::log::LogFailure;
use futures::{StreamExt, TryStreamExt};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;
use view::{
    database::DatabaseFailure,
    failed_event::{
        delivery::{GivenUp, VIEW, known, note, retain},
        stand::{Trouble, troubles},
    },
    projection::PROJECTIONS,
};

use crate::Projector;

/// How often the queue is looked at.
const EVERY: Duration = Duration::from_secs(1);
/// How often it is compared with Postgres though nothing seems to have changed there, in looks.
const COMPARE_EVERY: u32 = 60;
/// How often it is measured what failed, in looks.
const MEASURE_EVERY: u32 = 5;
/// How long the next one is waited for.
const SILENCE: Duration = Duration::from_secs(5);
/// How many are noted in a transaction.
const AT_ONCE: usize = 500;

#[derive(Debug, thiserror::Error)]
enum MirrorFailure {
    #[error(transparent)]
    Database(#[from] DatabaseFailure),
    #[error(transparent)]
    Nats(#[from] LogFailure),
}

fn nats(error: impl std::error::Error + 'static) -> MirrorFailure {
    LogFailure::Nats(explain(&error)).into()
}

/// How many were given up, by subject. It changes whenever one comes or goes, save when as many come as go; that shows in the place of
/// the last one, which is there under no subject.
type Counts = (BTreeMap<String, usize>, u64);

/// Does so until `shutdown`.
pub(crate) async fn work(projector: Projector, shutdown: CancellationToken) {
    let mut looks = interval(EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut before, mut looked) = (None, 0);
    loop {
        tokio::select! {
            _ = looks.tick() => {}
            () = shutdown.cancelled() => return,
        }
        looked += 1;
        if looked % MEASURE_EVERY == 1 {
            measure(&projector).await;
        }
        let is_due = looked % COMPARE_EVERY == 0;
        match look(&projector, before.as_ref().filter(|_| !is_due)).await {
            Ok(counts) => before = Some(counts),
            Err(failure) => {
                tracing::debug!(error = explain(&failure), "which deliveries were given up is not shown yet");
                before = None;
            }
        }
    }
}

/// Any process tells what all have: whoever has parked something may have ended.
async fn measure(projector: &Projector) {
    let Projector { database, shard, .. } = projector;
    let read = async { troubles(&database.connection().await?, *shard).await };
    let Ok(found) = database.within(read).await else { return };
    let now = clock::now();
    for view in PROJECTIONS.iter().map(|projection| projection.name).chain([VIEW]) {
        let Trouble { failed, oldest, stopped } = found.get(view).cloned().unwrap_or_default();
        let age = oldest.map_or(0.0, |oldest| now.duration_since(oldest).as_secs_f64().max(0.0));
        FAILED_EVENTS.with(&[view]).set_integer(failed);
        FAILED_EVENTS_AGE.with(&[view]).set(age);
        VIEW_STOPPED.with(&[view]).set_bool(stopped.is_some());
    }
}

async fn look(projector: &Projector, before: Option<&Counts>) -> Result<Counts, MirrorFailure> {
    let Projector { logs, shard, .. } = projector;
    let context = async_nats::jetstream::new(logs.events.client());
    let stream = context.get_stream_no_info(format!("ACTIONS_{shard}")).await.map_err(nats)?;
    let counts = counts(&stream, *shard).await?;
    if before != Some(&counts) {
        reconcile(projector, &stream, &counts).await?;
    }
    Ok(counts)
}

fn subject(shard: u16) -> String {
    format!("actions.{shard}.failed.>")
}

async fn counts(stream: &Stream<()>, shard: u16) -> Result<Counts, MirrorFailure> {
    let mut found = stream.info_with_subjects(subject(shard)).await.map_err(nats)?;
    let mut counts = BTreeMap::new();
    while let Some((subject, count)) = found.try_next().await.map_err(nats)? {
        counts.insert(subject, count);
    }
    let last = if counts.is_empty() { 0 } else { found.info.state.last_sequence };
    Ok((counts, last))
}

/// Notes those that are new, and forgets those that are gone.
async fn reconcile(projector: &Projector, stream: &Stream<()>, (counts, _): &Counts) -> Result<(), MirrorFailure> {
    let Projector { database, shard, .. } = projector;
    let (_, last) = known(&database.connection().await?, *shard).await?;
    let there: usize = counts.values().sum();
    if there > 0 {
        note_from(projector, stream, last + 1).await?;
    }
    let (count, last) = known(&database.connection().await?, *shard).await?;
    if count == there as u64 {
        return Ok(());
    }
    let mut places = vec![];
    if there > 0 {
        let config = OrderedConfig { headers_only: true, ..config(*shard, 1) };
        let consumer = stream.create_consumer(config).await.map_err(nats)?;
        let mut messages = consumer.messages().await.map_err(nats)?;
        while let Ok(Some(message)) = timeout(SILENCE, messages.next()).await {
            let message = message.map_err(nats)?;
            let info = message.info().map_err(|error| LogFailure::Nats(error.to_string()))?;
            places.push(info.stream_sequence);
            if info.pending == 0 {
                break;
            }
        }
    }
    retain(&database.connection().await?, *shard, (last, &places)).await?;
    Ok(())
}

fn config(shard: u16, start_sequence: u64) -> OrderedConfig {
    let deliver_policy = DeliverPolicy::ByStartSequence { start_sequence };
    OrderedConfig { filter_subject: subject(shard), deliver_policy, ..OrderedConfig::default() }
}

async fn note_from(projector: &Projector, stream: &Stream<()>, from: u64) -> Result<(), MirrorFailure> {
    let Projector { database, shard, .. } = projector;
    let consumer = stream.create_consumer(config(*shard, from)).await.map_err(nats)?;
    if consumer.cached_info().num_pending == 0 {
        return Ok(());
    }
    let mut messages = consumer.messages().await.map_err(nats)?;
    let mut is_last = false;
    while !is_last {
        let mut connection = database.connection().await?;
        let transaction = connection.transaction().await.map_err(DatabaseFailure::from)?;
        for _ in 0..AT_ONCE {
            let Ok(Some(message)) = timeout(SILENCE, messages.next()).await else {
                is_last = true;
                break;
            };
            let message = message.map_err(nats)?;
            let info = message.info().map_err(|error| LogFailure::Nats(error.to_string()))?;
            if let Some(given_up) = GivenUp::read(*shard, (info.stream_sequence, &message.payload)) {
                note(&transaction, *shard, &given_up).await?;
            }
            is_last = info.pending == 0;
            if is_last {
                break;
            }
        }
        transaction.commit().await.map_err(DatabaseFailure::from)?;
    }
    Ok(())
}
