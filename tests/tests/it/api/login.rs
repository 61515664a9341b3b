//! Passwords at logins: right ones, refusals that do not differ, and the limit of tries.

use std::{collections::BTreeSet, time::Duration};

use eventlog::tries::{Counted, Counting, Tries};
use futures::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, after, created, done, post, send},
    eventually,
    platform::Platform,
    tenant::{Tenant, new_name},
};

const USERS: &str = "/resources/v3alpha/users";
const ORGANIZATIONS: &str = "/resources/v3alpha/organizations";
const SESSIONS: &str = "/resources/v3alpha/sessions";
const EVENTS: &str = "/resources/v3alpha/events/_search";
const PASSWORD: &str = "nine-lives-of-a-tabby-cat";

/// Creates a person with these password members, and returns the user name.
async fn person(admin: &Client, password: Value) -> (String, String) {
    let (name, data) = (new_name(), json!({ "given_name": "Ada", "family_name": "Lovelace" }));
    let user = json!({ "username": name, "human": { "data": data, "password": password } });
    (done(admin, USERS, user).await.id(), name)
}

async fn ada(admin: &Client) -> (String, String) {
    person(admin, json!({ "password": PASSWORD })).await
}

/// Creates a session by a user name and a password.
async fn log_in(client: &Client, name: &str, password: &str) -> Answer {
    let checks = json!({ "user": { "loginName": name }, "password": { "password": password } });
    post(client, SESSIONS, json!({ "checks": checks })).await
}

async fn patch_checks(client: &Client, session: &str, checks: Value) -> Answer {
    let request = client.request(Method::PATCH, &format!("{SESSIONS}/{session}"));
    send(request.json(&json!({ "checks": checks }))).await
}

fn password(of: &str) -> Value {
    json!({ "password": { "password": of } })
}

async fn is_locked_after(admin: &Client, tries: u32) {
    let settings = json!({ "maxPasswordAttempts": { "set": tries } });
    let request = admin.request(Method::PATCH, "/settings/v3alpha/lockout").header("prefer", "wait=10");
    let answer = send(request.json(&settings)).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
}

async fn state(admin: &Client, id: &str) -> String {
    let user = send(admin.request(Method::GET, &format!("{USERS}/{id}")).header("consistency-wait", "10s")).await;
    user.body["user"]["state"].as_str().unwrap_or_default().to_owned()
}

/// Waits until an event of an object exists, and checks that it happened only once.
async fn happened_once(admin: &Client, id: &str, event_type: &str) {
    let count = eventually("it is told", || async {
        let count = happened(admin, id, event_type).await;
        (count > 0).then_some(count)
    });
    assert_eq!(count.await, 1, "{event_type}");
}

async fn happened(admin: &Client, id: &str, event_type: &str) -> usize {
    let found = post(admin, EVENTS, json!([{ "aggregateId": id }])).await;
    let events = found.body["result"].as_array().cloned().unwrap_or_default();
    events.iter().filter(|event| event["type"] == event_type).count()
}

