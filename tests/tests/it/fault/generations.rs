//! Read models are built again beside those that answer, and replace them: nobody notices, whatever is killed.

use std::{
    os::unix::process::ExitStatusExt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    auditor::connect,
    client::{Client, TARGETS, created, post, send, target},
    cluster::Cluster,
    eventually, forge,
    load::Load,
    platform::Platform,
    process::run,
    servers::Servers,
};
use tokio::time::{Instant, interval};

use super::{
    mending::{FAILED, Failing, id_in},
    parking::{failed, name, rename},
};

pub(super) const VIEWS: &str = "/system/v1/views";
pub(super) const NEXT: &str = "VIEW_GENERATION_PLACE_NEXT";
pub(super) const PREVIOUS: &str = "VIEW_GENERATION_PLACE_PREVIOUS";
/// A size of the log, in bytes, for which a projector needs several batches.
const LARGE: usize = 24 * 1024 * 1024;
/// How long an exchange of generations may take. One that is given up because of locks or lag is refused before the
/// slack ends.
const EXCHANGED: Duration = Duration::from_secs(1);
/// How long a read may be delayed meanwhile.
const STALLED: Duration = Duration::from_millis(400);
const SLACK: u32 = 5;

/// Returns the generation of a view at a place, if there is one.
pub(super) async fn generation(operator: &Client, view: &str, place: &str) -> Option<Value> {
    let views = post(operator, &format!("{VIEWS}/_search"), json!({})).await.body;
    let of = views["result"].as_array()?.iter().find(|known| known["viewName"] == view)?;
    of["generations"].as_array()?.iter().find(|found| found["place"] == place).cloned()
}

/// Waits until a generation was compared with the active one, and returns it.
pub(super) async fn compared(operator: &Client, view: &str, place: &str) -> Value {
    let compared = async || generation(operator, view, place).await.filter(|found| found["verifiedAt"].is_string());
    eventually(&format!("{view} is compared"), compared).await
}

pub(super) async fn ask(operator: &Client, view: &str, what: &str) -> StatusCode {
    send(operator.request(Method::POST, &format!("{VIEWS}/{view}/{what}"))).await.status
}

/// Clients that do the same again and again, until they are ended.
pub(super) struct Clients {
    is_over: Arc<AtomicBool>,
    tasks: Vec<tokio::task::JoinHandle<(usize, Duration)>>,
}

impl Clients {
    /// Starts clients. Each returns how often it did something before it was over, and how long that took at most.
    pub(super) fn start<W: Future<Output = (usize, Duration)> + Send + 'static>(
        count: usize,
        work: impl Fn(usize, Arc<AtomicBool>) -> W,
    ) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let tasks = (0..count).map(|number| tokio::spawn(work(number, is_over.clone()))).collect();
        Self { is_over, tasks }
    }

    /// Ends the clients, and returns how often they did it, and how long it took at most.
    pub(super) async fn end(self) -> (usize, Duration) {
        self.is_over.store(true, Ordering::SeqCst);
        let (mut times, mut slowest) = (0, Duration::ZERO);
        for task in self.tasks {
            let (more, slow) = task.await.expect("nothing failed");
            (times, slowest) = (times + more, slowest.max(slow));
        }
        (times, slowest)
    }
}

/// Four clients that begin something anew this often do it 25 times a second.
const ROUND: Duration = Duration::from_millis(160);

/// Starts clients that create targets, and read each at once, eight times.
fn readers(client: &Client, count: usize) -> Clients {
    Clients::start(count, |number, is_over| {
        let client = client.reconnected();
        async move {
            let (mut reads, mut slowest) = (0, Duration::ZERO);
            let mut round = interval(ROUND);
            while !is_over.load(Ordering::SeqCst) {
                round.tick().await;
                let made = created(&client, TARGETS, target(&format!("read {number} {reads}"))).await;
                for _ in 0..8 {
                    let begin = Instant::now();
                    let read = client.get_target(&made.id(), Some(&made.consistency())).await;
                    assert_eq!(read.status, StatusCode::OK, "a write is seen by who knows of it: {}", read.body);
                    (reads, slowest) = (reads + 1, slowest.max(begin.elapsed()));
                }
            }
            (reads, slowest)
        }
    })
}

