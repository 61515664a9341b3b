//! Personal data in failed events: hidden, unless it is revealed for a given reason, which is recorded in the log.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    auditor::connect,
    client::{Answer, Client, TARGETS, after, created, done, post, put, send, target},
    eventually,
    instance::Instance,
    platform::Platform,
    process::run,
    tenant::{Tenant, new_name},
};
use view::projection::HISTORY;

const OF_SYSTEM: &str = "/system/v1/failedevents";
const OF_INSTANCE: &str = "/resources/v3alpha/failed_events";
const USERS: &str = "/resources/v3alpha/users";
const REASON: &str = "ticket 4711";

/// Creates a person with a password, and returns the id and the user name.
pub(crate) async fn person(admin: &Client) -> (String, String) {
    let name = new_name();
    let human = json!({
        "data": { "given_name": "Grace", "family_name": name },
        "email": { "address": format!("{name}@example.com") },
        "password": { "password": "eight-arms-of-a-small-squid" },
    });
    (done(admin, USERS, json!({ "username": name, "human": human })).await.id(), name)
}

/// Inserts the failure of an aggregate's last event, and returns the id of the failed event.
pub(crate) async fn failed(instance: &Instance, aggregate_type: &str, id: &str) -> String {
    let postgres = connect(&instance.postgres_url()).await;
    let last = HISTORY.sql("select max(sequence) from {schema}.events where aggregate_type = $1 and aggregate_id = $2");
    let known = async || {
        let row = postgres.query_one(&last, &[&aggregate_type, &id]).await.expect("the table is there");
        row.get::<_, Option<i64>>(0)
    };
    let sequence = eventually("history has it", known).await;
    note(instance, (aggregate_type, id), sequence).await;
    sequence.to_string()
}

/// Inserts the failure of the event of an answer, and returns the id of the failed event.
async fn failed_in(instance: &Instance, (aggregate_type, id): (&str, &str), answer: &Answer) -> String {
    let postgres = connect(&instance.postgres_url()).await;
    let sequence = i64::try_from(answer.sequence()).expect("it is small");
    let select = HISTORY.sql("select from {schema}.events where sequence = $1");
    let known = async || postgres.query_opt(&select, &[&sequence]).await.expect("the table is there");
    eventually("history has it", known).await;
    note(instance, (aggregate_type, id), sequence).await;
    sequence.to_string()
}

/// Inserts the failure of the event with a sequence.
async fn note(instance: &Instance, (aggregate_type, id): (&str, &str), sequence: i64) {
    let postgres = connect(&instance.postgres_url()).await;
    let text = "insert into platform.failed_events select 'targets', max(version), 0, $1, $2, $3, $4, $4, \
                0, 0, '', 1, 'made by hand', now(), now() from platform.checkpoints where projection = 'targets'";
    let of_instance = &instance.bootstrap.instance_id;
    postgres.execute(text, &[of_instance, &aggregate_type, &id, &sequence]).await.expect("the table is there");
}

async fn reveal(caller: &Client, path: &str, id: &str) -> Answer {
    post(caller, &format!("{path}/{id}/_reveal"), json!({ "reason": REASON })).await
}

fn payload(answer: &Answer) -> Value {
    let text = answer.body["event"]["payload"].as_str().unwrap_or_else(|| panic!("it has one: {}", answer.body));
    serde_json::from_str(text).expect("it is JSON")
}

fn members(value: &Value) -> Vec<&String> {
    let mut names: Vec<_> = value.as_object().map(|members| members.keys().collect()).unwrap_or_default();
    names.sort();
    names
}

fn personal(paths: &[&str], state: &str) -> Value {
    let member = |path: &&str| json!({ "path": path, "state": format!("PERSONAL_MEMBER_STATE_{state}") });
    paths.iter().map(member).collect()
}

/// The members of a user that are sealed.
const OF_USER: [&str; 2] = ["username", "human.personal"];

/// Returns the disclosures that an administrator finds, once history has all that were made before.
pub(crate) async fn disclosures(admin: &Client, count: usize) -> Vec<Value> {
    let last = created(admin, TARGETS, target("after all of them")).await;
    let request = admin.request(Method::POST, "/resources/v3alpha/events/_search");
    let found = after(&last, request.json(&json!([{ "type": "disclosure.made" }]))).await;
    assert_eq!(found.status, StatusCode::OK, "{}", found.body);
    let events = found.body["result"].as_array().cloned().unwrap_or_default();
    assert_eq!(events.len(), count, "{}", found.body);
    events
}

