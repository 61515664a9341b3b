//! Search indexes are built again beside those that answer, and replace them: nobody who searches notices.

use std::{
    path::Path,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use base64::{Engine, engine::general_purpose::URL_SAFE};
use index::{
    Publication, Remote,
    generation::{Exchange, exchange},
};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    client::{Client, TARGETS, created, post, send, target},
    cluster::Cluster,
    eventually,
    process::run,
    search_audit::assert_search_results,
    servers::Servers,
};
use tokio::time::Instant;
use view::{
    database::Database,
    generation::{Exchanged, Generation, Verified, drop_at, generations, replay, verify_again},
    projection::{GenerationSlot, Kind, PROJECTIONS, Projection},
};

use super::{
    generations::{Clients, NEXT, PREVIOUS, VIEWS, ask, compared, generation},
    mending::{Failing, id_in, is_found},
    parking::rename,
};

/// How long a search may wait for its own write while generations are exchanged.
const STALLED: Duration = Duration::from_secs(2);
const SLACK: u32 = 5;

/// The search index of targets, as a command node exchanges it.
struct TargetIndex {
    database: Database,
    remote: Remote,
    projection: &'static Projection,
    name: String,
}

impl TargetIndex {
    async fn of(servers: &Servers) -> Self {
        let database = Database::new(&servers.places.postgres_url, 2).expect("an address");
        let context = Arc::new(async_nats::jetstream::new(servers.nats().await));
        let remote = Remote::open(&context, 1).await.expect("NATS is there");
        let projection = PROJECTIONS.iter().find(|known| known.name == "targets_index").expect("it is kept");
        let Kind::Index(table) = &projection.kind else { panic!("it is an index") };
        Self { database, remote, projection, name: index::name(projection, table, 0) }
    }

    async fn generation(&self) -> Option<Generation> {
        generations(&self.database, 0).await.expect("Postgres answers").into_iter().next()
    }

    /// Waits until the generation that there is was compared with the index that answers.
    async fn verified(&self) -> Verified {
        let verified = async || self.generation().await?.verified;
        eventually("it is compared", verified).await
    }

    async fn exchange(&self, place: GenerationSlot) -> Exchanged {
        let Kind::Index(table) = &self.projection.kind else { panic!("it is an index") };
        let of_index = Exchange { place, shard: 0, is_forced: false };
        let exchanged = exchange(&self.database, &self.remote, self.projection, table, of_index).await;
        exchanged.expect("Postgres and NATS answer")
    }

    /// Whether a manifest is published for a generation.
    async fn is_published(&self, generation: &Generation) -> bool {
        let name = index::generation_name(&self.name, generation.since);
        let published = self.remote.newest(&name).await.expect("NATS answers");
        matches!(published.manifest, Publication::Manifest(manifest) if !manifest.meta.is_empty())
    }
}

/// Starts clients that create targets at one node, and search for each at another one at once.
fn searchers(writer: &Client, reader: &Client, count: usize) -> Clients {
    Clients::start(count, |number, is_over| {
        let (writer, reader) = (writer.reconnected(), reader.reconnected());
        async move {
            let (mut searches, mut slowest) = (0, Duration::ZERO);
            while !is_over.load(Ordering::SeqCst) {
                let name = format!("searched for by {number}, {searches}");
                let made = created(&writer, TARGETS, target(&name)).await;
                let begin = Instant::now();
                let search = reader.request(Method::POST, &format!("{TARGETS}/_search"));
                let search = search.json(&json!([{ "name": { "name": name } }]));
                let search = search.header("consistency-token", made.consistency());
                let found = send(search.header("consistency-wait", "10s")).await;
                assert_eq!(found.status, StatusCode::OK, "{}", found.body);
                assert_eq!(found.body["details"]["totalResult"], "1", "a write is found by who knows of it");
                (searches, slowest) = (searches + 1, slowest.max(begin.elapsed()));
            }
            (searches, slowest)
        }
    })
}