#[tokio::test]
async fn every_view_is_built_anew_and_exchanged_while_reads_and_writes_go_on() {
    let servers = Servers::start().await;
    let platform = Platform::start_with(&servers.flags(), &[]).await;
    platform.ready().await;
    let (client, operator) = (platform.client().await, platform.operator().await);
    // In all 200 reads and 50 writes a second.
    let load = Load::start_paced(&[client.reconnected()], 4, "load", ROUND);
    let readers = readers(&client, 4);
    load.creates(50).await;
    let views = ["targets", "history", "access", "ended", "executions", "settings", "idps", "sessions"];
    for view in views {
        assert_eq!(ask(&operator, view, "_replay").await, StatusCode::OK);
    }
    let mut slowest = Duration::ZERO;
    for view in views {
        let found = compared(&operator, view, NEXT).await;
        assert_eq!((&found["differingRows"], &found["failedEventCount"]), (&Value::Null, &Value::Null), "{found}");
        for (what, place) in [("_switch", PREVIOUS), ("_rollback", NEXT), ("_switch", PREVIOUS)] {
            let begin = Instant::now();
            let answer = send(operator.request(Method::POST, &format!("{VIEWS}/{view}/{what}"))).await;
            assert_eq!(answer.status, StatusCode::OK, "{view} {what}: {}", answer.body);
            slowest = slowest.max(begin.elapsed());
            assert!(generation(&operator, view, place).await.is_some(), "what answered before is kept");
            load.creates(20).await;
        }
        assert_eq!(ask(&operator, view, &format!("_verify?place={PREVIOUS}")).await, StatusCode::OK);
        let found = compared(&operator, view, PREVIOUS).await;
        assert_eq!(found["differingRows"], Value::Null, "{view} goes on where nobody reads it: {found}");
    }
    let (reads, slow) = readers.end().await;
    let told = load.finish().await;
    println!(
        "{reads} reads, the slowest {slow:?}, {} writes, the slowest exchange {slowest:?}",
        told.acknowledged.len()
    );
    assert!(slowest < EXCHANGED * SLACK && slow < STALLED * SLACK, "{slowest:?}, {slow:?}");
    assert!(told.refused.is_empty(), "{:?}", told.refused);
    let audit = tests::auditor::Audit::of(servers.nats().await).await;
    audit.assert_projected(&servers.places.postgres_url).await;

    for view in views {
        let dropped = send(operator.request(Method::POST, &format!("{VIEWS}/{view}/_drop?place={PREVIOUS}"))).await;
        assert_eq!(dropped.status, StatusCode::OK, "{}", dropped.body);
    }
    let left = "select count(*) from information_schema.schemata where schema_name ~ '_(next|previous|aside)_'";
    let row = connect(&servers.places.postgres_url).await.query_one(left, &[]).await.expect("Postgres answers");
    assert_eq!(row.get::<_, i64>(0), 0, "nothing is left of generations that were dropped");
}

#[tokio::test]
async fn what_is_left_out_is_left_out_of_a_generation_that_is_built_after_it() {
    let failing = Failing::start().await;
    let Failing { client, operator, .. } = &failing;
    let [a, b] = &failing.targets(["a", "b"]).await;
    failing.fails(true);
    rename(client, a, "a left out").await;
    let left_out = id_in(operator, "targets", a).await;
    let reason = json!({ "reason": "nobody needs it" });
    assert_eq!(post(operator, &format!("{FAILED}/{left_out}/_discard"), reason).await.status, StatusCode::OK);
    let is_left_out = async || failed(operator, json!([{ "viewName": "targets" }])).await.is_empty().then_some(());
    eventually("it is left out", is_left_out).await;
    failing.fails(false);
    rename(client, b, "b renamed").await;

    assert_eq!(ask(operator, "targets", "_replay").await, StatusCode::OK);
    let found = compared(operator, "targets", NEXT).await;
    assert_eq!((&found["differingRows"], &found["failedEventCount"]), (&Value::Null, &Value::Null), "{found}");
    assert_eq!(ask(operator, "targets", "_switch").await, StatusCode::OK);
    assert_eq!((name(client, a).await, name(client, b).await), (json!("a"), json!("b renamed")));
    rename(client, a, "a goes on").await;
    eventually("it goes on", async || (name(client, a).await == "a goes on").then_some(())).await;
}

