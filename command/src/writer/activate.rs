//! Taking the logs over: the barrier records, then the tails.

use std::time::Duration;

use base::{fault, secret};
use bytes::Bytes;
use domain::log_class::{LogClass, OfEach};
use eventlog::{
    lease::Lease,
    log::LogFailure,
    record::{CommitRecord, Position, Record},
};
use tokio::time::timeout;

use super::{Writer, WriterFailure, clocks, fill, report, serve::Active};
use crate::{
    settle::{Settled, commit},
    turn::Memory,
};

/// How long a barrier may take before the lease is left to another node, whose NATS user may have more permissions.
const LONGEST: Duration = Duration::from_secs(30);

/// Makes this node the writer; `None` if the lease went to another node meanwhile.
pub(super) async fn activate<'a>(writer: &'a Writer, lease: &Lease) -> Result<Option<Active<'a>>, WriterFailure> {
    writer.durability.check().await?;
    clocks::compare(writer).await?;
    let Some(barriers) = raise_barriers(writer, lease).await? else { return Ok(None) };
    let (epoch, after) = (barriers.events.commit.epoch, barriers.events.position().sequence);
    tracing::info!(epoch, after, "this node writes now");
    report::barriers(writer, &barriers);
    // New ids also differ from those of a node with the same number whose clock was ahead.
    writer.ids.not_before(barriers.events.committed_at().max(barriers.sessions.committed_at()));
    fault::point("activate.barrier");
    let Some(tails) = fill::fill(writer, barriers.as_ref().map(Record::position), lease).await? else {
        return Ok(None);
    };
    // A delayed barrier may arrive when another writer has the lease. That one may answer without a record, so
    // nothing but barriers may be written beside it.
    if !lease.confirm().await {
        return Ok(None);
    }
    Ok(Some(Active::new(writer, barriers, Memory::new(tails))))
}

/// Commits an empty record in each log, with an epoch above every epoch in both. From then on no older writer can
/// commit anything, and nothing is decided before.
async fn raise_barriers(writer: &Writer, lease: &Lease) -> Result<Option<OfEach<Record>>, WriterFailure> {
    // A barrier in one log alone keeps everybody from writing.
    tokio::try_join!(writer.logs.events.check_publish(), writer.logs.sessions.check_publish())?;
    while lease.is_held() {
        // In this order the epoch of EVENTS is not below the other one, whoever raises barriers meanwhile.
        let sessions = writer.logs.sessions.last().await?;
        let last = OfEach { events: writer.logs.events.last().await?, sessions };
        let epoch = epoch_of(last.events.as_ref()).max(epoch_of(last.sessions.as_ref())) + 1;
        let log_id = log_id(&last)?;
        let Some(events) = raise(writer, LogClass::Events, last.events.as_ref(), &log_id, epoch).await? else {
            continue;
        };
        fault::point("activate.between");
        let raised = raise(writer, LogClass::Sessions, last.sessions.as_ref(), &log_id, epoch).await?;
        // Another node takes over, which has the lease or is about to find that this node has it.
        let Some(sessions) = raised else { continue };
        return Ok(Some(OfEach { events, sessions }));
    }
    Ok(None)
}

/// Commits a barrier after the last record of a log; `None` if another record took its place.
async fn raise(
    writer: &Writer,
    class: LogClass,
    last: Option<&Record>,
    log_id: &Bytes,
    epoch: u64,
) -> Result<Option<Record>, WriterFailure> {
    let (log, end) = (&writer.logs[class], last.map(Record::position).unwrap_or_default());
    let purged_to = log.permits().await?;
    let raised = timeout(LONGEST, commit(log, end, barrier(last, end, log_id, epoch, purged_to))).await;
    let Ok(raised) = raised else {
        let why = format!("{} has accepted no barrier record for {} s", log.stream(), LONGEST.as_secs());
        return Err(LogFailure::Nats(why).into());
    };
    match raised {
        Settled::Committed(record) => Ok(Some(record)),
        Settled::Overtaken(_) => Ok(None),
        Settled::Foreign(broken) => Err(log.broken(broken).into()),
    }
}

fn epoch_of(last: Option<&Record>) -> u64 {
    last.map_or(0, |record| record.commit.epoch)
}

/// Returns the id that both logs have, by which the logs of two platforms are distinguished.
fn log_id(last: &OfEach<Option<Record>>) -> Result<Bytes, WriterFailure> {
    let id_of = |last: &Option<Record>| last.as_ref().map(|record| record.commit.log_id.clone());
    match (id_of(&last.events), id_of(&last.sessions)) {
        (Some(events), Some(sessions)) if events != sessions => Err(WriterFailure::Strangers),
        (Some(_), Some(_)) if epoch_of(last.events.as_ref()) < epoch_of(last.sessions.as_ref()) => {
            Err(WriterFailure::Apart)
        }
        (Some(id), _) | (None, Some(id)) => Ok(id),
        (None, None) => Ok(secret::random::<16>().to_vec().into()),
    }
}

fn barrier(last: Option<&Record>, end: Position, log_id: &Bytes, epoch: u64, purged_to: u64) -> CommitRecord {
    let commit = last.map(|record| &record.commit);
    CommitRecord {
        log_id: log_id.clone(),
        incarnation: commit.map_or(1, |commit| commit.incarnation),
        epoch,
        record_id: secret::random::<16>().to_vec().into(),
        first_sequence: end.sequence + 1,
        committed_at: super::serve::commit_time(commit.map_or(0, |commit| commit.committed_at)).as_microsecond(),
        previous_digest: last.map(|record| record.digest.to_vec().into()).unwrap_or_default(),
        purged_to,
        events: vec![],
        answers: vec![],
    }
}