#[tokio::test]
async fn a_password_that_is_right_is_told_in_the_session() {
    let tenant = Tenant::start().await;
    let (admin, nobody) = (tenant.client().await, tenant.client_named("nobody").await);
    let (user, name) = ada(&admin).await;
    let made = log_in(&admin, &name.to_uppercase(), PASSWORD).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let read = |of: &Answer| admin.request(Method::GET, &format!("{SESSIONS}/{}", of.id()));
    let factors = after(&made, read(&made)).await.body["session"]["factors"].take();
    assert_eq!(factors["user"]["id"], json!(user));
    let at = |factors: &Value| factors["password"]["verifiedAt"].as_str().map(str::to_owned);
    assert_eq!(at(&factors).as_deref(), factors["user"]["verifiedAt"].as_str(), "both were checked");

    // It may come later than who it is, and again.
    let unproven = created(&admin, SESSIONS, json!({ "checks": { "user": { "userId": user } } })).await;
    let id = unproven.id();
    assert_eq!(at(&after(&unproven, read(&unproven)).await.body["session"]["factors"]), None);
    let wrong = patch_checks(&admin, &id, password("eight-lives-of-a-cat")).await;
    wrong.assert_refused("a wrong one", 400, "CREDENTIALS_INVALID");
    let first = patch_checks(&admin, &id, password(PASSWORD)).await;
    assert_eq!(first.status, 200, "{}", first.body);
    assert!(first.body["sessionToken"].is_string() && first.sequence() > unproven.sequence());
    let again = patch_checks(&admin, &id, password(PASSWORD)).await;
    assert!(first.sequence() < again.sequence());
    let told = after(&again, read(&unproven)).await.body;
    assert!(at(&told["session"]["factors"]).is_some() && !told.to_string().contains("tabby"), "{told}");

    // Of nobody, of somebody else, and by whoever has no more than the token.
    let empty = created(&admin, SESSIONS, json!({})).await;
    patch_checks(&admin, &empty.id(), password(PASSWORD)).await.assert_refused("of nobody", 400, "INVALID_REQUEST");
    let alone = post(&admin, SESSIONS, json!({ "checks": password(PASSWORD) })).await;
    alone.assert_refused("of nobody", 400, "INVALID_REQUEST");
    let (_, other) = ada(&admin).await;
    let both = json!({ "user": { "loginName": other }, "password": { "password": PASSWORD } });
    patch_checks(&admin, &id, both).await.assert_refused("of another", 400, "PRECONDITION_FAILED");
    let token = again.body["sessionToken"].as_str().expect("it changed");
    let body = json!({ "sessionToken": token, "checks": password(PASSWORD) });
    let request = nobody.request(Method::PATCH, &format!("{SESSIONS}/{id}")).json(&body);
    send(request).await.assert_refused("with the token", 404, "RESOURCE_NOT_FOUND");
    log_in(&nobody, &name, PASSWORD).await.assert_refused("without rights", 403, "PERMISSION_DENIED");
    patch_checks(&admin, "1", password(PASSWORD)).await.assert_refused("no session", 404, "RESOURCE_NOT_FOUND");
}

#[tokio::test]
async fn whoever_may_not_log_in_is_refused_as_with_a_wrong_password() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let (_, right) = ada(&admin).await;
    let without = {
        let user = json!({ "username": new_name(), "human": { "data": { "given_name": "A", "family_name": "L" } } });
        let name = user["username"].as_str().unwrap().to_owned();
        done(&admin, USERS, user).await;
        name
    };
    let service = new_name();
    done(&admin, USERS, json!({ "username": service, "service": { "name": "robot" } })).await;
    let mut names = vec![("a wrong one", right, "eight-lives-of-a-tabby-cat"), ("none", without, PASSWORD)];
    names.extend([("a service user", service, PASSWORD), ("nobody", new_name(), PASSWORD)]);
    for verb in ["_lock", "_deactivate"] {
        let (user, name) = ada(&admin).await;
        done(&admin, &format!("{USERS}/{user}/{verb}"), json!({})).await;
        names.push((verb, name, PASSWORD));
    }
    let organization = done(&admin, ORGANIZATIONS, json!({ "name": new_name() })).await.id();
    let (name, data) = (new_name(), json!({ "given_name": "Ada", "family_name": "Lovelace" }));
    let user = json!({ "username": name, "human": { "data": data, "password": { "password": PASSWORD } } });
    done(&admin, &format!("{USERS}?ctx.orgId={organization}"), user).await;
    assert_eq!(log_in(&admin, &name, PASSWORD).await.status, 201);
    done(&admin, &format!("{ORGANIZATIONS}/{organization}/_deactivate"), json!({})).await;
    names.push(("an inactive organization", name, PASSWORD));

    let mut told = BTreeSet::new();
    for (case, name, said) in names {
        let answer = log_in(&admin, &name, said).await;
        answer.assert_refused(case, 400, "CREDENTIALS_INVALID");
        let details = answer.body["details"].as_array().cloned().unwrap_or_default();
        let details: Vec<_> = details.into_iter().filter(|it| it.get("requestId").is_none()).collect();
        told.insert(json!([answer.body["message"], details]).to_string());
    }
    assert_eq!(told.len(), 1, "one answer for all: {told:?}");
    let by_id = json!({ "user": { "userId": "1" }, "password": { "password": PASSWORD } });
    let by_id = post(&admin, SESSIONS, json!({ "checks": by_id })).await;
    by_id.assert_refused("no such id", 400, "CREDENTIALS_INVALID");
}

