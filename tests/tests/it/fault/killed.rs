//! Processes are killed at every step of retries and discards of failed events: nothing is lost, nothing is processed
//! twice, and what was discarded stays discarded.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    client::{Client, TARGETS, post, send, waited},
    endpoint::{Called, Endpoint, Reply, execute},
    eventually,
    platform::Platform,
    servers::Servers,
};

use super::{
    mending::{FAILED, Failing, SESSIONS, id_in, is_found, is_named},
    parking::{failed, name, rename},
};

/// The steps at which a retry can be killed: at the decision, in rows and in the index.
const OF_RETRY: &[&str] = &[
    "turn.decided/RetryFailedEvents",
    "commit.decided",
    "commit.publishing",
    "commit.published",
    "commit.answering",
    "commit.answered",
    "retry.met/targets",
    "retry.taken/targets",
    "retry.folded/targets",
    "retry.applied/targets",
    "retry.committed/targets",
    "retry.met/targets_index",
    "retry.taken/targets_index",
    "retry.folded/targets_index",
    "index.applied",
    "index.committing",
    "index.committed",
    "index.packed",
    "index.published",
];

/// The steps of a discard. It writes nothing to an index, so that it has fewer steps.
const OF_DISCARD: &[&str] = &[
    "turn.decided/DiscardFailedEvent",
    "commit.decided",
    "commit.publishing",
    "commit.published",
    "commit.answered",
    "retry.met/targets",
    "retry.taken/targets",
    "retry.folded/targets",
    "retry.applied/targets",
    "retry.committed/targets",
];

/// The steps of a retry in an index whose events are in the other log, which learns of decisions in another way.
const OF_SESSIONS: &[&str] = &["retry.taken/sessions_index", "retry.folded/sessions_index"];

/// The steps of discarding a delivery.
const OF_LEFT_OUT: &[&str] =
    &["turn.decided/DiscardFailedEvent", "mending.met", "mending.found", "mending.taken", "mending.done"];

/// The steps of retrying deliveries.
const OF_DELIVERIES: &[&str] = &[
    "turn.decided/RetryFailedEvents",
    "mending.met",
    "mending.found",
    "deliveries.again",
    "mending.taken",
    "mending.done",
    "deliveries.delivered",
];

/// Returns each step with the next one, and `nowhere` at the end.
fn steps(all: &'static [&str]) -> impl Iterator<Item = (&'static str, &'static str)> {
    all.iter().copied().zip(all.iter().copied().skip(1).chain(["nowhere"]))
}

/// Sends a request whose answer may never come.
async fn ask(operator: &Client, path: &str, body: Value) {
    let _ = operator.request(Method::POST, path).json(&body).send().await;
}

async fn nothing_waits(operator: &Client, filters: Value) {
    eventually("nothing waits", async || failed(operator, filters.clone()).await.is_empty().then_some(())).await;
}

#[tokio::test]
async fn a_retry_that_is_killed_at_any_step_is_done_once() {
    let mut failing = Failing::start().await;
    let ids = failing.targets(["a", "b"]).await;
    let (client, operator) = (failing.client.clone(), failing.operator.clone());
    failing.restart_killed_at(OF_RETRY[0]).await;
    for (step, next) in steps(OF_RETRY) {
        failing.fails(true);
        for id in &ids {
            rename(&client, id, &format!("{id} {step}")).await;
        }
        let all = async || (failed(&operator, json!([])).await.len() == 2 * ids.len()).then_some(());
        eventually("all wait", all).await;
        failing.fails(false);
        failing.kills(true);
        ask(&operator, &format!("{FAILED}/_retry"), json!({})).await;
        failing.is_killed(step).await;
        failing.kills(false);
        failing.restart_killed_at(next).await;
        for id in &ids {
            is_named(&client, id, &format!("{id} {step}")).await;
            is_found(&client, &format!("{id} {step}"), 1).await;
        }
        nothing_waits(&operator, json!([])).await;
    }
    failing.assert_projected().await;
}

