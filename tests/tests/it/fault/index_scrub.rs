//! The search indexes are checked against the log as the rows are: documents of a published index that are not what the
//! log says are written anew, and nothing else is.

use std::{path::Path, process::Stdio, sync::Arc, time::Duration};

use domain::column::Value as Column;
use eventlog::record::Recorded;
use index::{Folder, Layout, Manifest, Publication, Publisher, Remote, Replica, Snapshot, Writer};
use reqwest::Method;
use serde_json::{Value, json};
use tantivy::{TantivyDocument, tokenizer::RawTokenizer};
use tempfile::TempDir;
use tests::{
    auditor::Audit,
    client::{Client, TARGETS, created, send, target},
    eventually,
    management::Management,
    platform::Platform,
    ports::free_address,
    process::Process,
    servers::Servers,
};
use view::{
    projection::{Kind, PROJECTIONS},
    table::{Change, Table},
};

use super::scrub::{Filled, USERS, checks, fill, flags, is_checked, repaired};

/// Who writes an index looks once in this time whether somebody else has published it.
const GRACE: [&str; 2] = ["--index-grace", "1"];

/// What is published of a search index, opened in a folder of its own.
struct Copy {
    remote: Remote,
    name: String,
    table: &'static Table,
    layout: Layout,
    place: TempDir,
}

impl Copy {
    async fn of(servers: &Servers, view: &str) -> Self {
        let context = Arc::new(async_nats::jetstream::new(servers.nats().await));
        let remote = Remote::open(&context, 1).await.expect("NATS is there");
        let projection = PROJECTIONS.iter().find(|known| known.view == view).expect("it is kept");
        let Kind::Index(table) = &projection.kind else { panic!("it is an index") };
        let place = tempfile::tempdir().expect("a temporary folder can be made");
        Self { remote, name: index::name(projection, table, 0), table, layout: Layout::of(table), place }
    }

    fn folder(&self) -> Folder {
        Folder::open(self.place.path()).expect("the folder is ours")
    }

    async fn manifest(&self) -> Manifest {
        let newest = self.remote.newest(&self.name).await.expect("NATS answers");
        let Publication::Manifest(manifest) = newest.manifest else { panic!("it is published") };
        manifest
    }

    /// Returns what is published now.
    async fn install(&self, folder: &Folder) -> Arc<Snapshot> {
        let manifest = self.manifest().await;
        let installed = Replica::new(folder.clone(), self.layout.clone()).install(&manifest, &self.remote).await;
        installed.expect("all files are stored")
    }

    /// Publishes the index with these changes, as its writer would.
    async fn publish_with(&self, changes: &[Change]) {
        let folder = self.folder();
        let before = self.install(&folder).await;
        let mut writer = Writer::open(&folder, self.layout.clone()).expect("it can be opened");
        assert!(writer.apply(changes).expect("documents can be written").is_empty(), "none is refused");
        let after = writer.commit(before.position, before.committed_at).expect("it can be committed");
        assert_ne!(before.differences(&after).expect("both can be read"), Vec::<String>::new());
        self.publish(folder, &after).await;
    }

    /// Publishes the index with a document that has nothing, not even a key.
    async fn publish_with_nothing(&self) {
        let folder = self.folder();
        self.install(&folder).await;
        let index = tantivy::Index::open_in_dir(self.place.path()).expect("it is an index");
        index.tokenizers().register("trigrams", RawTokenizer::default());
        let mut writer = index.writer_with_num_threads(1, 15_000_000).expect("nobody else writes it");
        writer.add_document(TantivyDocument::default()).expect("it can be written");
        let payload = index.load_metas().expect("it was committed").payload.expect("by the platform");
        let mut commit = writer.prepare_commit().expect("it can be committed");
        commit.set_payload(&payload);
        commit.commit().expect("it can be committed");
        drop(writer);
        let after = Writer::open(&folder, self.layout.clone()).expect("it can be opened").snapshot();
        let after = after.expect("it can be read");
        assert!(after.contents().is_err(), "not to its end");
        self.publish(folder, &after).await;
    }

    async fn publish(&self, folder: Folder, snapshot: &Snapshot) {
        let publisher = Publisher::take_over(self.remote.clone(), &self.name, folder, Duration::from_mins(10)).await;
        publisher.expect("NATS answers").publish(snapshot).await.expect("nobody else publishes it");
    }

