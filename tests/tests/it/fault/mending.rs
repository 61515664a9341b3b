//! Failed events and operators: they look at one, retry it, or discard it.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    auditor::Audit,
    client::{Client, TARGETS, post, send, waited},
    eventually,
    platform::Platform,
    process::run,
    search_audit::assert_search_results,
    servers::{Servers, drop_indexes, drop_read_models},
};
use tokio::time::sleep;

use super::{
    failed_events::OF_INSTANCE,
    parking::{failed, name, rename},
};

pub(super) const FAILED: &str = "/system/v1/failedevents";
pub(super) const SESSIONS: &str = "/resources/v3alpha/sessions";

/// Waits for a failed event of an aggregate in a view, and returns its id.
pub(super) async fn id_in(operator: &Client, view: &str, aggregate_id: &str) -> String {
    let filters = json!([{ "viewName": view }, { "aggregateId": aggregate_id }]);
    let one = async || Some(failed(operator, filters.clone()).await.first()?["id"].as_str()?.to_owned());
    eventually("it fails", one).await
}

/// Returns a failed event, with the event itself.
pub(super) async fn one(operator: &Client, id: &str) -> Value {
    send(operator.request(Method::GET, &format!("{FAILED}/{id}"))).await.body
}

pub(super) async fn is_named(client: &Client, id: &str, wanted: &str) {
    eventually(wanted, async || (name(client, id).await == wanted).then_some(())).await;
}

/// Waits until a search finds a number of targets with a name.
pub(super) async fn is_found(client: &Client, name: &str, times: usize) {
    let search = format!("{TARGETS}/_search");
    let found = async || {
        let answer = post(client, &search, json!([{ "name": { "name": name } }])).await;
        let count = answer.body["result"].as_array().map(Vec::len).unwrap_or_default();
        (answer.status == StatusCode::OK && count == times).then_some(())
    };
    eventually(name, found).await;
}

fn fault(point: &str, switch: &Path) -> String {
    format!("{point}:1:panic-while={}", switch.display())
}

/// A platform whose views fail at everything while a file exists.
pub(super) struct Failing {
    servers: Servers,
    platform: Platform,
    pub(super) client: Client,
    pub(super) operator: Client,
    switch: tempfile::TempPath,
}

impl Failing {
    pub(super) async fn start() -> Self {
        Self::start_with(&[]).await
    }

    /// Starts it with more in its environment.
    pub(super) async fn start_with(environment: &[(&str, &str)]) -> Self {
        let switch = tempfile::NamedTempFile::new().expect("a temporary file can be made").into_temp_path();
        std::fs::remove_file(&switch).expect("it was just made");
        let servers = Servers::start().await;
        let fault = fault("table.folding/*", &switch);
        let platform =
            Platform::start_with(&servers.flags(), &[&[("PLATFORM_FAULT", &*fault)], environment].concat()).await;
        platform.ready().await;
        let (client, operator) = (platform.client().await, platform.operator().await);
        Self { servers, platform, client, operator, switch }
    }

    /// Returns the id of its instance.
    pub(super) fn instance_id(&self) -> &str {
        &self.platform.bootstrap.instance_id
    }

    /// Stops the platform, and returns a client of its NATS server.
    pub(super) async fn stop(&mut self) -> async_nats::Client {
        self.platform.stop().await;
        self.servers.nats().await
    }

    /// Starts the stopped platform, which fails at this point from now on.
    pub(super) async fn start_at(&mut self, point: &str) {
        self.platform.restart(&[("PLATFORM_FAULT", &fault(point, &self.switch))]).await;
    }

    /// Restarts the platform. It fails at everything while that is switched on, and is killed at this point while that
    /// is.
    pub(super) async fn restart_killed_at(&mut self, point: &str) {
        if !self.platform.process().has_ended() {
            self.platform.stop().await;
        }
        let kill = format!("{point}:1:kill-while={}", self.killing().display());
        let faults = format!("{},{kill}", fault("table.folding/*", &self.switch));
        self.platform.restart(&[("PLATFORM_FAULT", &faults)]).await;
    }

    fn killing(&self) -> PathBuf {
        self.switch.with_extension("kill")
    }

    pub(super) fn kills(&self, kills: bool) {
        let switched = if kills { std::fs::write(self.killing(), "") } else { std::fs::remove_file(self.killing()) };
        switched.expect("the folder can be written");
    }

    pub(super) async fn is_killed(&mut self, point: &str) {
        eventually(point, || std::future::ready(self.platform.process().has_ended().then_some(()))).await;
    }

