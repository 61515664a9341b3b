//! Filling the tail: what history does not have yet is read from the log.

use std::time::Duration;

use base::explain::explain;
use eventlog::{lease::Lease, log::Log, record::Position};
use futures::StreamExt;
use tokio::time::{sleep, timeout};
use view::{projection::HISTORY, read_model::ReadModel};

use super::{PAUSE, Writer, WriterFailure};
use crate::tail::Tail;

/// How long an active writer may be kept from its turns by reading the log again.
const REFILL_TIME: Duration = Duration::from_secs(10);

impl Writer {
    /// Reads what history does not have, and waits while that is more than may be kept. `None` when the lease went to
    /// another node meanwhile.
    pub(super) async fn fill(&self, end: Position, lease: &Lease) -> Result<Option<Tail>, WriterFailure> {
        tokio::select! {
            filled = self.fill_all(end) => filled,
            () = lease.lost() => Ok(None),
        }
    }

    async fn fill_all(&self, end: Position) -> Result<Option<Tail>, WriterFailure> {
        let Some(history) = self.history(end).await? else { return Ok(None) };
        let mut tail = Tail::at(history);
        loop {
            extend(&mut tail, &self.log, end, self.tail_limit).await?;
            if tail.end() == end {
                return Ok(Some(tail));
            }
            tracing::info!(read = tail.end().sequence, end = end.sequence, "waiting for history to catch up");
            // Half of it at once, so that the log is not asked again for every record.
            while tail.bytes() > self.tail_limit / 2 {
                sleep(PAUSE).await;
                let Some(history) = self.history(end).await? else { return Ok(None) };
                if tail.continues(history) && history.stream_sequence <= tail.end().stream_sequence {
                    tail.trim(history.stream_sequence);
                } else {
                    tail = Tail::at(history);
                }
            }
        }
    }

    /// Reads again what history, at this position, has lost. `None` when that is more than may be kept, or takes too
    /// long: an active writer has callers that wait.
    pub(super) async fn refill(
        &self,
        history: Position,
        end: Position,
        lease: &Lease,
    ) -> Result<Option<Tail>, WriterFailure> {
        let read = async {
            if !self.lags(history, end).await? {
                return Ok(None);
            }
            let mut tail = Tail::at(history);
            extend(&mut tail, &self.log, end, self.tail_limit).await?;
            Ok((tail.end() == end).then_some(tail))
        };
        tokio::select! {
            read = timeout(REFILL_TIME, read) => read.unwrap_or(Ok(None)),
            () = lease.lost() => Ok(None),
        }
    }

    /// Where history stands in this log. It waits for a history that is not there yet or cannot be read. `None` when
    /// another writer has written after `end`.
    async fn history(&self, end: Position) -> Result<Option<Position>, WriterFailure> {
        loop {
            let read = async {
                let connection = self.database.connection().await?;
                ReadModel::new(&HISTORY, self.shard).checkpoint(&connection).await
            };
            match self.database.within(read).await {
                Ok(Some(checkpoint)) => {
                    let history = checkpoint.position;
                    return Ok(self.lags(history, end).await?.then_some(history));
                }
                Ok(None) => tracing::debug!("waiting for history"),
                Err(error) => tracing::warn!(error = explain(&error), "cannot read how far history is"),
            }
            sleep(PAUSE).await;
        }
    }

    /// Whether history stands nowhere beyond `end`, the last record that this writer knows; it fails where history stands
    /// at a record that this log does not have. What history has beyond `end` is another writer's.
    async fn lags(&self, history: Position, end: Position) -> Result<bool, WriterFailure> {
        if self.log.has(history).await? {
            return Ok(history.stream_sequence <= end.stream_sequence);
        }
        let (checkpoint, end) = (history.stream_sequence, self.log.end().await?);
        Err(if checkpoint > end {
            WriterFailure::Ahead { checkpoint, end }
        } else {
            WriterFailure::OtherLog { checkpoint }
        })
    }
}

/// Reads on from where the tail ends, until it has the record at `end` or more bytes than `limit`.
async fn extend(tail: &mut Tail, log: &Log, end: Position, limit: usize) -> Result<(), WriterFailure> {
    if tail.end().stream_sequence >= end.stream_sequence {
        return Ok(());
    }
    let mut records = log.follow(tail.end()).await?;
    while tail.end().stream_sequence < end.stream_sequence && tail.bytes() <= limit {
        match records.next().await {
            Some(record) => tail.push(&*record?),
            None => break,
        }
    }
    Ok(())
}