#[tokio::test]
async fn a_discard_that_is_killed_at_any_step_holds_or_was_never_made() {
    let mut failing = Failing::start().await;
    let [a] = failing.targets(["a"]).await;
    let (client, operator) = (failing.client.clone(), failing.operator.clone());
    failing.restart_killed_at(OF_DISCARD[0]).await;
    for (step, next) in steps(OF_DISCARD) {
        failing.fails(true);
        rename(&client, &a, &format!("left out at {step}")).await;
        let of_rows = id_in(&operator, "targets", &a).await;
        id_in(&operator, "targets_index", &a).await;
        failing.kills(true);
        let discard = format!("{FAILED}/{of_rows}/_discard");
        ask(&operator, &discard, json!({ "reason": step })).await;
        failing.is_killed(step).await;
        failing.kills(false);
        failing.restart_killed_at(next).await;

        // Whoever had no answer asks once more. It still fails, so that what is gone was left out and not taken up.
        let again = async || {
            let answer = post(&operator, &discard, json!({ "reason": step })).await;
            [StatusCode::OK, StatusCode::NOT_FOUND].contains(&answer.status).then_some(())
        };
        eventually("it is discarded", again).await;
        nothing_waits(&operator, json!([{ "viewName": "targets" }])).await;
        let of_index = id_in(&operator, "targets_index", &a).await;
        let discarded = post(&operator, &format!("{FAILED}/{of_index}/_discard"), json!({ "reason": step })).await;
        assert_eq!(discarded.status, StatusCode::OK, "{}", discarded.body);
        nothing_waits(&operator, json!([])).await;
        failing.fails(false);
        assert_eq!(name(&client, &a).await, "a", "{step}");
    }
    let left_out = failed(&operator, json!([{ "state": "FAILED_EVENT_STATE_DISCARDED" }])).await;
    assert_eq!(left_out.len(), 2 * OF_DISCARD.len(), "each was discarded once in each view");
    failing.rebuild().await;
    is_named(&client, &a, "a").await;
    is_found(&client, "a", 1).await;
    assert!(failed(&operator, json!([])).await.is_empty());
}

#[tokio::test]
async fn a_retry_of_sessions_that_is_killed_at_any_step_is_done_once() {
    let mut failing = Failing::start().await;
    let (client, operator) = (failing.client.clone(), failing.operator.clone());
    let session = waited(&client, SESSIONS, json!({ "metadata": { "at": "first" } })).await.id();
    let is_found = async |place: &str| {
        let found = post(&client, &format!("{SESSIONS}/_search"), json!([{ "inIds": { "ids": [session] } }])).await;
        (found.body["result"][0]["metadata"]["at"] == place).then_some(())
    };
    failing.restart_killed_at(OF_SESSIONS[0]).await;
    for (step, next) in steps(OF_SESSIONS) {
        failing.fails(true);
        let change = client.request(Method::PATCH, &format!("{SESSIONS}/{session}"));
        assert_eq!(send(change.json(&json!({ "metadata": { "at": step } }))).await.status, StatusCode::OK);
        id_in(&operator, "sessions_index", &session).await;
        failing.fails(false);
        failing.kills(true);
        ask(&operator, &format!("{FAILED}/_retry"), json!({})).await;
        failing.is_killed(step).await;
        failing.kills(false);
        failing.restart_killed_at(next).await;
        eventually(step, async || is_found(step).await).await;
        nothing_waits(&operator, json!([])).await;
    }
}

/// A platform with a target that fails at everything, which is killed at a point while a file exists.
struct Delivering {
    _servers: Servers,
    platform: Platform,
    client: Client,
    operator: Client,
    endpoint: Endpoint,
    hook: String,
    switch: tempfile::TempPath,
}

impl Delivering {
    async fn start() -> Self {
        let switch = tempfile::NamedTempFile::new().expect("a temporary file can be made").into_temp_path();
        std::fs::remove_file(&switch).expect("it was just made");
        let servers = Servers::start().await;
        let patient = ["--delivery-tries", "1", "--delivery-pause", "20"].map(str::to_owned);
        let platform = Platform::start_with(&[servers.flags(), patient.to_vec()].concat(), &[]).await;
        platform.ready().await;
        let (client, operator) = (platform.client().await, platform.operator().await);
        let endpoint = Endpoint::replying(Reply::status(503)).await;
        let (hook, _) = endpoint.target(&client, "restWebhook", &json!({})).await;
        execute(&client, json!({ "event": { "event": "target.added" } }), &[&hook]).await;
        Self { _servers: servers, platform, client, operator, endpoint, hook, switch }
    }

    /// Returns the ids of the targets whose events are delivered.
    async fn targets(&self) -> Vec<String> {
        let found = post(&self.client, &format!("{TARGETS}/_search"), json!({})).await.body;
        let all = found["result"].as_array().cloned().unwrap_or_default();
        let ids = all.iter().filter_map(|one| Some(one["details"]["id"].as_str()?.to_owned()));
        let mut ids: Vec<String> = ids.filter(|id| *id != self.hook).collect();
        ids.sort_unstable();
        ids
    }

    async fn restart(&mut self, step: &str) {
        if !self.platform.process().has_ended() {
            self.platform.stop().await;
        }
        let fault = format!("{step}:1:kill-while={}", self.switch.display());
        self.platform.restart(&[("PLATFORM_FAULT", &fault)]).await;
    }

    fn kills(&self, kills: bool) {
        let switched = if kills { std::fs::write(&self.switch, "") } else { std::fs::remove_file(&self.switch) };
        switched.expect("the folder can be written");
    }