    /// Fails unless rows and search results match the log.
    pub(super) async fn assert_projected(&self) {
        let audit = Audit::of(self.servers.nats().await).await;
        audit.assert_projected(&self.servers.places.postgres_url).await;
        assert_search_results(&audit, &self.client, &self.platform.bootstrap.instance_id).await;
    }

    /// Restarts the platform without any search index.
    pub(super) async fn index_anew(&mut self) {
        drop_indexes(self.stop().await).await;
        self.platform.restart(&[]).await;
    }

    /// Restarts the platform without any read model.
    pub(super) async fn rebuild(&mut self) {
        self.platform.stop().await;
        drop_read_models(&self.servers.places.postgres_url).await;
        self.platform.restart(&[]).await;
    }

    pub(super) fn fails(&self, fails: bool) {
        let switched = if fails { std::fs::write(&self.switch, "") } else { std::fs::remove_file(&self.switch) };
        switched.expect("the folder can be written");
    }

    /// Creates targets with these names, and waits until the views have them.
    pub(super) async fn targets<const N: usize>(&self, names: [&str; N]) -> [String; N] {
        let mut ids = vec![];
        for name in names {
            ids.push(self.client.create_target(name).await.expect("it is made"));
            is_found(&self.client, name, 1).await;
        }
        ids.try_into().expect("there are as many")
    }

    pub(super) fn postgres_url(&self) -> String {
        self.servers.places.postgres_url.clone()
    }

    /// Returns the flags of a tool that connects to the servers, without the master key at the end.
    pub(super) fn flags(&self) -> Vec<String> {
        let mut flags = self.servers.flags();
        flags.truncate(flags.len() - 2);
        flags
    }

    /// Returns the data directory of the platform.
    pub(super) fn data(&self) -> String {
        self.platform.data().display().to_string()
    }

    /// Runs a tool of operators.
    pub(super) fn tool(&self, arguments: &[&str]) -> (bool, String, String) {
        run(&[&["failed-events"], arguments, &["--data-dir", &self.data()]].concat())
    }
}

#[tokio::test]
async fn what_is_tried_again_goes_on_and_nothing_else_does() {
    let failing = Failing::start().await;
    let Failing { client, operator, .. } = &failing;
    let [a, b] = &failing.targets(["a", "b"]).await;
    failing.fails(true);
    rename(client, a, "a renamed").await;
    rename(client, b, "b renamed").await;
    let (of_rows, of_index) = (id_in(operator, "targets", a).await, id_in(operator, "targets_index", a).await);
    id_in(operator, "targets", b).await;
    id_in(operator, "targets_index", b).await;
    rename(client, a, "a renamed twice").await;

    let one = one(operator, &of_rows).await;
    assert_eq!((&one["failedEvent"]["id"], &one["event"]["type"]), (&json!(of_rows), &json!("target.changed")));
    assert!(one["event"]["payload"].as_str().is_some_and(|payload| payload.contains("a renamed")), "{one}");
    eventually("one more waits", async || (self::one(operator, &of_rows).await["waiting"] == "1").then_some(())).await;

    // What fails again is counted, and stays.
    let retry = format!("{FAILED}/{of_rows}/_retry");
    assert_eq!(post(operator, &retry, json!({})).await.status, StatusCode::OK);
    let again = async || {
        let found = failed(operator, json!([{ "id": of_rows }])).await;
        (found.first()?["failureCount"] == "2").then_some(())
    };
    eventually("it failed again", again).await;
    assert_eq!(name(client, a).await, "a");

    // Two at once do no harm.
    failing.fails(false);
    let (body, of_instance) = (json!({}), format!("{OF_INSTANCE}/{of_rows}/_retry"));
    let both = tokio::join!(post(operator, &retry, body.clone()), post(client, &of_instance, body));
    for answer in [both.0, both.1] {
        assert!([StatusCode::OK, StatusCode::NOT_FOUND].contains(&answer.status), "{}", answer.body);
    }
    is_named(client, a, "a renamed twice").await;
    eventually("it is gone", async || failed(operator, json!([{ "id": of_rows }])).await.is_empty().then_some(()))
        .await;
    assert_eq!(name(client, b).await, "b");
    post(operator, &retry, json!({})).await.assert_refused("it goes on already", 404, "RESOURCE_NOT_FOUND");
    assert_eq!(failed(operator, json!([{ "id": of_index }])).await.len(), 1, "the index has its own");

    let many =
        post(operator, &format!("{FAILED}/_retry"), json!({ "filters": [{ "viewName": "targets_index" }] })).await;
    assert_eq!((many.status, &many.body["count"]), (StatusCode::OK, &json!("2")), "{}", many.body);
    is_found(client, "a renamed twice", 1).await;
    is_found(client, "b renamed", 1).await;
    assert_eq!(name(client, b).await, "b", "rows were not meant");

    let (is_done, said, told) = failing.tool(&["list"]);
    assert!(is_done && said.contains(b.as_str()) && told.contains("1 of 1 failed events"), "{said}{told}");
    let (is_done, said, told) = failing.tool(&["retry", "--all"]);
    assert!(is_done && said.contains("1 are being retried"), "{said}{told}");
    is_named(client, b, "b renamed").await;
    let nothing = post(operator, &format!("{FAILED}/_retry"), json!({})).await;
    assert_eq!((nothing.status, &nothing.body), (StatusCode::OK, &json!({})), "nothing waits");
    post(client, &format!("{FAILED}/_retry"), json!({})).await.assert_refused("no operator", 403, "PERMISSION_DENIED");
}

