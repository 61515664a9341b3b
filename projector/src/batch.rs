//! Batches: records that the log has ready, as many as one transaction should apply.

use std::{sync::Arc, time::Duration};

use base::clock;
use eventlog::{
    log::{Log, LogFailure},
    record::{Position, Record, Recorded},
};
use futures::{FutureExt, Stream, StreamExt};
use jiff::{SignedDuration, Timestamp};
use tokio::time::{Instant, timeout_at};

/// A batch that has this many events gets no further record.
pub(crate) const MOST_EVENTS: usize = 1000;
/// A batch that has this many events gets no further record while its unit catches up. Those of one aggregate cost one
/// write of a row, or one document.
pub(crate) const MOST_OLD_EVENTS: usize = 10_000;
/// A batch with so large payloads gets no further record, in bytes.
const MOST_BYTES: usize = 4 << 20;
/// How long a batch waits for each further record, and how long it is collected in total, while its unit catches up.
const PATIENCE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(500));

/// The records of a log in batches.
pub(crate) struct Batches<S> {
    records: S,
    /// The stream sequence of the last record that the log had when it was followed: up to there the records are old.
    pub(crate) end: u64,
    /// How many events a batch of old records has at most.
    most_old: usize,
    /// What has arrived of the next batch.
    arrived: Batch,
    /// Why the records ended.
    failed: Option<LogFailure>,
    /// The size of the payloads that have arrived, in bytes.
    bytes: usize,
    /// How long it waits for the next record, and how long it is collected in total.
    until: (Instant, Instant),
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

/// Follows a log from a position on, in batches.
pub(crate) async fn follow(
    log: &Log,
    from: Position,
    most_old: usize,
) -> Result<Batches<impl Stream<Item = Result<Arc<Record>, LogFailure>> + Unpin + use<>>, LogFailure> {
    let end = log.end().await?;
    Ok(Batches::of(log.follow(from).await?, end, most_old))
}

impl<S: Stream<Item = Result<Arc<Record>, LogFailure>> + Unpin> Batches<S> {
    fn of(records: S, end: u64, most_old: usize) -> Self {
        let now = Instant::now();
        Self { records, end, most_old, arrived: Batch::default(), failed: None, bytes: 0, until: (now, now) }
    }

    /// Waits for the next record, and adds those that are ready after it, or soon while there are old ones; `None` when the
    /// log has ended. Nothing is lost if this is dropped before it completes.
    pub(crate) async fn next(&mut self) -> Option<Result<Batch, LogFailure>> {
        loop {
            let is_first = self.arrived.records.is_empty();
            let next = if is_first { self.records.next().await } else { self.further().await };
            match next {
                Some(Ok(record)) => self.push(record, is_first),
                None if is_first => return self.failed.clone().map(Err),
                None => return Some(Ok(std::mem::take(&mut self.arrived))),
                // What precedes a failure is applied, and committed, before; then it is returned as often as somebody asks.
                Some(Err(failure)) => self.failed = Some(failure),
            }
        }
    }

    /// Adds the records that come until then to a batch, as far as it has room.
    pub(crate) async fn gathered(&mut self, batch: Batch, until: Instant) -> Batch {
        // Instead of a batch there may be something to be tried again, while records have begun to arrive.
        if batch.records.is_empty() {
            return batch;
        }
        self.arrived = batch;
        while !self.is_full() {
            match timeout_at(until, self.records.next()).await {
                Ok(Some(Ok(record))) => self.push(record, false),
                Ok(Some(Err(failure))) => {
                    self.failed = Some(failure);
                    break;
                }
                Ok(None) | Err(_) => break,
            }
        }
        std::mem::take(&mut self.arrived)
    }

    fn push(&mut self, record: Arc<Record>, is_first: bool) {
        let now = Instant::now();
        if is_first {
            (self.bytes, self.until.1) = (0, now + PATIENCE.1);
        }
        self.until.0 = (now + PATIENCE.0).min(self.until.1);
        self.bytes += record.events.iter().map(|recorded| recorded.event.payload.len()).sum::<usize>();
        self.arrived.push(record);
    }

