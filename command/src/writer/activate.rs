//! Taking a log over: the barrier record, then the tail.

use base::{fault, secret};
use eventlog::{
    lease::Lease,
    record::{CommitRecord, Position, Record},
};

use super::{Writer, WriterFailure, serve::Active};
use crate::{
    settle::{Settled, commit},
    turn::Memory,
};

impl Writer {
    /// Becomes the one that writes; `None` when the lease went to another node meanwhile.
    pub(super) async fn activate(&self, lease: &Lease) -> Result<Option<Active<'_>>, WriterFailure> {
        self.durability.check().await?;
        self.compare_clocks().await?;
        let Some(barrier) = self.raise_barrier(lease).await? else { return Ok(None) };
        tracing::info!(epoch = barrier.commit.epoch, after = barrier.position().sequence, "this node writes now");
        self.report_barrier(&barrier);
        // Also of a node with the same number, whose clock was ahead.
        self.ids.not_before(barrier.committed_at());
        fault::point("activate.barrier");
        let Some(tail) = self.fill(barrier.position(), lease).await? else { return Ok(None) };
        // A barrier that was long on its way may come when another writer has the lease. That one may answer without a record,
        // so nothing but barriers may be written beside it.
        if !lease.confirm().await {
            return Ok(None);
        }
        Ok(Some(Active::new(self, barrier, Memory::new(tail))))
    }

    /// Commits an empty record with an epoch above every epoch in the log. From then on no older writer can commit.
    async fn raise_barrier(&self, lease: &Lease) -> Result<Option<Record>, WriterFailure> {
        while lease.is_held() {
            let last = self.log.last().await?;
            let end = last.as_ref().map(Record::position).unwrap_or_default();
            match commit(&self.log, end, barrier(last.as_ref(), end)).await {
                Settled::Committed(record) => return Ok(Some(record)),
                Settled::Overtaken(_) => {}
                Settled::Foreign(broken) => return Err(eventlog::log::LogFailure::Broken(broken).into()),
            }
        }
        Ok(None)
    }
}

fn barrier(last: Option<&Record>, end: Position) -> CommitRecord {
    let commit = last.map(|record| &record.commit);
    CommitRecord {
        log_id: commit.map_or_else(|| secret::random::<16>().to_vec().into(), |commit| commit.log_id.clone()),
        incarnation: commit.map_or(1, |commit| commit.incarnation),
        epoch: commit.map_or(0, |commit| commit.epoch) + 1,
        record_id: secret::random::<16>().to_vec().into(),
        first_sequence: end.sequence + 1,
        committed_at: super::serve::commit_time(commit.map_or(0, |commit| commit.committed_at)).as_microsecond(),
        previous_digest: last.map(|record| record.digest.to_vec().into()).unwrap_or_default(),
        events: vec![],
        answers: vec![],
    }
}