#[tokio::test]
async fn a_search_index_is_built_anew_and_exchanged_while_searches_and_writes_go_on() {
    let cluster = Cluster::start().await;
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let place = folder.path().display().to_string();
    let command = cluster.node("command", "command", &[], &[]);
    let flags = [("--index-grace", "1"), ("--index-dir", place.as_str())];
    let _projector = cluster.node("projector", "projector", &flags, &[]);
    let query = cluster.node("query", "query", &[], &[]);
    cluster.writes(&command).await;
    let (writer, reader) = (cluster.client(&command), cluster.client(&query));
    cluster.searches(&reader).await;
    let index = TargetIndex::of(&cluster.servers).await;
    let searchers = searchers(&writer, &reader, 3);
    assert!(replay(&index.database, index.projection).await.expect("Postgres answers"));
    assert!(!replay(&index.database, index.projection).await.expect("Postgres answers"), "it goes on");
    assert_eq!((index.verified().await.differing, index.verified().await.examples), (0, vec![]));
    let mut slowest = Duration::ZERO;
    for place in [GenerationSlot::Next, GenerationSlot::Previous, GenerationSlot::Next] {
        let begin = Instant::now();
        assert_eq!(index.exchange(place).await, Exchanged::Done, "{place:?}");
        slowest = slowest.max(begin.elapsed());
        let kept = index.generation().await.expect("what answered before is kept");
        assert_ne!(kept.place, place);
        assert_eq!(index.exchange(place).await, Exchanged::Absent, "what is requested twice is not undone");
        assert!(verify_again(&index.database, index.projection, kept.place).await.expect("Postgres answers"));
        assert_eq!(index.verified().await.differing, 0, "what nobody searches goes on");
    }
    let (count, slow) = searchers.end().await;
    println!("{count} searches, the slowest {slow:?}; the slowest exchange {slowest:?}");
    assert!(slowest < STALLED * SLACK && slow < STALLED * SLACK, "{slowest:?}, {slow:?}");
    assert_search_results(&cluster.audit().await, &reader, &cluster.bootstrap.instance_id).await;

    assert!(drop_at(&index.database, index.projection, GenerationSlot::Previous).await.expect("Postgres answers"));
    nothing_is_left(&cluster, &index, folder.path()).await;
    let late = cluster.node("query", "late", &[], &[]);
    cluster.searches(&cluster.client(&late)).await;
    assert_search_results(&cluster.audit().await, &cluster.client(&late), &cluster.bootstrap.instance_id).await;
}

/// Waits until nothing is left of generations of the index that are gone: no manifest, no files in the store that no
/// manifest names, no folder.
async fn nothing_is_left(cluster: &Cluster, index: &TargetIndex, folder: &Path) {
    let context = async_nats::jetstream::new(cluster.servers.nats().await);
    let beside = format!("{}.", index.name);
    let gone = async || {
        let manifests = subjects(&context, "KV_INDEX_MANIFESTS", &format!("$KV.INDEX_MANIFESTS.{beside}>")).await?;
        let folders = std::fs::read_dir(folder).ok()?.flatten();
        let has_folder = folders.into_iter().any(|one| one.file_name().to_string_lossy().starts_with(&beside));
        (manifests.is_empty() && !has_folder).then_some(())
    };
    eventually("manifests and folders of generations go", gone).await;
    let named = async || {
        let Publication::Manifest(manifest) = index.remote.newest(&index.name).await.ok()?.manifest else {
            return None;
        };
        let stored = subjects(&context, "OBJ_INDEX_FILES", "$O.INDEX_FILES.M.>").await?;
        let ids = stored.iter().filter_map(|subject| URL_SAFE.decode(subject.rsplit('.').next()?).ok());
        let ids = ids.filter_map(|id| String::from_utf8(id).ok());
        let mut ids: Vec<String> = ids.filter(|id| id.starts_with(&index.name)).collect();
        let mut named: Vec<String> = manifest.packs.into_iter().map(|pack| pack.id).collect();
        ids.sort();
        named.sort();
        (ids == named).then_some(())
    };
    eventually("only what is named is stored", named).await;
}

async fn subjects(context: &async_nats::jetstream::Context, stream: &str, pattern: &str) -> Option<Vec<String>> {
    let stream = context.get_stream(stream).await.ok()?;
    let info = stream.info_with_subjects(pattern).await.ok()?;
    let found: Vec<(String, usize)> = futures::TryStreamExt::try_collect(info).await.ok()?;
    Some(found.into_iter().map(|(subject, _)| subject).collect())
}