#[tokio::test]
async fn what_is_personal_is_shown_to_whoever_says_why_and_each_look_is_in_the_log() {
    let tenant = Tenant::start().await;
    let (admin, (user, name)) = (tenant.client().await, person(&tenant.client().await).await);
    let id = failed(&tenant, "user", &user).await;
    let seen = send(admin.request(Method::GET, &format!("{OF_INSTANCE}/{id}"))).await;
    assert!(seen.status == StatusCode::OK && !seen.body.to_string().contains(&name), "{}", seen.body);

    let first = reveal(&admin, OF_INSTANCE, &id).await;
    assert_eq!(first.status, StatusCode::OK, "{}", first.body);
    assert_eq!(payload(&first)["human"]["personal"]["data"]["family_name"], json!(name));
    assert_eq!(first.body["personal"], personal(&OF_USER, "SHOWN"));
    assert_eq!(first.headers["cache-control"], "no-store");
    let (shown, mut rest) = (payload(&first), payload(&seen));
    // Nothing else than what is personal is shown besides, so that no secret is.
    (rest["username"], rest["human"]["personal"]) = (json!(name), shown["human"]["personal"].clone());
    assert_eq!(shown, rest);
    assert_eq!(members(&shown["human"]["personal"]), ["data", "email", "username"]);
    assert_eq!(members(&shown["human"]), ["email_key", "personal", "phone_key", "schema_id", "username_key"]);
    assert_eq!(members(&shown["password"]), ["changed_at", "is_change_required"]);

    let made = disclosures(&admin, 1).await;
    let said: Value = serde_json::from_str(made[0]["payload"].as_str().expect("it has one")).expect("it is JSON");
    assert_eq!((&said["reason"], &said["aggregate_id"]), (&json!(REASON), &json!(user)));
    assert_eq!(
        (&made[0]["actorId"], &made[0]["aggregateId"]),
        (&json!(tenant.bootstrap.service_user.user_id), &json!(id))
    );
    assert_eq!(made[0]["sequence"], first.body["details"]["sequence"]);
    assert!(!made[0].to_string().contains(&name), "{}", made[0]);
    let second = reveal(&admin, OF_INSTANCE, &id).await;
    assert_eq!(payload(&second), payload(&first));
    disclosures(&admin, 2).await;

    // Who operates the platform is no administrator's business, and stands in the log of the system.
    let operator = tenant.operator().await;
    let of_operator = reveal(&operator, OF_SYSTEM, &id).await;
    assert_eq!(payload(&of_operator), payload(&first));
    let filters = json!({ "filters": [{ "type": "disclosure.made" }, { "aggregateId": id }] });
    let of_system = async || {
        let found = post(&operator, "/system/v1/events/_search", filters.clone()).await;
        let found = found.body["result"].as_array().cloned().unwrap_or_default();
        (found.len() == 3).then(|| found[0].clone())
    };
    assert_eq!(eventually("all three are found", of_system).await["actorId"], "operator");
    disclosures(&admin, 2).await;
}

#[tokio::test]
async fn nobody_else_is_shown_what_is_personal() {
    let (tenant, other) = tokio::join!(Tenant::start(), Tenant::start());
    let (admin, operator) = (tenant.client().await, tenant.operator().await);
    let (user, name) = person(&admin).await;
    let id = failed(&tenant, "user", &user).await;
    let own = format!("{OF_INSTANCE}/{id}/_reveal");
    for (caller, path, status, reason) in [
        (tenant.client_named("viewer").await, OF_INSTANCE, 403, "PERMISSION_DENIED"),
        (tenant.client_named("nobody").await, OF_INSTANCE, 403, "PERMISSION_DENIED"),
        (admin.clone(), OF_SYSTEM, 403, "PERMISSION_DENIED"),
        (other.client().await, OF_INSTANCE, 404, "RESOURCE_NOT_FOUND"),
        (other.client().await, OF_SYSTEM, 403, "PERMISSION_DENIED"),
    ] {
        let refused = reveal(&caller, path, &id).await;
        refused.assert_refused(path, status, reason);
        assert!(!refused.body.to_string().contains(&name), "{}", refused.body);
    }
    let reasons = ["", "  ", "\u{a0} \u{3000}", &"x".repeat(1001), "a\nb"].map(|reason| json!({ "reason": reason }));
    for body in [&[json!({})], &reasons[..]].concat() {
        for write in ["_reveal", "_discard"] {
            let path = own.replace("_reveal", write);
            post(&admin, &path, body.clone()).await.assert_refused(write, 400, "INVALID_REQUEST");
        }
    }
    for unknown in ["1", "x", "9223372036854775807"] {
        reveal(&admin, OF_INSTANCE, unknown).await.assert_refused(unknown, 404, "RESOURCE_NOT_FOUND");
        reveal(&operator, OF_SYSTEM, unknown).await.assert_refused(unknown, 404, "RESOURCE_NOT_FOUND");
    }
    let anonymous = send(admin.anonymous(Method::POST, &own).json(&json!({ "reason": REASON }))).await;
    anonymous.assert_refused("nobody", 401, "TOKEN_MISSING");
    disclosures(&admin, 0).await;
}