    /// Returns a further record for the batch; `None` if it has enough, or if there is none.
    async fn further(&mut self) -> Option<Result<Arc<Record>, LogFailure>> {
        if self.is_full() || Instant::now() > self.until.1 {
            return None;
        }
        match self.records.next().now_or_never() {
            None if self.is_behind() => timeout_at(self.until.0, self.records.next()).await.ok().flatten(),
            ready => ready.flatten(),
        }
    }

    fn is_full(&self) -> bool {
        let most = if self.is_behind() || self.arrived.is_old() { self.most_old } else { MOST_EVENTS };
        self.arrived.events.len() >= most || self.bytes >= MOST_BYTES
    }

    /// Whether further records were there already when the log was followed. The clock does not tell: a batch of a node
    /// whose clock is ahead must not wait.
    fn is_behind(&self) -> bool {
        self.arrived.end.stream_sequence < self.end
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
    use std::task::Poll;

    use eventlog::record::{CommitRecord, Event};
    use futures::{channel::mpsc, poll};

    use super::*;

    /// A record that was committed at a time, with this many events of this many bytes.
    fn record(stream_sequence: u64, [count, size]: [usize; 2], committed_at: Timestamp) -> Arc<Record> {
        let event = Event { payload: vec![0; size].into(), ..Event::default() };
        let events = vec![event; count];
        let committed_at = committed_at.as_microsecond();
        let commit = CommitRecord { first_sequence: 1, events, committed_at, ..CommitRecord::default() };
        Arc::new(Record::new(stream_sequence, [0; 32], commit))
    }

    /// The sizes of the batches of records that are all ready, in a log that ends somewhere.
    async fn sizes(end: u64, records: impl Iterator<Item = Arc<Record>>) -> Vec<usize> {
        let mut batches = Batches::of(futures::stream::iter(records.map(Ok)), end, MOST_OLD_EVENTS);
        let mut found = vec![];
        while let Some(Ok(batch)) = batches.next().await {
            found.push(batch.events.len());
        }
        found
    }

    #[tokio::test]
    async fn old_records_make_large_batches_and_new_ones_small_ones() {
        let now = || clock::now() + SignedDuration::from_hours(1);
        let large = |number| record(number, [999, 1000], now());
        assert_eq!(sizes(12, (1..=12).map(large)).await, [4_995, 4_995, 1_998], "4 MiB of payloads are enough");
        let small = |number| record(number, [4000, 10], now());
        assert_eq!(sizes(4, (1..=4).map(small)).await, [12_000, 4_000], "10,000 events are enough");
        let new = |number| record(number, [400, 1000], now());
        assert_eq!(sizes(0, (1..=4).map(new)).await, [1200, 400]);
        let late = |number| record(number, [400, 1000], Timestamp::UNIX_EPOCH);
        assert_eq!(sizes(0, (1..=4).map(late)).await, [1600], "a unit that falls back catches up in large batches");
    }

    #[tokio::test]
    async fn only_what_is_before_the_end_of_the_log_waits_for_further_records() {
        let (mut log, records) = mpsc::unbounded();
        let mut batches = Batches::of(records, 3, MOST_OLD_EVENTS);
        let mut put = |number| {
            log.start_send(Ok(record(number, [1, 1], Timestamp::UNIX_EPOCH))).expect("somebody listens");
        };
        for number in 1..=2 {
            put(number);
            assert!(poll!(Box::pin(batches.next())).is_pending(), "further old records may come");
        }
        // What has arrived is there, though nobody waited for it.
        put(3);
        let sequences = |batch: Batch| batch.records.iter().map(|record| record.stream_sequence).collect::<Vec<_>>();
        let batch = poll!(Box::pin(batches.next()));
        assert_eq!(batch.map(|batch| batch.and_then(Result::ok).map(sequences)), Poll::Ready(Some(vec![1, 2, 3])));
        put(4);
        let batch = poll!(Box::pin(batches.next()));
        assert_eq!(batch.map(|batch| batch.and_then(Result::ok).map(sequences)), Poll::Ready(Some(vec![4])));
    }

    #[tokio::test]
    async fn a_batch_gathers_records_until_it_is_full_or_the_time_is_over() {
        let (mut log, records) = mpsc::unbounded();
        let mut batches = Batches::of(records, 0, MOST_OLD_EVENTS);
        let mut put = |number, count| {
            let record = record(number, [count, 1], clock::now() + SignedDuration::from_hours(1));
            log.start_send(Ok(record)).expect("somebody listens");
        };
        put(1, 1);
        let first = batches.next().await.and_then(Result::ok).expect("it is there");
        let mut gathering = Box::pin(batches.gathered(first, Instant::now() + PATIENCE.0));
        assert!(poll!(&mut gathering).is_pending());
        put(2, 1);
        let begun = Instant::now();
        let second = gathering.await;
        assert_eq!((second.records.len(), second.events.len()), (2, 2));
        assert!(begun.elapsed() >= PATIENCE.0 / 2, "more could have come");
        put(3, 999);
        put(4, 1);
        let third = batches.gathered(second, Instant::now() + PATIENCE.1 * 100).await;
        assert_eq!((third.records.len(), third.end.stream_sequence), (3, 3), "1,000 events are enough");
        let fourth = batches.next().await.and_then(Result::ok).expect("it is there");
        assert_eq!(fourth.end.stream_sequence, 4, "nothing is lost");
    }

    #[tokio::test]
    async fn nothing_that_arrived_is_lost_while_something_is_tried_again() {
        let (mut log, records) = mpsc::unbounded();
        let mut batches = Batches::of(records, 3, MOST_OLD_EVENTS);
        log.start_send(Ok(record(1, [1, 1], Timestamp::UNIX_EPOCH))).expect("somebody listens");
        assert!(poll!(Box::pin(batches.next())).is_pending(), "further old records may come");
        let empty = Batch::empty(Position::default(), Timestamp::UNIX_EPOCH);
        assert!(batches.gathered(empty, Instant::now() + PATIENCE.0).await.records.is_empty());
        assert_eq!(batches.next().await.and_then(Result::ok).map(|batch| batch.end.stream_sequence), Some(1));
    }

    #[tokio::test]
    async fn a_wait_for_old_records_ends() {
        let (mut log, records) = mpsc::unbounded();
        let mut batches = Batches::of(records, 3, MOST_OLD_EVENTS);
        log.start_send(Ok(record(1, [1, 1], Timestamp::UNIX_EPOCH))).expect("somebody listens");
        let begin = Instant::now();
        // Waits that are given up do not begin anew.
        while timeout_at(Instant::now() + PATIENCE.0 / 5, batches.next()).await.is_err() {}
        assert!((PATIENCE.0..).contains(&begin.elapsed()), "{:?}", begin.elapsed());
        assert!(poll!(Box::pin(batches.next())).is_pending(), "it was one record");
    }

    #[tokio::test]
    async fn what_precedes_a_failure_is_applied() {
        let records =
            vec![Ok(record(1, [2, 1], Timestamp::UNIX_EPOCH)), Err(LogFailure::Nats("it is gone".to_owned()))];
        let mut batches = Batches::of(futures::stream::iter(records), 3, MOST_OLD_EVENTS);
        assert_eq!(batches.next().await.and_then(Result::ok).map(|batch| batch.events.len()), Some(2));
        for _ in 0..2 {
            let failure = batches.next().await.and_then(Result::err).map(|failure| failure.to_string());
            assert!(failure.is_some_and(|failure| failure.contains("it is gone")), "the log has to be followed anew");
        }
    }
}
