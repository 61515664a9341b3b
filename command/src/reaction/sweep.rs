//! The sweep: what names a removed object goes with it, or goes on without it, also where that is more than the record of the
//! removal could hold. It is done in many small records, by the node that writes.
//!
//! A removal says in its event whether something is left to sweep, so that this only follows the log. It begins again after
//! a saved place; what was swept already is found to be gone.

use std::{collections::VecDeque, convert::Infallible, time::Duration};

use base::{explain::explain, fault};
use eventlog::{
    log::{Log, LogFailure},
    record::{AggregateKey, Position, Record},
};
use futures::{FutureExt, StreamExt};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use view::{
    database::{Database, DatabaseFailure},
    history::{aggregates_after, past::ask_at},
    keyring::SYSTEM,
};

use super::{
    place::{Place, PlaceFailure, SavedPlace},
    steps::{self, PAUSE, Reaction, StepFailure, Steps},
};
use crate::{
    references::{Complete, Note},
    removal::{Dependents, Swept},
    turn::{Cause, ClaimKeys, Decided, Refusal, Turn},
    writer::Decide,
};

/// How long it waits for history where nothing of what is left is known.
const BREATH: Duration = Duration::from_millis(100);
/// How often nothing may come of a step before what is left is given up: some seconds, in which history catches up.
const MOST_IDLE: u32 = 100;
/// How many aggregates of earlier versions are brought up to date in one record.
const NOTED_AT_ONCE: u32 = 100;
/// What notes the references of earlier versions, in turns of the system.
const NOTING: (&str, &str) = ("note references", SYSTEM);

/// What the sweep needs.
#[derive(Clone)]
pub struct Sweeps {
    /// The log.
    pub log: Log,
    /// Decides what goes.
    pub steps: Steps,
    /// Where history is.
    pub database: Database,
    /// The shard.
    pub shard: u16,
    /// How many servers keep the place.
    pub replicas: usize,
}