#[tokio::test]
async fn nothing_of_an_erased_person_is_shown_and_no_stored_answer_has_it() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let (user, name) = person(&admin).await;
    put(&admin, &format!("{USERS}/{user}/metadata/plan"), json!({ "value": format!("gold of {name}") })).await;
    let (of_user, entry) = (failed(&tenant, "user", &user).await, format!("{user}/plan"));
    let of_metadata = failed(&tenant, "user_metadata", &entry).await;
    let once = |id: &str| {
        let request = admin.request(Method::POST, &format!("{OF_INSTANCE}/{id}/_reveal"));
        send(request.header("idempotency-key", id).json(&json!({ "reason": REASON })))
    };
    let (person, metadata) = (once(&of_user).await, once(&of_metadata).await);
    assert_eq!(payload(&metadata)["value"], json!(format!("gold of {name}")), "{}", metadata.body);
    assert_eq!(metadata.body["personal"], personal(&["value"], "SHOWN"));
    let again = once(&of_user).await;
    assert_eq!(again.headers["idempotency-replayed"], "true");
    assert_eq!(again.body, json!({ "details": person.body["details"] }), "it is shown once");
    disclosures(&admin, 2).await;

    let gone = send(admin.request(Method::DELETE, &format!("{USERS}/{user}")).header("prefer", "wait=10")).await;
    assert_eq!(gone.status, StatusCode::OK, "{}", gone.body);
    for (id, paths) in [(&of_user, &OF_USER[..]), (&of_metadata, &["value"])] {
        let (again, anew) = (once(id).await, reveal(&admin, OF_INSTANCE, id).await);
        assert_eq!(anew.body["personal"], personal(paths, "ERASED"), "{}", anew.body);
        assert!(!(again.body.to_string() + &anew.body.to_string()).contains(&name), "{}", anew.body);
    }
}

#[tokio::test]
async fn what_is_not_of_people_is_shown_as_it_always_is() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let of_nobody = admin.create_target("of nobody").await.expect("it is made");
    let id = failed(&tenant, "target", &of_nobody).await;
    let shown = reveal(&admin, OF_INSTANCE, &id).await;
    assert_eq!((shown.status, &shown.body["personal"]), (StatusCode::OK, &Value::Null), "{}", shown.body);
    let seen = send(admin.request(Method::GET, &format!("{OF_INSTANCE}/{id}"))).await;
    assert_eq!(seen.body["event"], shown.body["event"], "secrets are shown to nobody");
}

#[tokio::test]
async fn a_look_is_in_the_log_though_its_answer_is_lost() {
    let switch = tempfile::NamedTempFile::new().expect("a temporary file can be made").into_temp_path();
    std::fs::remove_file(&switch).expect("it was just made");
    let fault = format!("commit.answering:1:kill-while={}", switch.display());
    let mut platform = Platform::start_with(&[], &[("PLATFORM_FAULT", &fault)]).await;
    platform.ready().await;
    let admin = platform.client().await;
    let (user, name) = person(&admin).await;
    let id = failed(&platform, "user", &user).await;
    std::fs::write(&switch, "").expect("the folder can be written");
    let request = admin.request(Method::POST, &format!("{OF_INSTANCE}/{id}/_reveal"));
    let lost = request.json(&json!({ "reason": REASON })).send().await;
    assert!(lost.is_err(), "{lost:?}");
    platform.restart(&[]).await;
    platform.ready().await;
    let made = disclosures(&platform.client().await, 1).await;
    assert!(made[0]["payload"].as_str().is_some_and(|said| said.contains(REASON) && !said.contains(&name)));
}