#[tokio::test]
async fn a_retry_that_is_killed_anywhere_on_its_way_is_done_by_who_comes_after() {
    let mut failing = Failing::start().await;
    let ids = failing.targets(["a", "b", "c", "d"]).await;
    let (client, operator) = (failing.client.clone(), failing.operator.clone());
    let fault = fault("table.folding/*", &failing.switch);
    for round in 0..6_u32 {
        failing.fails(true);
        for id in &ids {
            rename(&client, id, &format!("{id} {round}")).await;
        }
        let all = async || (failed(&operator, json!([])).await.len() == 2 * ids.len()).then_some(());
        eventually("all wait", all).await;
        failing.fails(false);
        let retried = post(&operator, &format!("{FAILED}/_retry"), json!({})).await;
        assert_eq!(retried.status, StatusCode::OK, "{}", retried.body);
        sleep(Duration::from_millis(2) * round.pow(2)).await;
        failing.platform.process().kill().await;
        failing.platform.restart(&[("PLATFORM_FAULT", &fault)]).await;
        for id in &ids {
            is_named(&client, id, &format!("{id} {round}")).await;
            is_found(&client, &format!("{id} {round}"), 1).await;
        }
        eventually("nothing waits", async || failed(&operator, json!([])).await.is_empty().then_some(())).await;
    }
    failing.assert_projected().await;
}

#[tokio::test]
async fn what_is_left_out_stays_so_when_the_view_is_built_again() {
    let mut failing = Failing::start().await;
    let [a, b] = failing.targets(["a", "b"]).await;
    let (client, operator) = (failing.client.clone(), failing.operator.clone());
    failing.fails(true);
    rename(&client, &a, "a left out").await;
    rename(&client, &b, "b left out").await;
    let (of_a, of_b) = (id_in(&operator, "targets", &a).await, id_in(&operator, "targets", &b).await);
    id_in(&operator, "targets_index", &a).await;
    id_in(&operator, "targets_index", &b).await;
    failing.fails(false);
    rename(&client, &b, "b renamed").await;

    let discard = format!("{FAILED}/{of_a}/_discard");
    post(&operator, &discard, json!({})).await.assert_refused("no reason", 400, "INVALID_REQUEST");
    post(&client, &discard, json!({ "reason": "x" })).await.assert_refused("no operator", 403, "PERMISSION_DENIED");
    let discarded = post(&operator, &discard, json!({ "reason": "nobody needs it" })).await;
    assert_eq!(discarded.status, StatusCode::OK, "{}", discarded.body);
    let (is_done, said, told) = failing.tool(&["discard", &of_b, "--reason", "nobody needs it either"]);
    assert!(is_done, "{said}{told}");
    let (is_done, _, told) = failing.tool(&["discard", &of_b]);
    assert!(!is_done && told.contains("--reason"), "{told}");
    let gone = async || failed(&operator, json!([{ "viewName": "targets" }])).await.is_empty().then_some(());
    eventually("rows have nothing that failed", gone).await;
    is_named(&client, &b, "b renamed").await;
    assert_eq!(name(&client, &a).await, "a");
    post(&operator, &discard, json!({ "reason": "x" })).await.assert_refused("again", 404, "RESOURCE_NOT_FOUND");
    let left_out = failed(&operator, json!([{ "state": "FAILED_EVENT_STATE_DISCARDED" }])).await;
    let reasons: Vec<_> = left_out.iter().map(|one| &one["reason"]).collect();
    assert_eq!((left_out.len(), reasons.contains(&&json!("nobody needs it either"))), (2, true), "{left_out:?}");
    let nothing = post(&operator, &format!("{FAILED}/_retry"), json!({ "filters": [{ "id": of_a }] })).await;
    assert_eq!((nothing.status, &nothing.body), (StatusCode::OK, &json!({})), "it does not wait any more");
    assert_eq!(failed(&operator, json!([])).await.len(), 2, "the index has its own");

    // Every way to build the rows again leaves it out, and the index, of which nothing was said, has it.
    failing.platform.stop().await;
    drop_read_models(&failing.servers.places.postgres_url).await;
    failing.platform.restart(&[]).await;
    is_named(&client, &b, "b renamed").await;
    is_found(&client, "a left out", 1).await;
    assert_eq!(name(&client, &a).await, "a");
    eventually("nothing waits", async || failed(&operator, json!([])).await.is_empty().then_some(())).await;
    rename(&client, &a, "a renamed").await;
    is_named(&client, &a, "a renamed").await;
}

