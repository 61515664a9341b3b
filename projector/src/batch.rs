//! Batches: records that the log has ready, as many as one transaction should apply.

use std::sync::Arc;

use base::clock;
use eventlog::{
    log::LogFailure,
    record::{Position, Record, Recorded},
};
use futures::{FutureExt, Stream, StreamExt};
use jiff::{SignedDuration, Timestamp};

/// How many events a batch has at most, except where one record has more.
const MOST_EVENTS: usize = 1000;

/// Complete records, in order.
#[derive(Debug)]
pub(crate) struct Batch {
    /// The records.
    pub(crate) records: Vec<Arc<Record>>,
    /// Their events.
    pub(crate) events: Vec<Arc<Recorded>>,
    /// The position of the last record.
    pub(crate) end: Position,
    /// When the last record was committed.
    pub(crate) committed_at: Timestamp,
}

/// Waits for the next record, and adds those that are ready after it; `None` when the log has ended.
pub(crate) async fn next(
    records: &mut (impl Stream<Item = Result<Arc<Record>, LogFailure>> + Unpin),
) -> Option<Result<Batch, LogFailure>> {
    let mut batch = Batch::empty(Position::default(), Timestamp::default());
    let mut next = records.next().await?;
    loop {
        match next {
            Ok(record) => batch.push(record),
            // Apply the records before it. It fails again, alone, once they are applied and the log is followed anew.
            Err(_) if !batch.records.is_empty() => return Some(Ok(batch)),
            Err(failure) => return Some(Err(failure)),
        }
        if batch.events.len() >= MOST_EVENTS {
            return Some(Ok(batch));
        }
        match records.next().now_or_never() {
            Some(Some(ready)) => next = ready,
            Some(None) | None => return Some(Ok(batch)),
        }
    }
}

impl Batch {
    /// An empty batch, at a position.
    pub(crate) const fn empty(end: Position, committed_at: Timestamp) -> Self {
        Self { records: vec![], events: vec![], end, committed_at }
    }

    /// Whether it was committed more than a second ago, so that the unit is catching up.
    pub(crate) fn is_old(&self) -> bool {
        clock::now().duration_since(self.committed_at) > SignedDuration::from_secs(1)
    }

    fn push(&mut self, record: Arc<Record>) {
        (self.end, self.committed_at) = (record.position(), record.committed_at());
        self.events.extend_from_slice(&record.events);
        self.records.push(record);
    }
}
