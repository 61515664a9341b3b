//! Rebuild: the read models of a long log, of ten kinds of objects, are built again after all of Postgres is lost.

use std::time::{Duration, Instant};

use base::secret;
use domain::log_class::LogClass;
use eventlog::{
    log::Log,
    record::{Event, Position, Record},
};
use index::{Folder, Layout, Writer};
use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};
use tests::{
    auditor::connect,
    client::{Client, done, send, target},
    cluster::Cluster,
    idp::config,
    process::server,
    servers::drop_indexes,
};
use tokio::time::sleep;
use view::{
    projection::{Kind, Projection, following},
    table::Table,
};

use crate::{cpu, generator::Generator};

/// How many events a record has, and how many an object.
const OF_RECORD: usize = 20;
const OF_OBJECT: usize = 4;
/// How many objects change in turns.
const IN_TURNS: usize = 1000;
/// The first id of a copied object.
const FIRST_ID: u64 = 900_000_000_000_000_000;
/// How often to check whether everything is there.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
const RESOURCES: &str = "/resources/v3alpha";
/// About how many documents of an index a page of the scrubber has: of 100 aggregates of all kinds.
const PAGE: usize = 10;

/// Measures how a projector makes rows and documents of a log with this many events, then rows alone, then documents
/// alone.
pub(crate) async fn measure(events: usize) {
    let cluster = Cluster::start().await;
    let log = Log::open(cluster.servers.nats().await, LogClass::Events, 0, 1).await.expect("the log can be opened");
    let templates = templates(&cluster, &log).await;
    let begin = Instant::now();
    generate(&log, &templates, events).await;
    println!("\nrebuild: {events} events of {} kinds, written in {:.0?}", templates.len(), begin.elapsed());
    for what in ["with indexes meanwhile", "rows alone", "rows alone"] {
        rebuild(&cluster, &log, what).await;
    }
    let ours = rebuild_indexes(&cluster, &log).await;
    let Bare { written: bare, digested, compared, documents } = bare_indexes(&records(&log).await);
    println!(
        "indexes alone: {ours:.1?} CPU of the projector; {bare:.1?} CPU of tantivy alone, with each document once and one \
         commit: {:.2} times (to reach: 1.3)",
        ours.as_secs_f64() / bare.as_secs_f64()
    );
    let [digested, compared] = [digested, compared].map(|used| used.as_secs_f64() * 1e6 / f64::from(documents));
    println!(
        "scrubber: {digested:.1} µs CPU a document for the digests of the indexes, {compared:.1} µs for those of a page \
         of what should be there"
    );
}

/// What indexes cost without a projector.
#[derive(Default)]
struct Bare {
    written: Duration,
    digested: Duration,
    compared: Duration,
    documents: u32,
}

/// Creates an object of each kind, changes it, and returns its events. Its nodes are gone afterwards.
async fn templates(cluster: &Cluster, log: &Log) -> Vec<Vec<Event>> {
    let (command, _projector) = (cluster.node("command", "w", &[], &[]), cluster.node("projector", "p", &[], &[]));
    cluster.writes(&command).await;
    let client = cluster.client(&command);
    let create = async |path: &str, body: Value| done(&client, &format!("{RESOURCES}/{path}"), body).await.id();
    let project = create("projects", json!({ "name": "of others" })).await;
    for key in ["a", "b"] {
        create("roles", json!({ "projectId": project, "key": key, "displayName": key })).await;
    }
    let user = create("users", json!({ "username": "of-others", "service": {} })).await;
    let organization = create("organizations", json!({ "name": "of others" })).await;
    let granted = ["a", "b"].map(|key| json!({ "roleKeys": { "values": [key] } }));
    let named = ["name", "another name"].map(|name| json!({ "name": name }));
    let role = json!({ "projectId": project, "key": "c", "displayName": "c" });
    let grant = json!({ "projectId": project, "orgId": organization, "roleKeys": [] });
    let user_grant = json!({ "userId": user, "projectId": project, "roleKeys": [] });
    let membership = json!({ "userId": user, "roles": ["IAM_OWNER_VIEWER"] });
    let kinds = [
        ("targets", target("a target"), named.clone()),
        ("organizations", json!({ "name": "an organization" }), named.clone()),
        (
            "users",
            json!({ "username": "a-user", "service": {} }),
            ["b-user", "c-user"].map(|name| json!({ "username": name })),
        ),
        ("projects", json!({ "name": "a project" }), named.clone()),
        ("roles", role, ["d", "e"].map(|name| json!({ "displayName": name }))),
        ("apps", json!({ "projectId": project, "name": "an app", "api": {} }), named.clone()),
        ("project_grants", grant, granted.clone()),
        ("user_grants", user_grant, granted),
        ("memberships", membership, ["IAM_OWNER", "IAM_USER_MANAGER"].map(|role| json!({ "roles": [role] }))),
        (
            "idps/jwt",
            json!({ "idp": { "name": "a provider" }, "config": config("jwt") }),
            named.map(|idp| json!({ "idp": idp })),
        ),
    ];
    let mut ids = vec![];
    for (path, body, [one, other]) in kinds {
        let id = create(path, body).await;
        for change in [&one, &other, &one] {
            changed(&client, &format!("{RESOURCES}/{path}/{id}"), change).await;
        }
        ids.push(id);
    }
    let records = records(log).await;
    let events_of = |id: &String| {
        records
            .iter()
            .flat_map(|record| &record.events)
            .filter(|it| it.event.aggregate_id == *id)
            .map(|it| it.event.clone())
            .take(OF_OBJECT)
            .collect()
    };
    let templates: Vec<Vec<Event>> = ids.iter().map(events_of).collect();
    assert!(templates.iter().all(|events| events.len() == OF_OBJECT), "each change is an event");
    templates
}