/// Why it does not go on.
#[derive(Debug, thiserror::Error)]
pub(super) enum SweepFailure {
    #[error(transparent)]
    Place(#[from] PlaceFailure),
    #[error(transparent)]
    Log(#[from] LogFailure),
    #[error("the log ended")]
    LogEnded,
    #[error(transparent)]
    Step(#[from] StepFailure),
    #[error(transparent)]
    Database(#[from] DatabaseFailure),
}

/// A removal of which something is left.
struct Unswept {
    key: AggregateKey,
    cause: Cause,
    /// The position before its record.
    before: Position,
    /// How often nothing came of a step.
    idle: u32,
}

impl Sweeps {
    /// Sweeps whenever this node writes, until `shutdown`.
    pub async fn work(self, shutdown: CancellationToken) {
        steps::work(self, shutdown).await;
    }
}

impl Reaction for Sweeps {
    const TROUBLE: &'static str = "what was removed is not swept at the moment";
    type Failure = SweepFailure;

    fn steps(&self) -> &Steps {
        &self.steps
    }

    async fn serve(&self) -> Result<Infallible, SweepFailure> {
        self.complete_references().await?;
        let place = Place::open(self.log.context(), self.replicas, "sweep").await?;
        let mut saved = SavedPlace::begin(place, &self.log).await?;
        let (mut at, mut left) = (saved.at, VecDeque::new());
        let mut records = self.log.follow(at).await?;
        loop {
            let next = if left.is_empty() { records.next().map(Some).await } else { records.next().now_or_never() };
            if let Some(record) = next {
                let record = record.ok_or(SweepFailure::LogEnded)??;
                left.extend(unswept(&record, at));
                at = record.position();
            }
            let had_some = !left.is_empty();
            self.step(&mut left).await;
            let oldest = left.iter().map(|unswept: &Unswept| unswept.before).min_by_key(|place| place.stream_sequence);
            let done = oldest.unwrap_or(at);
            if saved.is_due(done) || had_some && done != saved.at && left.is_empty() {
                saved.save(done).await?;
            }
        }
    }

    fn of_step(failure: &SweepFailure) -> Option<&StepFailure> {
        if let SweepFailure::Step(failure) = failure { Some(failure) } else { None }
    }
}

impl Sweeps {
    /// Takes one page of what is left of the first removal, which then lets the others go first. What cannot be swept now
    /// keeps only itself waiting.
    async fn step(&self, left: &mut VecDeque<Unswept>) {
        let Some(mut first) = left.pop_front() else { return };
        match self.sweep(&first).await {
            Ok(Swept { has_more: false, .. }) => return,
            Ok(swept) => {
                let was_in_vain = !swept.wrote && swept.looked_at > 0;
                first.idle = if was_in_vain { first.idle + 1 } else { 0 };
                if !swept.wrote {
                    sleep(BREATH).await;
                }
            }
            Err(failure) => {
                tracing::warn!(error = explain(&failure), key = ?first.key, "what was removed is not swept at the moment");
                sleep(PAUSE).await;
            }
        }
        if first.idle > MOST_IDLE {
            tracing::error!(key = ?first.key, "something refers to what was removed and cannot be swept");
            return;
        }
        left.push_back(first);
    }

    async fn sweep(&self, unswept: &Unswept) -> Result<Swept, SweepFailure> {
        let keys = self.steps.keys(&unswept.key.instance_id).await?;
        let step = Step { key: unswept.key.clone(), cause: unswept.cause.clone(), keys };
        Ok(self.steps.submit(("sweep", &unswept.key.instance_id), step).await?)
    }
}

impl Sweeps {
    /// Has the references noted of all that earlier versions wrote, once.
    async fn complete_references(&self) -> Result<(), SweepFailure> {
        if fault::is_before_references()
            || self.steps.submit(NOTING, Complete { is_done: false, keys: self.steps.keys(SYSTEM).await? }).await?
        {
            return Ok(());
        }
        tracing::info!("noting for all that earlier versions wrote which others it names");
        let end = self.log.last().await?.map_or(0, |record| record.position().sequence);
        ask_at(&self.database, (self.shard, end), ()).await?;
        let mut last = AggregateKey { instance_id: String::new(), aggregate_type: String::new(), id: String::new() };
        loop {
            let found = aggregates_after(&self.database.connection().await?, &last, NOTED_AT_ONCE).await?;
            let Some(newest) = found.last().cloned() else { break };
            for aggregates in found.chunk_by(|one, next| one.instance_id == next.instance_id) {
                let keys = self.steps.keys(&aggregates[0].instance_id).await?;
                let mut rest = aggregates;
                while !rest.is_empty() {
                    let noted =
                        self.steps.submit(NOTING, Note { aggregates: rest.to_vec(), keys: keys.clone() }).await?;
                    rest = &rest[noted..];
                }
            }
            last = newest;
        }
        self.steps.submit(NOTING, Complete { is_done: true, keys: self.steps.keys(SYSTEM).await? }).await?;
        tracing::info!("all that earlier versions wrote is up to date");
        Ok(())
    }
}

/// The removals of a record of which something is left.
fn unswept(record: &Record, before: Position) -> impl Iterator<Item = Unswept> {
    let events = record.events.iter().filter(|recorded| recorded.event.unswept);
    events.map(move |recorded| {
        let event = &recorded.event;
        let cause = Cause { actor: event.actor.clone(), causation_id: event.id.clone(), ..Cause::default() };
        Unswept { key: recorded.key(), cause, before, idle: 0 }
    })
}

/// One page of those that name a removed object.
struct Step {
    key: AggregateKey,
    cause: Cause,
    keys: ClaimKeys,
}

impl Decide for Step {
    type Outcome = Swept;

    fn decide(&self, turn: &mut Turn<'_>) -> Result<(Decided, Swept), Refusal> {
        let swept = Dependents::sweep(turn, &self.key, &self.keys, &self.cause)?;
        Ok((turn.nothing_decided("sweep"), swept))
    }
}
