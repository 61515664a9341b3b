//! The search index under failure: after kills, stops, damage and loss, the answers are the same.

use std::{fs, path::Path, sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::URL_SAFE};
use domain::resource::target::Target;
use index::{Publication, Remote};
use reqwest::Method;
use rustix::process::Signal;
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, TARGETS, send},
    cluster::Cluster,
    eventually,
    load::Load,
    platform::Platform,
    search_audit::assert_search_results,
    servers::drop_indexes,
};
use tokio::{sync::oneshot, task::JoinHandle, time::Instant};
use view::projection::{Kind, index_of};

/// How long an index may stay unchanged after its projector was killed.
const RECOVERY: Duration = Duration::from_secs(6);
const SLACK: u32 = 5;

const STEPS: &[(&str, &[u32])] = &[
    ("index.fetched", &[1, 5]),
    ("index.applied", &[1, 5]),
    ("index.committing", &[1, 5]),
    ("index.committed", &[1, 5]),
    ("index.packed", &[1, 5]),
    ("index.published", &[1, 5]),
];

/// A kind of damage to a file: its name, and the function.
type Damage = (&'static str, fn(&Path));

const DAMAGES: &[Damage] = &[
    ("deleted", |file| fs::remove_file(file).expect("it is there")),
    ("truncated", |file| {
        let length = file.metadata().expect("it is there").len();
        fs::File::options().write(true).open(file).and_then(|file| file.set_len(length / 2)).expect("it is there");
    }),
    ("bit-flipped", |file| {
        let mut bytes = fs::read(file).expect("it is there");
        let middle = bytes.len() / 2;
        if let Some(byte) = bytes.get_mut(middle) {
            *byte ^= 1;
        }
        fs::write(file, bytes).expect("it is there");
    }),
];

/// Damages every file of every index in a folder.
fn harm_all(folder: &Path, harm: fn(&Path)) {
    for index in fs::read_dir(folder).expect("it is there").flatten() {
        for file in fs::read_dir(index.path()).expect("it is a folder").flatten() {
            harm(&file.path());
        }
    }
}

async fn search(client: &Client, path: &str) -> Answer {
    send(client.request(Method::POST, &format!("{TARGETS}/_search?{path}")).json(&json!([]))).await
}

/// Returns all targets, as of the last event of the log.
async fn everything(client: &Client, sequence: u64) -> Value {
    let current = eventually("an index that is current", || async {
        let answer = search(client, "query.limit=1000&query.asc=true&sortingColumn=TARGET_FIELD_NAME_ID").await;
        (processed(&answer) >= sequence).then_some(answer)
    });
    let answer = current.await;
    json!([answer.body["details"]["totalResult"], answer.body["result"]])
}

fn processed(answer: &Answer) -> u64 {
    let sequence = answer.body["details"]["processedSequence"].as_str();
    sequence.and_then(|sequence| sequence.parse().ok()).unwrap_or_default()
}

#[tokio::test]
async fn a_keeper_that_is_killed_at_any_step_leaves_an_index_that_goes_on() {
    let cluster = Cluster::start_with_short_leases().await;
    let command = cluster.node("command", "command", &[], &[]);
    let query = cluster.node("query", "query", &[], &[]);
    cluster.writes(&command).await;
    let reader = cluster.client(&query);
    let watch = Forward::watch(reader.clone());
    let load = Load::start(&[cluster.client(&command)], 4, "load");
    let mut slowest = Duration::ZERO;
    for (point, hits) in STEPS {
        for hit in *hits {
            let fault = format!("{point}:{hit}:kill");
            let mut keeper = cluster.node("projector", "projector", &[], &[("PLATFORM_FAULT", &fault)]);
            assert_eq!(keeper.process.ended().await.code(), None, "{fault}: it died where it should");
            let mut keeper = cluster.node("projector", "projector", &[], &[]);
            let begin = Instant::now();
            let end = cluster.audit().await.end().sequence;
            everything(&reader, end).await;
            println!("{fault}: current again after {:?}", begin.elapsed());
            slowest = slowest.max(begin.elapsed());
            keeper.process.end().await;
        }
    }
    let told = load.finish().await;
    let _keeper = cluster.node("projector", "projector", &[], &[]);
    let audit = cluster.audit().await;
    audit.assert_told(&told);
    let (old, end) = (query, audit.end().sequence);
    let new = cluster.node("query", "another query", &[], &[]);
    cluster.searches(&cluster.client(&new)).await;
    let (by_old, by_new) = (everything(&reader, end).await, everything(&cluster.client(&new), end).await);
    assert_eq!(by_old, by_new, "a node that was there all the time and a new one say the same");
    assert_search_results(&audit, &reader, &cluster.bootstrap.instance_id).await;
    watch.end().await;
    drop(old);
    assert!(slowest < RECOVERY * SLACK, "{slowest:?}");
}

/// Watches the published manifests: a publisher that was replaced publishes nothing after its successor. Ends only with
/// a manifest that goes back.
async fn watch_epochs(cluster: &Cluster) -> JoinHandle<()> {
    let context = async_nats::jetstream::new(cluster.servers.nats().await);
    let bucket = context.get_key_value("INDEX_MANIFESTS").await.expect("it is there");
    let mut entries = bucket.watch_all().await.expect("NATS is there");
    tokio::spawn(async move {
        let mut last = 0;
        while let Some(Ok(entry)) = futures::StreamExt::next(&mut entries).await {
            let manifest: Value = serde_json::from_slice(&entry.value).expect("a manifest is JSON");
            let epoch = manifest["epoch"].as_u64().expect("a manifest has an epoch");
            assert!(epoch >= last, "epoch {epoch} was published behind epoch {last}");
            last = epoch;
        }
    })
}

#[tokio::test]
async fn a_keeper_that_was_stopped_publishes_nothing_any_more() {
    let cluster = Cluster::start_with_short_leases().await;
    let command = cluster.node("command", "command", &[], &[]);
    let query = cluster.node("query", "query", &[], &[]);
    cluster.writes(&command).await;
    let reader = cluster.client(&query);
    let watch = Forward::watch(reader.clone());
    let epochs = watch_epochs(&cluster).await;
    let load = Load::start(&[cluster.client(&command)], 4, "load");
    for fault in ["index.committed:5:stop", "index.packed:5:stop", "index.published:5:stop"] {
        let stopped = cluster.node("projector", fault, &[], &[("PLATFORM_FAULT", fault)]);
        eventually("the keeper stands still", || async { stopped.process.is_stopped().then_some(()) }).await;
        let next = cluster.node("projector", &format!("after {fault}"), &[], &[]);
        everything(&reader, cluster.audit().await.end().sequence).await;
        stopped.process.signal(Signal::CONT);
        load.creates(50).await;
        everything(&reader, cluster.audit().await.end().sequence).await;
        for mut keeper in [stopped, next] {
            keeper.process.end().await;
        }
    }
    let _keeper = cluster.node("projector", "last", &[], &[]);
    let told = load.finish().await;
    let audit = cluster.audit().await;
    audit.assert_told(&told);
    assert_search_results(&audit, &reader, &cluster.bootstrap.instance_id).await;
    assert!(!epochs.is_finished(), "a manifest went back");
    watch.end().await;
}

#[tokio::test]
async fn a_damaged_folder_is_mended_from_what_is_published() {
    let cluster = Cluster::start().await;
    let command = cluster.node("command", "command", &[], &[]);
    cluster.writes(&command).await;
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let place = |role: &str| folder.path().join(role).display().to_string();
    let start = |role: &str| cluster.node(role, role, &[("--index-dir", &place(role))], &[]);
    let (mut projector, mut query) = (start("projector"), start("query"));
    let mut reader = cluster.client(&query);
    cluster.searches(&reader).await;
    let writer = cluster.client(&command);
    for number in 0..20 {
        writer.create_target(&format!("target {number}")).await.expect("it is created");
    }
    let end = cluster.audit().await.end().sequence;
    let before = everything(&reader, end).await;
    for (damage, harm) in DAMAGES {
        for node in [&mut projector, &mut query] {
            node.process.end().await;
        }
        for role in ["projector", "query"] {
            harm_all(&folder.path().join(role), *harm);
        }
        (projector, query) = (start("projector"), start("query"));
        reader = cluster.client(&query);
        cluster.searches(&reader).await;
        assert_eq!(everything(&reader, end).await, before, "{damage}");
        // It is not only read from what was published: the keeper writes on.
        writer.create_target(damage).await.expect("it is created");
        everything(&reader, cluster.audit().await.end().sequence).await;
        let id = search(&reader, "query.limit=1").await.body["result"][0]["details"]["id"].clone();
        let deleted = writer.request(Method::DELETE, &format!("{TARGETS}/{}", id.as_str().unwrap_or_default()));
        let deleted = send(deleted).await;
        assert_eq!(deleted.status, 200, "{damage}: {}", deleted.body);
        let end = cluster.audit().await.end().sequence;
        assert_eq!(everything(&reader, end).await, before, "{damage}");
    }
}

#[tokio::test]
async fn a_standalone_platform_mends_its_index_too() {
    let mut platform = Platform::start().await;
    let client = platform.client().await;
    for number in 0..10 {
        client.create_target(&format!("target {number}")).await.expect("it is created");
    }
    let end = platform.log_end().await.0;
    let before = everything(&client, end).await;
    for (damage, harm) in DAMAGES {
        platform.stop().await;
        harm_all(&platform.data().join("index"), *harm);
        platform.restart(&[]).await;
        assert_eq!(everything(&client, end).await, before, "{damage}");
    }
}

#[tokio::test]
async fn published_files_that_are_lost_are_published_again_and_old_ones_go() {
    let cluster = Cluster::start().await;
    let command = cluster.node("command", "command", &[], &[]);
    let _projector = cluster.node("projector", "projector", &[("--index-grace", "1")], &[]);
    cluster.writes(&command).await;
    let writer = cluster.client(&command);
    for number in 0..20 {
        writer.create_target(&format!("target {number}")).await.expect("it is created");
    }
    let context = Arc::new(async_nats::jetstream::new(cluster.servers.nats().await));
    let remote = Remote::open(&context, 1).await.expect("NATS is there");
    let named = || async {
        let Kind::Index(table) = &index_of::<Target>().kind else { return None };
        let told = remote.newest(&index::name(index_of::<Target>(), table, 0)).await.ok()?;
        let Publication::Manifest(manifest) = told.manifest else { return None };
        let mut packs: Vec<String> = manifest.packs.into_iter().map(|pack| pack.id).collect();
        packs.sort();
        Some(packs)
    };
    let stored = || async {
        let files = context.get_stream("OBJ_INDEX_FILES").await.ok()?;
        let info = files.info_with_subjects("$O.INDEX_FILES.M.>").await.ok()?;
        let subjects: Vec<(String, usize)> = futures::TryStreamExt::try_collect(info).await.ok()?;
        let ids = subjects.iter().filter_map(|(subject, _)| URL_SAFE.decode(subject.rsplit('.').next()?).ok());
        let ids = ids.filter_map(|id| String::from_utf8(id).ok());
        let mut ids: Vec<String> = ids.filter(|id| id.starts_with(index_of::<Target>().name)).collect();
        ids.sort();
        Some(ids)
    };
    eventually("only what is named is stored", || async { (named().await? == stored().await?).then_some(()) }).await;

    let files = context.get_stream("OBJ_INDEX_FILES").await.expect("it is there");
    files.purge().await.expect("it can be emptied");
    eventually("it is published again", || async {
        let stored = stored().await?;
        (!stored.is_empty() && named().await? == stored).then_some(())
    })
    .await;
    let query = cluster.node("query", "query", &[], &[]);
    let reader = cluster.client(&query);
    cluster.searches(&reader).await;
    let all = everything(&reader, cluster.audit().await.end().sequence).await;
    assert_eq!(all[0], json!("20"));
}

#[tokio::test]
async fn an_index_that_is_built_again_is_not_shown_in_part() {
    let cluster = Cluster::start().await;
    let command = cluster.node("command", "command", &[], &[]);
    let mut projector = cluster.node("projector", "projector", &[], &[]);
    cluster.writes(&command).await;
    let writer = cluster.client(&command);
    for number in 0..300 {
        writer.create_target(&format!("target {number}")).await.expect("it is created");
    }
    let end = cluster.audit().await.end().sequence;
    projector.process.end().await;
    drop_indexes(cluster.servers.nats().await).await;
    let query = cluster.node("query", "query", &[], &[]);
    let _projector = cluster.node("projector", "projector", &[], &[]);
    let reader = cluster.client(&query);
    let answered = eventually("an answer", || async {
        let request = reader.request(Method::POST, &format!("{TARGETS}/_search")).json(&json!([]));
        let answer = Answer::of(request.send().await.ok()?).await;
        (answer.status == 200).then_some(answer)
    });
    let answered = answered.await;
    assert_eq!(answered.body["details"]["totalResult"], json!("300"), "the first answer is whole");
    assert!(processed(&answered) >= end);
}

#[tokio::test]
async fn what_another_version_published_is_left_alone() {
    let cluster = Cluster::start().await;
    let mut projector = cluster.node("projector", "projector", &[], &[]);
    let query = cluster.node("query", "query", &[], &[]);
    cluster.searches(&cluster.client(&query)).await;
    projector.process.end().await;
    let context = async_nats::jetstream::new(cluster.servers.nats().await);
    let bucket = context.get_key_value("INDEX_MANIFESTS").await.expect("it is there");
    let Kind::Index(table) = &index_of::<Target>().kind else { panic!("it is an index") };
    let name = index::name(index_of::<Target>(), table, 0);
    let published = bucket.get(&name).await.expect("NATS is there").expect("it is published");
    let mut newer: Value = serde_json::from_slice(&published).expect("it is JSON");
    newer["format"] = json!(3);
    let newer = newer.to_string();
    bucket.put(&name, newer.clone().into()).await.expect("NATS is there");

    let projector = cluster.node("projector", "projector", &[], &[]);
    for node in [&projector, &query] {
        let told = || async { node.log().contains("is of another version of the platform").then_some(()) };
        eventually("a node that says so", told).await;
    }
    assert_eq!(bucket.get(&name).await.expect("NATS is there").as_deref(), Some(newer.as_bytes()));
    let answer = search(&cluster.client(&query), "").await;
    assert_eq!(answer.status, 200, "what was shown goes on: {}", answer.body);
}

/// Searches continuously, and checks that the processed sequence never goes back.
struct Forward {
    end: oneshot::Sender<()>,
    watching: JoinHandle<()>,
}

impl Forward {
    fn watch(client: Client) -> Self {
        let (end, mut ended) = oneshot::channel();
        let watching = tokio::spawn(async move {
            let mut last = 0;
            while ended.try_recv().is_err() {
                let answer = search(&client, "query.limit=1").await;
                if answer.status == 200 {
                    let next = processed(&answer);
                    assert!(next >= last, "the index went back from {last} to {next}");
                    last = next;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        Self { end, watching }
    }

    async fn end(self) {
        // Where the node is gone already, what it said counts all the same.
        let _ = self.end.send(());
        self.watching.await.expect("the index never went back");
    }
}