async fn changed(client: &Client, path: &str, change: &Value) {
    let answer = send(client.request(Method::PATCH, path).json(change)).await;
    assert!(answer.status.is_success(), "{path} {change}: {}", answer.body);
}

/// Reads the complete log.
pub(crate) async fn records(log: &Log) -> Vec<Record> {
    let end = log.end().await.expect("it can be read");
    let mut found = vec![];
    for stream_sequence in 1..=end {
        found.extend(log.read(stream_sequence).await.expect("it can be read"));
    }
    found
}

/// Appends copies of objects to the log, whose events come in turns.
async fn generate(log: &Log, templates: &[Vec<Event>], events: usize) {
    let mut writer = Generator::begin(log).await;
    let turns: Vec<Vec<&Event>> =
        (0..OF_OBJECT).map(|turn| templates.iter().map(|events| &events[turn]).collect()).collect();
    let (mut objects, mut filled) = (0, vec![]);
    while objects * OF_OBJECT < events {
        for (turn, events) in turns.iter().enumerate() {
            for number in objects..objects + IN_TURNS {
                filled.push(copied(events[number % events.len()], turn, number as u64));
                if filled.len() == OF_RECORD {
                    writer.put(std::mem::take(&mut filled)).await;
                }
            }
        }
        objects += IN_TURNS;
    }
    writer.put(filled).await;
    writer.stored().await;
}

/// Returns an event of a template as one of another object.
fn copied(template: &Event, turn: usize, number: u64) -> Event {
    let id = (FIRST_ID + number).to_string();
    let payload = String::from_utf8_lossy(&template.payload).replace(&template.aggregate_id, &id);
    // The claims of a turn are released by the next one.
    let claim = |turn: usize, place: usize| secret::sha256(format!("{id} {turn} {place}").as_bytes()).to_vec().into();
    let claims_taken = (0..template.claims_taken.len()).map(|place| claim(turn, place)).collect();
    let claims_released =
        (0..template.claims_released.len()).map(|place| claim(turn.saturating_sub(1), place)).collect();
    Event {
        id: secret::random_text(22),
        aggregate_id: id,
        payload: payload.into(),
        claims_taken,
        claims_released,
        ..template.clone()
    }
}

