//! Readers of one process share their reads of the log, and each gets all of it, whatever its place and its pace.

use std::time::Duration;

use domain::log_class::LogClass;
use eventlog::{
    log::Log,
    record::{Event, Position},
};
use futures::StreamExt;
use tests::{
    forge::{Forged, changed},
    servers::Servers,
};
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{sleep, timeout},
};

const EARLY: u64 = 200;
const LATE: u64 = 600;
/// The size of each event in bytes: more arrive late than is buffered for a slow reader.
const LARGE: usize = 16 * 1024;

/// A reader of a log.
struct Reader {
    task: JoinHandle<Vec<Position>>,
    /// The progress of the reader, once it follows the log.
    place: watch::Receiver<Option<u64>>,
}

impl Reader {
    /// Reads the log from a position to an end, with a pause after a number of records, and checks that it is complete.
    fn start(log: &Log, from: Position, end: u64, (pause, every): (Duration, u64)) -> Self {
        let (log, (known, place)) = (log.clone(), watch::channel(None));
        let task = tokio::spawn(async move {
            let mut records = log.follow(from).await.expect("the log can be read");
            let mut read = vec![from];
            known.send_replace(Some(from.stream_sequence));
            for place in from.stream_sequence + 1..=end {
                let record = records.next().await.expect("it goes on").expect("it is whole");
                assert_eq!(record.stream_sequence, place);
                read.push(record.position());
                known.send_replace(Some(place));
                if place % every == 0 {
                    sleep(pause).await;
                }
            }
            read
        });
        Self { task, place }
    }

    /// Waits until the reader has reached a place.
    async fn wait_for_place(&mut self, wanted: u64) {
        let reached = self.place.wait_for(|place| place.is_some_and(|place| place >= wanted));
        timeout(Duration::from_mins(1), reached).await.expect("it reads in time").expect("it reads");
    }

    /// Returns the positions of all records that it has read.
    async fn read(self) -> Vec<Position> {
        self.task.await.expect("it reads everything")
    }
}

fn large(version: u64) -> Vec<Event> {
    vec![Event { payload: vec![b' '; LARGE].into(), ..changed("a", version) }]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_reader_hears_everything_in_order_and_nats_sends_it_once() {
    let servers = Servers::start().await;
    let mut forged = Forged::begin(servers.nats().await).await;
    for version in 1..=EARLY {
        forged.put(large(version), |_| {}).await;
    }
    let log = Log::find(servers.nats_as("readers").await, LogClass::Events, 0).await.expect("there is a log");
    // The barrier is the first record.
    let (middle, end) = (1 + EARLY, 1 + EARLY + LATE);
    let at_once = (Duration::ZERO, 1);
    let known = Reader::start(&log, Position::default(), middle, at_once).read().await;
    let at = |place: u64| known[usize::try_from(place).expect("it is small")];

    let mut readers: Vec<_> = (0..8).map(|_| Reader::start(&log, at(middle), end, at_once)).collect();
    let (early, between) = (Position::default(), at(middle / 2));
    readers.push(Reader::start(&log, early, end, at_once));
    readers.push(Reader::start(&log, between, end, (Duration::from_millis(1), 1)));
    // It loses sight of the others every time.
    readers.push(Reader::start(&log, at(middle), end, (Duration::from_secs(2), 150)));
    for reader in &mut readers {
        reader.wait_for_place(middle).await;
    }
    let before = servers.sent_to("readers").await;
    for version in EARLY + 1..=EARLY + LATE {
        forged.put(large(version), |_| {}).await;
    }
    let mut read = vec![];
    for reader in readers {
        read.push(reader.read().await);
    }
    assert!(read.iter().all(|one| one.last() == read[0].last()), "all of them end at the same record");
    let sent = servers.sent_to("readers").await - before;
    println!("{sent} bytes were sent for {LATE} records of {LARGE} bytes and {} readers", read.len());
    assert!(sent < 4 * LATE * LARGE as u64, "the readers at the end share what comes");

    // Nobody listens any more. Who begins together shares what was there before, too.
    let before = servers.sent_to("readers").await;
    let together: Vec<_> = (0..8).map(|_| Reader::start(&log, early, end, at_once)).collect();
    for reader in together {
        assert_eq!(reader.read().await.last(), read[0].last());
    }
    let sent = servers.sent_to("readers").await - before;
    println!("{sent} bytes were sent for {end} records and 8 readers that began together");
    assert!(sent < 3 * end * LARGE as u64, "readers that begin together share what there is");

    // Who comes then hears what comes then.
    let last = read[0].last().copied().expect("it has read");
    let mut again = Reader::start(&log, last, end + 2, at_once);
    again.wait_for_place(end).await;
    for version in 1..=2 {
        forged.put(large(EARLY + LATE + version), |_| {}).await;
    }
    assert_eq!(again.read().await.len(), 3);
}