#[tokio::test]
async fn of_many_wrong_passwords_at_one_time_as_many_are_compared_as_there_may_be_tries() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    is_locked_after(&admin, 3).await;
    let ((user, name), (_, other)) = (ada(&admin).await, ada(&admin).await);
    for _ in 0..2 {
        log_in(&admin, &name, "eight-lives").await.assert_refused("a wrong one", 400, "CREDENTIALS_INVALID");
    }
    assert_eq!(log_in(&admin, &name, PASSWORD).await.status, 201, "a right one begins anew");
    assert_eq!(state(&admin, &user).await, "EFFECTIVE_STATE_ACTIVE");

    let tries = (0..20).map(|number| log_in(&admin, &name, if number == 19 { PASSWORD } else { "eight-lives" }));
    let answers = join_all(tries).await;
    let right = answers.iter().filter(|answer| answer.status == 201).count();
    assert!(right <= 1, "{right}");
    for answer in answers.iter().filter(|answer| answer.status != 201) {
        assert!(["CREDENTIALS_INVALID", "RATE_LIMITED"].contains(&answer.reason()), "{}", answer.body);
    }
    // The right one may have come first, or between the others, which begins anew: then they were three again by now.
    for _ in 0..3 {
        log_in(&admin, &name, "eight-lives").await;
    }
    assert_ne!(log_in(&admin, &name, PASSWORD).await.status, 201, "the right one comes too late");
    happened_once(&admin, &user, "user.locked").await;
    assert_eq!(log_in(&admin, &other, PASSWORD).await.status, 201, "nobody else is locked");

    let change = json!({ "newPassword": "a-hive-of-27-bees", "currentPassword": PASSWORD });
    let changed = post(&admin, &format!("{USERS}/{user}/password"), change).await;
    assert_ne!(changed.status, 200, "another door tells no more: {}", changed.body);

    done(&admin, &format!("{USERS}/{user}/_unlock"), json!({})).await;
    for _ in 0..2 {
        log_in(&admin, &name, "eight-lives").await.assert_refused("it begins anew", 400, "CREDENTIALS_INVALID");
    }
    assert_eq!(log_in(&admin, &name, PASSWORD).await.status, 201, "an administrator lets in again");
}

