//! Taking a log over: the barrier record, then the tail.

use futures::StreamExt;
use store::{
    checkpoint::Checkpoint,
    fault,
    lease::Kept,
    log::Log,
    projection::HISTORY,
    record::{CommitRecord, Position, Record},
    secret,
};

use super::{Failure, PAUSE, Writer, serve::Active};
use crate::{
    settle::{Settled, commit},
    tail::Tail,
    turn::Memory,
};

impl Writer {
    /// Becomes the one that writes; `None` when the lease went to another node meanwhile.
    pub(super) async fn activate(&self, lease: &Kept) -> Result<Option<Active<'_>>, Failure> {
        self.durability.check().await?;
        let Some(barrier) = self.raise_barrier(lease).await? else { return Ok(None) };
        tracing::info!(epoch = barrier.commit.epoch, behind = barrier.position().sequence, "this node writes now");
        fault::point("activate.barrier");
        let Some(tail) = self.fill_tail(barrier.position(), lease).await? else { return Ok(None) };
        Ok(Some(Active::new(self, barrier, Memory::new(tail))))
    }

    /// Commits an empty record with an epoch above every epoch in the log. From then on no older writer can commit.
    async fn raise_barrier(&self, lease: &Kept) -> Result<Option<Record>, Failure> {
        while lease.is_held() {
            let last = self.log.last().await?;
            let behind = last.as_ref().map(Record::position).unwrap_or_default();
            match commit(&self.log, behind, barrier(last.as_ref(), behind)).await {
                Settled::Committed(record) => return Ok(Some(record)),
                Settled::Overtaken(_) => {}
                Settled::Foreign(broken) => return Err(store::log::Failure::Broken(broken).into()),
            }
        }
        Ok(None)
    }

    /// Reads what history does not have, and waits while that is more than may be kept.
    async fn fill_tail(&self, end: Position, lease: &Kept) -> Result<Option<Tail>, Failure> {
        while lease.is_held() {
            match self.checkpoint().await {
                Some(begin) => {
                    if begin.stream_sequence > end.stream_sequence {
                        return Err(Failure::Ahead { checkpoint: begin.stream_sequence, end: end.stream_sequence });
                    }
                    let tail = read_tail(&self.log, begin, end, self.tail_limit).await?;
                    if tail.end() == end {
                        return Ok(Some(tail));
                    }
                    tracing::info!(history = begin.sequence, end = end.sequence, "waiting for history to catch up");
                }
                None => tracing::debug!("waiting for history"),
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(None)
    }

    async fn checkpoint(&self) -> Option<Position> {
        let read = async {
            let connection = self.database.connection().await?;
            Checkpoint::read(&connection, &HISTORY, self.shard).await
        };
        match self.database.within(read).await {
            Ok(checkpoint) => checkpoint.map(|checkpoint| checkpoint.position),
            Err(error) => {
                tracing::warn!(%error, "cannot read how far history is");
                None
            }
        }
    }
}

/// Reads the records between two positions, or as many of them as the limit in bytes allows.
pub(super) async fn read_tail(log: &Log, begin: Position, end: Position, limit: usize) -> Result<Tail, Failure> {
    let mut tail = Tail::at(begin);
    if begin == end {
        return Ok(tail);
    }
    let mut records = log.follow(begin).await?;
    while tail.end().stream_sequence < end.stream_sequence && tail.bytes() <= limit {
        match records.next().await {
            Some(record) => tail.push(record?),
            None => break,
        }
    }
    Ok(tail)
}

fn barrier(last: Option<&Record>, behind: Position) -> CommitRecord {
    let commit = last.map(|record| &record.commit);
    CommitRecord {
        log_id: commit.map_or_else(|| secret::random::<16>().to_vec().into(), |commit| commit.log_id.clone()),
        incarnation: commit.map_or(1, |commit| commit.incarnation),
        epoch: commit.map_or(0, |commit| commit.epoch) + 1,
        record_id: secret::random::<16>().to_vec().into(),
        first_sequence: behind.sequence + 1,
        committed_at: super::serve::commit_time(commit.map_or(0, |commit| commit.committed_at)).as_microsecond(),
        previous_digest: last.map(|record| record.digest.to_vec().into()).unwrap_or_default(),
        events: vec![],
        answers: vec![],
    }
}