#[tokio::test]
async fn a_generation_of_a_search_index_goes_on_where_its_projector_was_killed() {
    let cluster = Cluster::start_with_short_leases().await;
    let command = cluster.node("command", "command", &[], &[]);
    cluster.writes(&command).await;
    let writer = cluster.client(&command);
    for number in 0..200 {
        writer.create_target(&format!("target {number}")).await.expect("it is created");
    }
    let mut projector = cluster.node("projector", "projector", &[], &[]);
    let query = cluster.node("query", "query", &[], &[]);
    let reader = cluster.client(&query);
    cluster.searches(&reader).await;
    projector.process.end().await;
    let index = TargetIndex::of(&cluster.servers).await;
    assert!(replay(&index.database, index.projection).await.expect("Postgres answers"));
    // The index that answers publishes nothing here, for nothing is written.
    let fault = [("PLATFORM_FAULT", "index.published:1:kill")];
    let mut projector = cluster.node("projector", "killed", &[], &fault);
    assert!(!projector.process.ended().await.success(), "it died where it should");
    let begun = index.generation().await.expect("it is there");
    assert!(index.is_published(&begun).await, "what was built is not lost");
    let _projector = cluster.node("projector", "the last one", &[], &[]);
    assert_eq!(index.verified().await.differing, 0);
    assert_eq!(index.exchange(GenerationSlot::Next).await, Exchanged::Done);
    assert_search_results(&cluster.audit().await, &reader, &cluster.bootstrap.instance_id).await;
}

#[tokio::test]
async fn what_is_missing_in_an_index_is_named_and_is_there_after_a_replay() {
    let mut failing = Failing::start().await;
    let [a, _] = failing.targets(["a", "b"]).await;
    failing.stop().await;
    failing.start_at(&format!("index.document/{a}")).await;
    let (client, operator) = (failing.client.clone(), failing.operator.clone());
    failing.fails(true);
    rename(&client, &a, "a renamed").await;
    id_in(&operator, "targets_index", &a).await;
    failing.fails(false);
    is_found(&client, "a renamed", 0).await;

    let data = failing.data();
    let tool = |arguments: &[&str]| run(&[&["projections"], arguments, &["--data-dir", &data]].concat());
    let (is_done, said, told) = tool(&["replay", "targets_index", "--wait"]);
    assert!(is_done, "{said}{told}");
    let differing = format!("among them: document {a} of instance {}\n", failing.instance_id());
    assert!(said.starts_with("1 rows differ") && said.ends_with(&differing), "{said}");
    let is_listed = async || tool(&["list"]).1.contains("(100 %), 1 rows differ, 0 failed events").then_some(());
    eventually("it is listed", is_listed).await;
    assert!(tool(&["switch", "targets_index"]).0);
    is_found(&client, "a renamed", 1).await;
    // What answered before may omit it still.
    assert!(tool(&["rollback", "targets_index", "--force"]).0);
    rename(&client, &a, "a renamed twice").await;
    assert!(tool(&["switch", "targets_index"]).0);
    is_found(&client, "a renamed twice", 1).await;
    assert!(tool(&["drop", "targets_index", "--previous"]).0);
    failing.assert_projected().await;
}

#[tokio::test]
async fn a_generation_of_an_index_that_fails_does_not_answer_unless_it_is_told_to() {
    let mut failing = Failing::start().await;
    let [a, _] = failing.targets(["a", "b"]).await;
    is_found(&failing.client, "a", 1).await;
    failing.stop().await;
    failing.start_at(&format!("index.document/{a}")).await;
    let (client, operator) = (failing.client.clone(), failing.operator.clone());
    failing.fails(true);
    assert_eq!(ask(&operator, "targets_index", "_replay").await, StatusCode::OK);
    let fails = async || (generation(&operator, "targets_index", NEXT).await?["failedEventCount"] == "1").then_some(());
    eventually("it fails", fails).await;
    let failed = post(&operator, "/system/v1/failedevents/_search", json!({})).await;
    assert_eq!(failed.body["details"]["totalResult"], "0", "what answers has not failed: {}", failed.body);
    compared(&operator, "targets_index", NEXT).await;
    let refused = send(operator.request(Method::POST, &format!("{VIEWS}/targets_index/_switch"))).await;
    refused.assert_refused("it fails", 400, "PRECONDITION_FAILED");
    is_found(&client, "a", 1).await;

    assert_eq!(ask(&operator, "targets_index", "_switch?force=true").await, StatusCode::OK);
    is_found(&client, "a", 0).await;
    assert!(generation(&operator, "targets_index", PREVIOUS).await.is_some());
    assert_eq!(ask(&operator, "targets_index", "_rollback").await, StatusCode::OK);
    is_found(&client, "a", 1).await;

    // A build that can do it does.
    failing.fails(false);
    assert_eq!(ask(&operator, "targets_index", "_drop").await, StatusCode::OK);
    assert_eq!(ask(&operator, "targets_index", "_replay").await, StatusCode::OK);
    assert_eq!(compared(&operator, "targets_index", NEXT).await["differingRows"], Value::Null);
    assert_eq!(ask(&operator, "targets_index", "_switch").await, StatusCode::OK);
    failing.assert_projected().await;
}