#[tokio::test]
async fn a_generation_goes_on_where_its_projector_was_killed() {
    let cluster = Cluster::start_with_short_leases().await;
    let command = cluster.node("command", "command", &[], &[]);
    cluster.writes(&command).await;
    forge::append(cluster.servers.nats().await, &cluster.bootstrap.instance_id, LARGE).await;
    let mut projector = cluster.node("projector", "projector", &[], &[]);
    cluster.audit().await.wait_projected(&cluster.servers.places.postgres_url).await;
    projector.process.end().await;

    let database = view::database::Database::new(&cluster.servers.places.postgres_url, 2).expect("an address");
    let targets = view::projection::PROJECTIONS.iter().find(|known| known.name == "targets").expect("it is kept");
    assert!(view::generation::replay(&database, targets).await.expect("Postgres answers"));
    assert!(!view::generation::replay(&database, targets).await.expect("Postgres answers"), "it goes on");
    let mut before = 0;
    for time in 1..=5 {
        let mut projector =
            cluster.node("projector", &format!("{time}"), &[], &[("PLATFORM_FAULT", "project.committed:1:kill")]);
        assert_eq!(projector.process.ended().await.signal(), Some(9), "it died where it should, {time}");
        let now = next_generation_sequence(&database).await;
        assert!(before < now, "it was at {before} and is at {now}");
        before = now;
    }
    let _projector = cluster.node("projector", "the last one", &[], &[]);
    let found = async || {
        let all = view::generation::generations(&database, 0).await.expect("Postgres answers");
        all.into_iter().find_map(|generation| generation.verified)
    };
    let verified = eventually("it is compared", found).await;
    assert_eq!((verified.differing, verified.examples), (0, vec![]));
}

/// Returns the progress of the next generation of targets.
async fn next_generation_sequence(database: &view::database::Database) -> u64 {
    let all = view::generation::generations(database, 0).await.expect("Postgres answers");
    all[0].checkpoint.map_or(0, |checkpoint| checkpoint.position.sequence)
}

#[tokio::test]
async fn a_row_that_was_changed_by_hand_is_found_and_mended() {
    let servers = Servers::start().await;
    let platform = Platform::start_with(&servers.flags(), &[]).await;
    platform.ready().await;
    let client = platform.client().await;
    let id = client.create_target("true").await.expect("it is made");
    eventually("it is there", async || (name(&client, &id).await == "true").then_some(())).await;
    let postgres = connect(&servers.places.postgres_url).await;
    let alter =
        "update targets_1.targets set state = replace(state::text, '\"true\"', '\"false\"')::json where id = $1";
    assert_eq!(postgres.execute(alter, &[&id]).await.expect("Postgres takes it"), 1);
    assert_eq!(name(&client, &id).await, "false");

    let data = platform.data().display().to_string();
    let tool = |arguments: &[&str]| run(&[&["projections"], arguments, &["--data-dir", &data]].concat());
    let (is_done, said, told) = tool(&["replay", "targets", "--wait"]);
    assert!(is_done, "{said}{told}");
    let instance = &platform.bootstrap.instance_id;
    assert_eq!(
        said,
        format!("1 rows differ from the active generation, among them: targets {id} of instance {instance}\n")
    );
    assert!(told.contains("] 100 %"), "{told}");
    let (is_done, said, told) = tool(&["verify", "targets"]);
    assert!(!is_done && said.starts_with("1 rows differ") && told.contains("the generations differ"), "{said}{told}");
    let (_, said, _) = tool(&["list"]);
    assert!(said.contains("(100 %), 1 rows differ, 0 failed events"), "{said}");

    let (is_done, said, told) = tool(&["switch", "targets"]);
    assert!(is_done && said.starts_with("targets has switched"), "{said}{told}");
    assert_eq!(name(&client, &id).await, "true");
    assert!(tool(&["rollback", "targets"]).0);
    assert_eq!(name(&client, &id).await, "false");
    let (is_done, _, told) = tool(&["rollback", "targets"]);
    assert!(!is_done && told.contains("there is no previous generation"), "what is asked twice is not undone: {told}");
    assert!(tool(&["switch", "targets"]).0);
    assert_eq!(name(&client, &id).await, "true");
    let (is_done, said, _) = tool(&["status", "targets"]);
    assert!(is_done && said.contains(PREVIOUS) && !said.contains(NEXT), "{said}");
    assert!(tool(&["drop", "targets", "--previous"]).0);

    for (arguments, wanted) in [
        (&["switch", "targets"][..], "replay it first"),
        (&["rollback", "targets"], "there is no previous generation"),
        (&["drop", "targets"], "replay it first"),
        (&["verify", "targets"], "replay it first"),
        (&["replay", "target"], "view not found"),
        (&["status", "target"], "there is no projection target"),
    ] {
        let (is_done, _, told) = tool(arguments);
        assert!(!is_done && told.contains(wanted), "{arguments:?}: {told}");
    }
}