    /// What the document of a resource becomes by its first events.
    fn change(&self, audit: &Audit, id: &str, events: usize) -> Change {
        let events: Vec<Arc<Recorded>> =
            audit.events_of(id).into_iter().take(events).map(|recorded| Arc::new(recorded.clone())).collect();
        self.table.fold(&events).expect("events can be read").pop().expect("there are some")
    }
}

/// The ids of a person who was removed, and of a service user.
struct People {
    erased: String,
    service: String,
}

impl People {
    async fn create(client: &Client) -> Self {
        let data = json!({ "given_name": "Grace", "family_name": "Hopper" });
        let erased = created(client, USERS, json!({ "username": "grace", "human": { "data": data } })).await.id();
        let service = created(client, USERS, json!({ "username": "robot", "service": {} })).await.id();
        let deleted = send(client.request(Method::DELETE, &format!("{USERS}/{erased}"))).await;
        assert_eq!(deleted.status, 200, "{}", deleted.body);
        Self { erased, service }
    }
}

/// Changes documents by hand: five of targets and two of users, one of them of somebody who was removed, and that of a
/// session goes.
async fn change_by_hand(servers: &Servers, audit: &Audit, filled: &Filled, people: &People) {
    let targets = Copy::of(servers, "targets_index").await;
    let Filled { targets: ids, person, session, gone } = filled;
    let [renamed, mixed_up, lost, ..] = &ids[..] else { panic!("there are six") };
    let first = |id: &str| targets.change(audit, id, 1);
    let [mut of_renamed, mut of_mixed_up, mut of_lost, of_gone] = [renamed, mixed_up, lost, gone].map(|id| first(id));
    let mut row = of_renamed.row.take().expect("it was created");
    row.state = row.state.replace("scrubbed 0", "by hand");
    of_renamed.row = Some(row);
    // What the API returns stays, but it is found by other words.
    for value in &mut of_mixed_up.row.as_mut().expect("it was created").values {
        if let Column::Text(text) = value {
            *text = text.replace("scrubbed 1", "mixed up");
        }
    }
    of_lost.row = None;
    let forged = Change { id: "forged".to_owned(), ..first(renamed) };
    assert!(of_gone.row.is_some(), "it is brought back");
    targets.publish_with(&[of_renamed, of_mixed_up, of_lost, of_gone, forged]).await;

    let instance_id = &audit.events_of(person)[0].event.instance_id;
    let without = |id: &str| Change { instance_id: instance_id.clone(), id: id.to_owned(), row: None };
    Copy::of(servers, "sessions_index").await.publish_with(&[without(session)]).await;
    let users = Copy::of(servers, "users_index").await;
    let brought_back = Change { id: people.erased.clone(), ..users.change(audit, &people.service, 1) };
    users.publish_with(&[without(person), brought_back]).await;
}

/// Starts a process that does not check the indexes. The first one leaves them to it as soon as somebody else publishes
/// them, so that the scrubber has to ask it.
async fn second_projector(servers: &Servers, folder: &Path) -> (Process, Management) {
    let (managed, folder) = (free_address(), folder.display().to_string());
    let own = ["--node-name", "writer", "--management-listen", &managed, "--index-dir", &folder, "--scrub-every", "0"];
    let mut flags = servers.flags();
    flags.insert(0, "projector".to_owned());
    flags.extend(own.into_iter().chain(GRACE).map(str::to_owned));
    let process = Process::spawn(&flags, &[], Stdio::null());
    let management = Management::at(&managed);
    eventually("a second projector", || management.get("/readyz")).await;
    (process, management)
}

/// Waits until what is published is later than all that is changed by hand: later events are applied once more.
async fn published_until(servers: &Servers, view: &str, end: u64) -> (Copy, Arc<Snapshot>) {
    let is_later = async || {
        let copy = Copy::of(servers, view).await;
        let snapshot = copy.install(&copy.folder()).await;
        (snapshot.position.sequence >= end && snapshot.documents() > 0).then_some((copy, snapshot))
    };
    eventually(view, is_later).await
}