    async fn is_killed(&mut self, step: &str) {
        eventually(step, || std::future::ready(self.platform.process().has_ended().then_some(()))).await;
    }

    /// Creates a target of which one delivery was given up, and whose next ones succeed.
    async fn gives_up(&self, name: &str) -> String {
        self.endpoint.reply(Reply::status(503));
        let created = self.client.create_target(name).await.expect("it is created");
        self.are_given_up(1).await;
        self.endpoint.take();
        self.endpoint.reply(Reply::status(204));
        created
    }

    /// Sends a request during which the platform is killed at a step, and repeats it for the next step: it may have
    /// been killed before anything was decided.
    async fn dies_at(&mut self, (step, next): (&str, &str), (path, body): (&str, Value)) {
        self.kills(true);
        ask(&self.operator, path, body.clone()).await;
        self.is_killed(step).await;
        self.kills(false);
        self.restart(next).await;
        let again = async || {
            let answer = post(&self.operator, path, body.clone()).await;
            [StatusCode::OK, StatusCode::NOT_FOUND].contains(&answer.status).then_some(())
        };
        eventually("it is asked for again", again).await;
        self.are_given_up(0).await;
    }

    /// Returns all calls about a target before the one about its new name, which waits for those before it.
    async fn told_of(&self, id: &str) -> Vec<Called> {
        rename(&self.client, id, "the end").await;
        let is_last = |call: &Called| call.json()["event_type"] == "target.changed" && call.json()["aggregateID"] == id;
        let all = async || {
            let mut calls = self.endpoint.calls();
            let end = calls.iter().position(is_last)?;
            calls.truncate(end);
            Some(calls)
        };
        eventually("it is told of the new name", all).await
    }

    async fn are_given_up(&self, count: usize) {
        let all = async || {
            let found = failed(&self.operator, json!([{ "viewName": "deliveries" }])).await;
            (found.len() == count).then_some(())
        };
        eventually(&format!("{count} are given up"), all).await;
    }
}

#[tokio::test]
async fn deliveries_that_are_made_again_are_not_lost_wherever_that_is_killed() {
    let mut delivering = Delivering::start().await;
    execute(&delivering.client, json!({ "event": { "event": "target.changed" } }), &[&delivering.hook]).await;
    delivering.restart(OF_DELIVERIES[0]).await;
    for (step, next) in steps(OF_DELIVERIES) {
        let created = delivering.gives_up(step).await;
        delivering.dies_at((step, next), (&format!("{FAILED}/_retry"), json!({}))).await;
        let calls = delivering.told_of(&created).await;
        // From there on it may be under way when the process dies.
        let is_put = !["turn.decided/RetryFailedEvents", "mending.met", "mending.found"].contains(&step);
        let most = if is_put { 2 } else { 1 };
        assert!((1..=most).contains(&calls.len()), "{step}: it was told {} times", calls.len());
        assert!(
            calls.iter().all(|call| delivery_of(call) == delivery_of(&calls[0])),
            "{step}: each is the same delivery"
        );
    }
}

fn delivery_of(call: &Called) -> (String, Value) {
    (call.header("platform-delivery-id").to_owned(), call.json()["sequence"].clone())
}

#[tokio::test]
async fn a_delivery_that_is_left_out_is_told_to_nobody_wherever_that_is_killed() {
    let mut delivering = Delivering::start().await;
    execute(&delivering.client, json!({ "event": { "event": "target.changed" } }), &[&delivering.hook]).await;
    delivering.restart(OF_LEFT_OUT[0]).await;
    for (step, next) in steps(OF_LEFT_OUT) {
        let created = delivering.gives_up(step).await;
        let discard = format!("{FAILED}/{}/_discard", id_in(&delivering.operator, "deliveries", &created).await);
        delivering.dies_at((step, next), (&discard, json!({ "reason": step }))).await;
        assert!(delivering.told_of(&created).await.is_empty(), "{step}: it was left out");
    }
}

#[tokio::test]
async fn a_delivery_is_given_up_once_where_that_is_killed() {
    let mut delivering = Delivering::start().await;
    delivering.restart("deliveries.kept").await;
    delivering.kills(true);
    // It may die before that is answered.
    let _ = delivering.client.create_target("told").await;
    delivering.is_killed("deliveries.kept").await;
    delivering.kills(false);
    delivering.restart("nowhere").await;
    let after = delivering.client.create_target("after").await.expect("it is created");
    let both = async || {
        let found = failed(&delivering.operator, json!([{ "viewName": "deliveries" }])).await;
        let mut ids: Vec<String> =
            found.iter().filter_map(|one| Some(one["aggregateId"].as_str()?.to_owned())).collect();
        ids.sort_unstable();
        ids.contains(&after).then_some(ids)
    };
    let ids = eventually("the one after it is given up", both).await;
    assert_eq!(ids, delivering.targets().await, "each is given up once");
}