#[tokio::test]
async fn tries_count_at_every_door_and_through_a_restart() {
    let mut platform = Platform::start().await;
    let admin = platform.client().await;
    is_locked_after(&admin, 3).await;
    let (user, name) = ada(&admin).await;
    let change = json!({ "newPassword": "a-hive-of-27-bees", "currentPassword": "eight-lives" });
    let changed = post(&admin, &format!("{USERS}/{user}/password"), change).await;
    changed.assert_refused("a wrong current one", 400, "INVALID_REQUEST");
    log_in(&admin, &name, "eight-lives").await.assert_refused("a wrong one", 400, "CREDENTIALS_INVALID");
    platform.process().kill().await;
    platform.restart(&[]).await;
    let admin = platform.client().await;
    let by_id = json!({ "user": { "userId": user }, "password": { "password": "eight-lives" } });
    let by_id = post(&admin, SESSIONS, json!({ "checks": by_id })).await;
    by_id.assert_refused("a wrong one by id", 400, "CREDENTIALS_INVALID");
    log_in(&admin, &name, PASSWORD).await.assert_refused("the right one", 400, "CREDENTIALS_INVALID");
    happened_once(&admin, &user, "user.locked").await;

    // Those who share a place to count do so for themselves, and what was not tried does not count.
    let log = platform.log().await;
    let tries = Tries::open(log.context(), 1).await.expect("it is there");
    let count = async |of: &str, since, begins| {
        let counting = Counting { key: "shared".to_owned(), of: of.to_owned(), since, begins };
        match tries.count(&counting).await.expect("NATS is there") {
            Counted::Try(counted) => Some(counted),
            Counted::TooEarly(_) | Counted::Late => None,
        }
    };
    let counted = async |of: &str| count(of, 3, true).await;
    for count in 1..=5 {
        assert_eq!(counted("a").await.map(|counted| counted.count), Some(count));
    }
    assert!(counted("a").await.is_none());
    let other = counted("b").await.expect("it is somebody else's first");
    assert_eq!(other.count, 1);
    tries.take_back(other).await.expect("NATS is there");
    assert_eq!(counted("b").await.map(|counted| counted.count), Some(1));
    // Where something happened that lets nobody begin anew, they go on; where it does, those from before are late.
    assert_eq!(count("b", 4, false).await.map(|counted| counted.count), Some(2));
    assert_eq!(counted("b").await.map(|counted| counted.count), Some(3));
    assert_eq!(count("b", 5, true).await.map(|counted| counted.count), Some(1));
    assert!(counted("b").await.is_none());

    // What cannot be counted is not compared.
    let (_, other) = ada(&admin).await;
    log.context().delete_stream("KV_TRIES").await.expect("it is there");
    let refused = log_in(&admin, &other, PASSWORD).await;
    refused.assert_refused("nothing counts", 503, "WRITER_UNAVAILABLE");
    platform.stop().await;
    platform.restart(&[]).await;
    let admin = platform.client().await;
    assert_eq!(log_in(&admin, &other, PASSWORD).await.status, 201, "it is made again");
}

#[tokio::test]
async fn after_some_wrong_passwords_the_next_one_has_to_wait() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let (user, name) = ada(&admin).await;
    let absent = new_name();
    for name in [&name, &absent] {
        for _ in 0..5 {
            log_in(&admin, name, "eight-lives").await.assert_refused("a wrong one", 400, "CREDENTIALS_INVALID");
        }
        let early = log_in(&admin, name, PASSWORD).await;
        early.assert_refused("too early", 429, "RATE_LIMITED");
        let limit = early.body["details"].to_string();
        assert!(limit.contains(r#""limit":"tries""#), "{limit}");
        assert_eq!(early.headers["retry-after"], "1", "{:?}", early.headers);
    }
    tokio::time::sleep(Duration::from_millis(1100)).await;
    assert_eq!(log_in(&admin, &name, PASSWORD).await.status, 201, "what came too early did not count");
    for _ in 0..5 {
        log_in(&admin, &name, "eight-lives").await.assert_refused("a wrong one", 400, "CREDENTIALS_INVALID");
    }
    log_in(&admin, &name, PASSWORD).await.assert_refused("too early", 429, "RATE_LIMITED");
    assert_eq!(state(&admin, &user).await, "EFFECTIVE_STATE_ACTIVE", "nobody is locked where settings do not say so");
}

#[tokio::test]
async fn a_hash_of_another_system_is_replaced_at_the_first_login() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let hash = "$2b$04$tp4KVyv19vQIx/uR84vCgeMOOOCrVzatyk2nkue3jwVWEZhaGtNR2";
    let (user, name) = person(&admin, json!({ "hash": hash, "changeRequired": true })).await;
    let told = async || send(admin.request(Method::GET, &format!("{USERS}/{user}"))).await.body["user"].take();
    let before = told().await["password"].take();
    log_in(&admin, &name, "correct horse e").await.assert_refused("a wrong one", 400, "CREDENTIALS_INVALID");
    assert_eq!(happened(&admin, &user, "user.changed").await, 0);
    for _ in 0..2 {
        let made = log_in(&admin, &name, "correct horse \u{e9}").await;
        assert_eq!(made.status, 201, "{}", made.body);
        happened_once(&admin, &user, "user.changed").await;
    }
    assert_eq!(told().await["password"], before, "it is the same password");
}