#[tokio::test]
async fn an_operator_is_shown_it_on_the_command_line() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let (user, name) = person(&admin).await;
    let (id, data) = (failed(&tenant, "user", &user).await, tenant.data().display().to_string());
    let show = |more: &[&str]| run(&[&["failed-events", "show", &id, "--data-dir", &data], more].concat());
    let (is_done, told, said) = show(&[]);
    assert!(is_done && told.contains("user.added") && !told.contains(&name), "{told} {said}");
    let (is_done, told, said) = show(&["--reveal", "--reason", REASON]);
    assert!(is_done && told.contains(&name) && told.contains("human.personal is shown"), "{told} {said}");
    assert!(told.contains("username is shown"), "{told}");
    let (is_done, told, said) = show(&["--reveal", "--reason", REASON, "--json"]);
    let told: Value = serde_json::from_str(&told).unwrap_or_else(|_| panic!("JSON: {told} {said}"));
    assert!(is_done && told["personal"] == personal(&OF_USER, "SHOWN"), "{told}");
    let (is_done, _, said) = show(&["--reveal"]);
    assert!(!is_done && said.contains("--reason"), "{said}");
    disclosures(&admin, 0).await;
}

#[tokio::test]
async fn what_is_changed_is_shown_as_it_is_after_that() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let (user, name) = person(&admin).await;
    let path = format!("{USERS}/{user}");
    let data = json!({ "given_name": "Ada", "family_name": name });
    let changed = send(admin.request(Method::PATCH, &path).json(&json!({ "human": { "data": data } }))).await;
    assert_eq!(changed.status, StatusCode::OK, "{}", changed.body);
    let put = async |value: &str| put(&admin, &format!("{path}/metadata/plan"), json!({ "value": value })).await;
    let (_, gold) = (put("silver").await, put("gold").await);
    let of_user = failed_in(&tenant, ("user", &user), &changed).await;
    let shown = reveal(&admin, OF_INSTANCE, &of_user).await;
    assert_eq!(shown.body["event"]["type"], "user.changed", "{}", shown.body);
    assert_eq!(payload(&shown)["to"]["human"]["personal"]["data"], data);
    assert_eq!(payload(&shown)["to"]["username"], json!(name));
    assert_eq!(shown.body["personal"], personal(&["to.username", "to.human.personal"], "SHOWN"));
    let entry = failed_in(&tenant, ("user_metadata", &format!("{user}/plan")), &gold).await;
    let shown = reveal(&admin, OF_INSTANCE, &entry).await;
    assert_eq!(payload(&shown)["to"]["value"], "gold", "{}", shown.body);
    assert_eq!(shown.body["personal"], personal(&["to.value"], "SHOWN"));
}

#[tokio::test]
async fn what_cannot_be_shown_is_refused_and_no_look_is_in_the_log() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let of_nobody = admin.create_target("of a newer build").await.expect("it is made");
    let newer = failed(&tenant, "target", &of_nobody).await;
    let postgres = connect(&tenant.postgres_url()).await;
    let sequence: i64 = newer.parse().expect("it is a number");
    let text = HISTORY.sql("update {schema}.events set type = 'target.painted' where sequence = $1");
    assert_eq!(postgres.execute(&text, &[&sequence]).await.expect("the table is there"), 1);
    let refused = reveal(&admin, OF_INSTANCE, &newer).await;
    refused.assert_refused("a newer build", 400, "PRECONDITION_FAILED");
    assert!(refused.body.to_string().contains("a newer build wrote the event"), "{}", refused.body);
    let (absent, operator) = (sequence + 1_000_000_000, tenant.operator().await);
    note(&tenant, ("target", "4711"), absent).await;
    let refused = reveal(&operator, OF_SYSTEM, &absent.to_string()).await;
    refused.assert_refused("what history lacks", 400, "PRECONDITION_FAILED");
    disclosures(&admin, 0).await;
}

#[tokio::test]
async fn nothing_is_shown_of_whoever_was_removed_though_everything_lags() {
    let platform = Platform::start().await;
    platform.ready().await;
    let admin = platform.client().await;
    let (user, name) = person(&admin).await;
    let id = failed(&platform, "user", &user).await;
    let shown = reveal(&admin, OF_INSTANCE, &id).await;
    assert_eq!(shown.body["personal"], personal(&OF_USER, "SHOWN"), "{}", shown.body);
    // Without history nobody destroys the key either.
    let mut postgres = connect(&platform.postgres_url()).await;
    let still = postgres.transaction().await.expect("Postgres is there");
    still.batch_execute(&HISTORY.sql("lock table {schema}.events in share mode")).await.expect("nobody else has it");
    let gone = send(admin.request(Method::DELETE, &format!("{USERS}/{user}"))).await;
    assert_eq!(gone.status, StatusCode::OK, "{}", gone.body);
    let shown = reveal(&admin, OF_INSTANCE, &id).await;
    still.rollback().await.expect("Postgres is there");
    assert_eq!(shown.body["personal"], personal(&OF_USER, "ERASED"), "{}", shown.body);
    assert!(!shown.body.to_string().contains(&name), "{}", shown.body);
}