/// The events of sessions are in the other log, unlike the decisions about them. Their rows stop instead.
#[tokio::test]
async fn what_fails_in_the_index_of_sessions_is_tried_again_and_left_out_too() {
    let failing = Failing::start().await;
    let Failing { client, operator, .. } = &failing;
    let [a, b] = [
        waited(client, SESSIONS, json!({ "metadata": { "at": "first" } })).await.id(),
        waited(client, SESSIONS, json!({ "metadata": { "at": "first" } })).await.id(),
    ];
    let change = async |id: &str, place: &str| {
        let request = client.request(Method::PATCH, &format!("{SESSIONS}/{id}"));
        assert_eq!(send(request.json(&json!({ "metadata": { "at": place } }))).await.status, StatusCode::OK);
    };
    let is_read = async |id: &str, wanted: &str| {
        let body = send(client.request(Method::GET, &format!("{SESSIONS}/{id}"))).await.body;
        (body["session"]["metadata"]["at"] == wanted).then_some(())
    };
    let is_found = async |id: &str, wanted: &str| {
        let found = post(client, &format!("{SESSIONS}/_search"), json!([{ "inIds": { "ids": [id] } }])).await;
        (found.body["result"][0]["metadata"]["at"] == wanted).then_some(())
    };
    failing.fails(true);
    change(&a, "second").await;
    change(&b, "second").await;
    let of_a = id_in(operator, "sessions_index", &a).await;
    id_in(operator, "sessions_index", &b).await;
    let found = one(operator, &of_a).await;
    assert_eq!(
        (&found["failedEvent"]["log"], &found["event"]["type"]),
        (&json!("SESSIONS"), &json!("session.changed"))
    );
    let is_missing = async || is_read(&a, "first").await.is_none().then_some(());
    eventually("a session whose rows are parked counts as ended", is_missing).await;
    assert!(is_found(&a, "first").await.is_some(), "it is found as it was");
    assert_eq!(post(operator, &format!("{FAILED}/{of_a}/_retry"), json!({})).await.status, StatusCode::OK);
    let again = async || (one(operator, &of_a).await["failedEvent"]["failureCount"] == "2").then_some(());
    eventually("it failed again", again).await;

    failing.fails(false);
    let of_rows = json!({ "filters": [{ "viewName": "sessions" }] });
    let retried = post(operator, &format!("{FAILED}/_retry"), of_rows).await;
    assert_eq!(retried.body["count"], json!("2"), "{}", retried.body);
    eventually("rows go on", async || is_read(&a, "second").await).await;
    eventually("what is found stays what it was", async || is_found(&a, "first").await).await;
    let discard = format!("{FAILED}/{of_a}/_discard");
    let discarded = post(operator, &discard, json!({ "reason": "nobody needs it" })).await;
    assert_eq!(discarded.status, StatusCode::OK, "{}", discarded.body);
    let gone = async || failed(operator, json!([{ "aggregateId": a }])).await.is_empty().then_some(());
    eventually("it is left out", gone).await;
    assert!(is_found(&a, "first").await.is_some(), "what was left out is not found");
    change(&a, "third").await;
    eventually("what comes after is", async || is_found(&a, "third").await).await;
    assert!(is_found(&b, "first").await.is_some(), "nothing was decided about it");
    let retried = post(operator, &format!("{FAILED}/_retry"), json!({})).await;
    assert_eq!(retried.body["count"], json!("1"), "{}", retried.body);
    eventually("it goes on", async || is_found(&b, "second").await).await;
}