#[tokio::test]
async fn documents_that_are_not_what_the_log_says_are_written_anew() {
    let servers = Servers::start().await;
    let flags = [flags(&servers), GRACE.map(str::to_owned).to_vec()].concat();
    let platform = Platform::start_with(&flags, &[]).await;
    platform.ready().await;
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let (_process, writer) = second_projector(&servers, folder.path()).await;
    let (client, operator) = (platform.client().await, platform.operator().await);
    let filled = fill(&client).await;
    let people = People::create(&client).await;
    let last = created(&client, TARGETS, target("last")).await.id();
    is_checked(&operator).await;
    let audit = Audit::of(servers.nats().await).await;
    let views = ["targets_index", "users_index", "sessions_index"];
    let sequence = |id: &str| audit.events_of(id).last().expect("it has events").sequence;
    let ends = [sequence(&last), sequence(&people.erased), 1];
    let mut before = vec![];
    for (view, end) in views.into_iter().zip(ends) {
        before.push(published_until(&servers, view, end).await);
    }

    let commits = async || writer.sum("platform_index_commits_total", &["index=\"targets_index\""]).await;
    let commits_before = commits().await;
    change_by_hand(&servers, &audit, &filled, &people).await;
    let counts = async || {
        let found = checks(&operator).await;
        let of = |view: &str| repaired(&found, view);
        (views.map(of) == [5, 2, 1]).then_some(found)
    };
    let found = eventually("the documents are written anew", counts).await;
    for (view, check) in found.iter().filter(|(view, _)| !views.contains(&view.as_str())) {
        assert_eq!(check["repairedAt"], Value::Null, "{view}: {check}");
    }
    let examples = found["targets_index"]["repairedExamples"].to_string();
    assert!(examples.contains("targets ") && examples.contains(" of instance "), "{examples}");
    for (view, (_copy, was)) in views.into_iter().zip(&before) {
        let is_restored = async || {
            let copy = Copy::of(&servers, view).await;
            let now = copy.install(&copy.folder()).await;
            now.differences(was).expect("both can be read").is_empty().then_some(())
        };
        eventually("the published index is as before", is_restored).await;
    }
    assert!(commits().await > commits_before, "the other process has written them anew");
    is_found(&client, "scrubbed 1", 1).await;
    is_found(&client, "mixed up", 0).await;
    is_found(&client, "gone", 0).await;

    // Nothing is written anew that is right.
    is_checked(&operator).await;
    let found = checks(&operator).await;
    assert_eq!(views.map(|view| repaired(&found, view)), [5, 2, 1]);
}

/// Waits until so many targets are found by a name.
async fn is_found(client: &Client, name: &str, count: usize) {
    let total = count.to_string();
    let is_it = async || {
        let search = client.request(Method::POST, &format!("{TARGETS}/_search"));
        let found = send(search.json(&json!([{ "name": { "name": name } }]))).await;
        (found.body["details"]["totalResult"] == *total).then_some(())
    };
    eventually(&format!("{count} named {name}"), is_it).await;
}

#[tokio::test]
async fn an_index_that_cannot_be_read_to_its_end_is_built_again() {
    let servers = Servers::start().await;
    let flags = [flags(&servers), GRACE.map(str::to_owned).to_vec()].concat();
    let platform = Platform::start_with(&flags, &[]).await;
    platform.ready().await;
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let _process = second_projector(&servers, folder.path()).await;
    let (client, operator) = (platform.client().await, platform.operator().await);
    for _ in 0..3 {
        created(&client, TARGETS, target("scrubbed")).await;
    }
    let last = created(&client, TARGETS, target("last")).await.id();
    is_checked(&operator).await;
    let audit = Audit::of(servers.nats().await).await;
    let end = audit.events_of(&last).last().expect("it was created").sequence;
    let (copy, before) = published_until(&servers, "targets_index", end).await;
    let documents = before.documents();

    copy.publish_with_nothing().await;
    let is_repaired = async || (repaired(&checks(&operator).await, "targets_index") > 0).then_some(());
    eventually("the index is built again", is_repaired).await;
    let is_published = async || {
        let copy = Copy::of(&servers, "targets_index").await;
        // What was withdrawn is empty until the new one has caught up.
        let is_there = !copy.manifest().await.meta.is_empty();
        let now = if is_there { copy.install(&copy.folder()).await } else { return None };
        now.contents().is_ok_and(|contents| contents.count() as u64 == documents).then_some(())
    };
    eventually("it is published", is_published).await;
    is_found(&client, "scrubbed", 3).await;
    is_checked(&operator).await;
    let found = checks(&operator).await;
    assert_eq!(repaired(&found, "targets_index"), 1, "{found:?}");
    assert_eq!(found["targets_index"]["repairedExamples"], json!(["all targets"]));
}
