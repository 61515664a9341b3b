//! Batches: records that the log has ready, as many as one transaction should apply.

use std::{sync::Arc, time::Duration};

use base::clock;
use eventlog::{
    log::LogFailure,
    record::{Position, Record, Recorded},
};
use futures::{FutureExt, Stream, StreamExt};
use jiff::{SignedDuration, Timestamp};
use tokio::time::{Instant, timeout_at};

/// How many events a batch has at most, except where one record has more.
pub(crate) const MOST_EVENTS: usize = 1000;
/// How many events it has at most while a unit catches up. Those of one aggregate cost one write of a row, or one
/// document.
pub(crate) const MOST_OLD_EVENTS: usize = 10_000;
/// How large the payloads of a batch are at most, in bytes, except where one record has more.
const MOST_BYTES: usize = 4 << 20;
/// How long a batch waits for each further record, and how long in total, while a unit catches up.
const PATIENCE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(500));

/// The records of a log in batches.
pub(crate) struct Batches<S> {
    records: S,
    /// How many events a batch of old records has at most.
    most_old: usize,
    /// What has arrived of the next batch.
    arrived: Batch,
    /// The size of the payloads that have arrived, in bytes.
    bytes: usize,
    /// How long it may wait for further records.
    until: Instant,
}

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

impl<S: Stream<Item = Result<Arc<Record>, LogFailure>> + Unpin> Batches<S> {
    pub(crate) fn of(records: S, most_old: usize) -> Self {
        Self { records, most_old, arrived: Batch::default(), bytes: 0, until: Instant::now() }
    }

    /// Waits for the next record, and adds those that are ready after it, or soon if they are old; `None` when the log
    /// has ended. Nothing is lost if this is dropped before it completes.
    pub(crate) async fn next(&mut self) -> Option<Result<Batch, LogFailure>> {
        loop {
            let is_first = self.arrived.records.is_empty();
            let next = if is_first { self.records.next().await } else { self.further().await };
            match next {
                Some(Ok(record)) => self.push(record, is_first),
                Some(Err(failure)) if is_first => return Some(Err(failure)),
                None if is_first => return None,
                // A failure comes again, alone, once the records before it are applied and the log is followed anew.
                Some(Err(_)) | None => return Some(Ok(std::mem::take(&mut self.arrived))),
            }
        }
    }

    fn push(&mut self, record: Arc<Record>, is_first: bool) {
        if is_first {
            (self.bytes, self.until) = (0, Instant::now() + PATIENCE.1);
        }
        self.bytes += record.events.iter().map(|recorded| recorded.event.payload.len()).sum::<usize>();
        self.arrived.push(record);
    }

    /// Returns a further record for the batch; `None` if it has enough, or if there is none.
    async fn further(&mut self) -> Option<Result<Arc<Record>, LogFailure>> {
        let is_old = self.arrived.is_old();
        let most = if is_old { self.most_old } else { MOST_EVENTS };
        if self.arrived.events.len() >= most || self.bytes >= MOST_BYTES {
            return None;
        }
        match self.records.next().now_or_never() {
            None if is_old => {
                let until = self.until.min(Instant::now() + PATIENCE.0);
                timeout_at(until, self.records.next()).await.ok().flatten()
            }
            ready => ready.flatten(),
        }
    }
}

impl Default for Batch {
    fn default() -> Self {
        Self::empty(Position::default(), Timestamp::default())
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

#[cfg(test)]
mod tests {
    use eventlog::record::{CommitRecord, Event};
    use futures::{channel::mpsc, poll};

    use super::*;

    /// A record with this many events that was committed at a time.
    fn record(stream_sequence: u64, events: usize, committed_at: Timestamp) -> Arc<Record> {
        let event = Event { payload: vec![0; 1000].into(), ..Event::default() };
        let events = vec![event; events];
        let committed_at = committed_at.as_microsecond();
        let commit = CommitRecord { first_sequence: 1, events, committed_at, ..CommitRecord::default() };
        Arc::new(Record::new(stream_sequence, [0; 32], commit))
    }

    async fn sizes(records: impl Iterator<Item = Arc<Record>>) -> Vec<usize> {
        let mut batches = Batches::of(futures::stream::iter(records.map(Ok)), MOST_OLD_EVENTS);
        let mut found = vec![];
        while let Some(Ok(batch)) = batches.next().await {
            found.push(batch.events.len());
        }
        found
    }

    #[tokio::test]
    async fn old_records_make_large_batches_and_new_ones_small_ones() {
        let old = |number| record(number, 999, Timestamp::UNIX_EPOCH);
        assert_eq!(sizes((1..=12).map(old)).await, [4_995, 4_995, 1_998], "4 MiB of payloads are enough");
        let new = |number| record(number, 400, clock::now() + SignedDuration::from_hours(1));
        assert_eq!(sizes((1..=4).map(new)).await, [1200, 400]);
    }

    #[tokio::test]
    async fn what_has_arrived_is_there_though_nobody_waited() {
        let (mut log, records) = mpsc::unbounded();
        let mut batches = Batches::of(records, MOST_OLD_EVENTS);
        for number in 1..=3 {
            log.start_send(Ok(record(number, 1, Timestamp::UNIX_EPOCH))).expect("somebody listens");
            let mut next = Box::pin(batches.next());
            assert!(poll!(&mut next).is_pending(), "further old records may come");
        }
        let batch = batches.next().await.expect("it arrived").expect("nothing fails");
        let found: Vec<u64> = batch.records.iter().map(|record| record.stream_sequence).collect();
        assert_eq!(found, [1, 2, 3]);
    }

    #[tokio::test]
    async fn what_precedes_a_failure_is_applied() {
        let records = vec![Ok(record(1, 2, Timestamp::UNIX_EPOCH)), Err(LogFailure::Nats("it is gone".to_owned()))];
        let mut batches = Batches::of(futures::stream::iter(records), MOST_OLD_EVENTS);
        assert_eq!(batches.next().await.and_then(Result::ok).map(|batch| batch.events.len()), Some(2));
        assert!(batches.next().await.is_none(), "the log has to be followed anew");
    }
}
