//! One event that fails among many that do not.

use std::time::Duration;

use domain::resource::target::Target;
use eventlog::record::Event;
use jiff::SignedDuration;
use serde_json::{Value, json};
use tests::{
    auditor::connect,
    client::{TARGETS, post},
    cluster::Cluster,
    eventually,
    forge::{self, Appending},
};
use tokio::time::{Instant, interval, sleep};
use view::{
    progress::Progress,
    projection::{index_of, rows_of},
};

/// The number of events of a record, which is never divided: of a batch, if it is alone.
const OF_BATCH: u64 = 1000;
/// How many targets change while one is parked, how many in each record, and how often one comes.
const OTHERS: u64 = 10_000;
const AT_ONCE: u64 = 100;
const EVERY: Duration = Duration::from_millis(100);
/// How soon a failed event is recorded.
const SEEN: Duration = Duration::from_secs(1);
/// How far the others may lag meanwhile.
const BEHIND: Duration = Duration::from_secs(1);
const SLACK: u32 = 5;
/// The views of targets.
const BOTH: [&str; 2] = ["targets", "targets_index"];

#[tokio::test]
async fn one_event_that_fails_in_the_middle_of_a_batch_of_a_thousand_leaves_the_others() {
    let cluster = Cluster::start().await;
    let instance_id = &cluster.bootstrap.instance_id;
    let mut log = Appending::begin(cluster.servers.nats().await).await;
    let id = |batch: u64, number: u64| format!("{batch}{number:017}");
    // One that Postgres refuses, and one that cannot be read.
    let [refused, unreadable] = [id(1, OF_BATCH / 2), id(2, OF_BATCH / 2)];
    let _projector = cluster.node("projector", "projector", &[], &[]);
    for batch in 1..=2 {
        let event = |number: u64| {
            let id = id(batch, number);
            let name = if id == refused { "a\0b" } else { "good" };
            let event = forge::named(instance_id, (&id, 1), name);
            if id == unreadable { Event { payload: "{".into(), ..event } } else { event }
        };
        // Each is applied before the next one is there.
        log.put((0..OF_BATCH).map(event).collect(), SignedDuration::ZERO).await;
        cluster.audit().await.wait_projected(&cluster.servers.places.postgres_url).await;
    }
    let postgres = connect(&cluster.servers.places.postgres_url).await;
    let text = "select projection, aggregate_id from platform.failed_events order by 2, 1";
    let expected = [("targets", &refused), ("targets", &unreadable), ("targets_index", &unreadable)];
    let all = async || {
        let rows = postgres.query(text, &[]).await.ok()?;
        let found: Vec<(String, String)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        (found == expected.map(|(view, id)| (view.to_owned(), id.clone()))).then_some(())
    };
    eventually("those fail and no others", all).await;
    for (batch, failed) in [(1, &refused), (2, &unreadable)] {
        let text = "select id from targets_1.targets where id between $1 and $2 order by id";
        let (first, last) = (id(batch, 0), id(batch, OF_BATCH - 1));
        let rows = postgres.query(text, &[&first, &last]).await.expect("the table is there");
        let found: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        let others: Vec<String> = (0..OF_BATCH).map(|number| id(batch, number)).filter(|id| id != failed).collect();
        assert!(found == others && others.len() == 999, "{} of batch {batch} are there", found.len());
    }

    // The index takes what Postgres refuses.
    let query = cluster.node("query", "query", &[], &[]);
    let client = cluster.client(&query);
    cluster.searches(&client).await;
    let found = async |id: &str| {
        let found = post(&client, &format!("{TARGETS}/_search"), json!([{ "inIds": { "ids": [id] } }])).await.body;
        found["result"].as_array().map(Vec::len).unwrap_or_default()
    };
    eventually("the search finds it", async || (found(&refused).await == 1).then_some(())).await;
    assert_eq!(found(&unreadable).await, 0);
    let total: Value =
        post(&client, &format!("{TARGETS}/_search"), json!([])).await.body["details"]["totalResult"].clone();
    assert_eq!(total, json!((2 * OF_BATCH - 1).to_string()));
    assert_eq!(client.get_target(&refused, None).await.status, 404);
}

/// The views that have parked something.
async fn parked(postgres: &tokio_postgres::Client) -> Vec<String> {
    let text = "select projection from platform.failed_events order by projection";
    let rows = postgres.query(text, &[]).await.expect("the table is there");
    rows.iter().map(|row| row.get(0)).collect()
}

#[tokio::test]
async fn others_are_hardly_behind_while_one_is_parked() {
    let cluster = Cluster::start().await;
    let instance_id = &cluster.bootstrap.instance_id;
    let postgres = connect(&cluster.servers.places.postgres_url).await;
    let progress = Progress::listen(&cluster.servers.nats().await, 0).await.expect("NATS is there");
    let views = [rows_of::<Target>(), index_of::<Target>()].map(|view| progress.of(view));
    let reached = || views.iter().map(|view| view.borrow().sequence).min().unwrap_or_default();
    let mut log = Appending::begin(cluster.servers.nats().await).await;
    let records = |version: u64, name: &'static str| {
        let event = move |number: u64| forge::named(instance_id, (&format!("1{number:017}"), version), name);
        (0..OTHERS / AT_ONCE)
            .map(move |record| (record * AT_ONCE..(record + 1) * AT_ONCE).map(event).collect::<Vec<_>>())
    };
    log.put(vec![forge::named(instance_id, ("2", 1), "poisoned")], SignedDuration::ZERO).await;
    for events in records(1, "before") {
        log.put(events, SignedDuration::ZERO).await;
    }
    let _projector = cluster.node("projector", "projector", &[], &[]);
    let end = log.end();
    eventually("all have rows and documents", async || (reached() >= end).then_some(())).await;
    let poison = Event { payload: "{".into(), ..forge::named(instance_id, ("2", 2), "") };
    log.put(vec![poison], SignedDuration::ZERO).await;
    let begin = Instant::now();
    eventually("one is parked", async || (parked(&postgres).await == BOTH).then_some(())).await;
    println!("it was parked {:?} after it was in the log", begin.elapsed());
    assert!(begin.elapsed() < SEEN * SLACK);

    let (sender, mut committed) = tokio::sync::mpsc::unbounded_channel();
    let records: Vec<_> = records(2, "after").collect();
    let poisoned = |version| forge::named(instance_id, ("2", version), "waits");
    let writing = async {
        let mut ticks = interval(EVERY);
        for (version, mut events) in (3..).zip(records) {
            ticks.tick().await;
            events.push(poisoned(version));
            log.put(events, SignedDuration::ZERO).await;
            sender.send((log.end(), Instant::now())).expect("it is listened to");
        }
        drop(sender);
    };
    let watching = async {
        let (mut behind, mut sum, mut count) = (Duration::ZERO, Duration::ZERO, 0);
        while let Some((end, at)) = committed.recv().await {
            while reached() < end {
                sleep(Duration::from_millis(2)).await;
            }
            let lag = at.elapsed();
            (behind, sum, count) = (behind.max(lag), sum + lag, count + 1);
        }
        (behind, sum / count)
    };
    let ((), (behind, mean)) = tokio::join!(writing, watching);
    println!("others were behind by {behind:?} at most, {mean:?} on average, while one was parked");
    let text = "select count(*) filter (where state::jsonb->>'name' = 'after'), count(*) from targets_1.targets";
    let row = postgres.query_one(text, &[]).await.expect("the table is there");
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (10_000, 10_001));
    assert_eq!(parked(&postgres).await, BOTH, "it is parked still");
    assert!(behind < BEHIND * SLACK, "{behind:?}");
}