#[tokio::test]
async fn a_generation_that_fails_does_not_answer_unless_it_is_told_to() {
    let failing = Failing::start().await;
    let (client, operator) = (&failing.client, &failing.operator);
    let id = client.create_target("kept").await.expect("it is made");
    eventually("it is there", async || (name(client, &id).await == "kept").then_some(())).await;

    failing.fails(true);
    assert_eq!(ask(operator, "targets", "_replay").await, StatusCode::OK);
    let fails = async || (generation(operator, "targets", NEXT).await?["failedEventCount"] == "1").then_some(());
    eventually("it fails", fails).await;
    let failed = post(operator, "/system/v1/failedevents/_search", json!({})).await;
    assert_eq!(failed.body["details"]["totalResult"], "0", "what answers has not failed: {}", failed.body);
    compared(operator, "targets", NEXT).await;
    let refused = send(operator.request(Method::POST, &format!("{VIEWS}/targets/_switch"))).await;
    refused.assert_refused("it fails", 400, "PRECONDITION_FAILED");
    assert_eq!(name(client, &id).await, "kept");

    // Who insists gets what there is, and the way back.
    assert_eq!(ask(operator, "targets", "_switch?force=true").await, StatusCode::OK);
    let gone = client.get_target(&id, None).await;
    gone.assert_refused("its row is not there", 404, "RESOURCE_NOT_FOUND");
    assert_eq!(ask(operator, "targets", "_rollback").await, StatusCode::OK);
    assert_eq!(name(client, &id).await, "kept");

    // A build that can do it does.
    failing.fails(false);
    assert_eq!(ask(operator, "targets", "_drop").await, StatusCode::OK);
    assert_eq!(ask(operator, "targets", "_replay").await, StatusCode::OK);
    assert_eq!(compared(operator, "targets", NEXT).await["differingRows"], Value::Null);
    assert_eq!(ask(operator, "targets", "_switch").await, StatusCode::OK);
    assert_eq!(name(client, &id).await, "kept");
}

#[tokio::test]
async fn a_node_is_not_ready_before_its_read_models_were_complete_once() {
    let cluster = Cluster::start().await;
    let postgres = connect(&cluster.servers.places.postgres_url).await;
    postgres.batch_execute("drop schema idps_1 cascade").await.expect("Postgres takes it");
    let [query, oidc] = ["query", "oidc"].map(|role| cluster.node(role, role, &[], &[]));
    for node in [&query, &oidc] {
        let waits = async || {
            let reason = node.management.check("node").await?["reason"].as_str()?.to_owned();
            reason.ends_with("for the first time: idps").then_some(())
        };
        eventually("it waits", waits).await;
        assert_eq!(node.management.readiness().await.map(|(status, _)| status), Some(503));
    }
    let _projector = cluster.node("projector", "projector", &[], &[]);
    for node in [&query, &oidc] {
        cluster.is_ready(node).await;
    }
    let late = cluster.node("query", "late", &[], &[]);
    cluster.is_ready(&late).await;
}