/// Drops every table, starts a projector, and prints the time until all rows exist.
async fn rebuild(cluster: &Cluster, log: &Log, what: &str) {
    let drop = "do $$ declare name text; begin \
                for name in select nspname from pg_namespace where nspname ~ '_[0-9]+$' loop \
                execute format('drop schema %I cascade', name); end loop; end $$; delete from platform.checkpoints";
    let postgres = connect(&cluster.servers.places.postgres_url).await;
    postgres.batch_execute(drop).await.expect("the tables are dropped");
    let end = log.last().await.expect("the log can be read").expect("it is not empty").position();
    let backends = || cpu::of_family(server(&cluster.servers.folder(), "postgres").expect("Postgres runs"));
    let (begin, before) = (Instant::now(), backends());
    let mut projector = cluster.node("projector", "p", &[], &[]);
    while !is_there(&postgres, end.stream_sequence).await {
        assert!(!projector.process.has_ended(), "the projector has ended");
        sleep(LOOK_AGAIN).await;
    }
    let (elapsed, used) = (begin.elapsed(), cpu::of(projector.process.pid()));
    let of_postgres = backends().saturating_sub(before);
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let rate = end.sequence as f64 / used.as_secs_f64();
    println!(
        "{what}: {elapsed:.1?}; {used:.1?} CPU of the projector, {rate:.0} events per CPU-second (to reach, for rows: 60000); \
         {of_postgres:.1?} CPU of Postgres; at most {} MiB of memory",
        cpu::peak_mib(projector.process.pid())
    );
    // Otherwise the next one waits for its leases.
    projector.process.end().await;
}

/// Removes every index, and returns how much a projector needs to make all of them again.
async fn rebuild_indexes(cluster: &Cluster, log: &Log) -> Duration {
    drop_indexes(cluster.servers.nats().await).await;
    let end = log.last().await.expect("the log can be read").expect("it is not empty").position();
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let place = folder.path().display().to_string();
    let mut projector = cluster.node("projector", "p", &[("--index-dir", &place)], &[]);
    while projector.management.get("/metrics").await.is_none() {
        sleep(LOOK_AGAIN).await;
    }
    for (projection, _) in indexes() {
        let label = format!("projection=\"{}\"", projection.name);
        #[expect(clippy::cast_precision_loss, reason = "metrics are floats")]
        while projector.management.sum("platform_projection_sequence", &[&label]).await < end.sequence as f64 {
            sleep(LOOK_AGAIN).await;
        }
    }
    let used = cpu::of(projector.process.pid());
    projector.process.end().await;
    used
}

fn indexes() -> impl Iterator<Item = (&'static Projection, &'static Table)> {
    following(LogClass::Events).filter_map(|projection| match &projection.kind {
        Kind::Index(table) => Some((projection, table)),
        Kind::History | Kind::Rows(_) => None,
    })
}

/// Writes the newest document of each object into an index, and compares it as the scrubber does.
fn bare_indexes(records: &[Record]) -> Bare {
    let events: Vec<_> = records.iter().flat_map(|record| &record.events).cloned().collect();
    let mut bare = Bare::default();
    for (_, table) in indexes() {
        let changes = table.fold(&events).expect("the events can be read");
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let place = Folder::open(folder.path()).expect("nobody uses it");
        let mut writer = Writer::open(&place, Layout::of(table)).expect("an index can be made");
        let measured = |used: &mut Duration, before: Duration| {
            *used += cpu::of_this_process().saturating_sub(before);
            cpu::of_this_process()
        };
        let before = cpu::of_this_process();
        writer.apply(&changes).expect("documents go in");
        let snapshot = writer.commit(Position::default(), Timestamp::UNIX_EPOCH).expect("it commits");
        let before = measured(&mut bare.written, before);
        let contents = snapshot.contents().expect("it can be read");
        let before = measured(&mut bare.digested, before);
        for page in changes.chunks(PAGE) {
            assert_eq!(
                contents.deviations(page.to_vec()).expect("documents can be made"),
                [],
                "all is as it should be"
            );
        }
        measured(&mut bare.compared, before);
        bare.documents += u32::try_from(changes.len()).expect("not so many");
    }
    bare
}

/// Whether every projection of `EVENTS` in Postgres has come as far as the log was.
async fn is_there(postgres: &tokio_postgres::Client, end: u64) -> bool {
    let checkpoints = postgres.query("select projection, stream_sequence from platform.checkpoints", &[]).await;
    let rows = checkpoints.expect("the checkpoints can be read");
    let reached =
        |name: &str| rows.iter().any(|row| row.get::<_, &str>(0) == name && row.get::<_, i64>(1).unsigned_abs() >= end);
    following(LogClass::Events)
        .filter(|projection| projection.schema().is_some())
        .all(|projection| reached(projection.name))
}
