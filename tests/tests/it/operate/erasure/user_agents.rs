//! The user agents of sessions are in clear in read models only, and nowhere once the person is erased.

use tests::{browser::Browser, client::after};

use super::{
    Blocks, Client, Method, NoTls, PathBuf, Platform, USERS, Value, assert_shown_nowhere, canaries, delete, done,
    drop_read_models, eventually, files, fs, holding, json, key_of, of_nats, person, post, published, rows, send,
};
use crate::oidc::pages::home::logs_in;

const SESSIONS: &str = "/resources/v3alpha/sessions";

/// Returns a user agent all of whose members are these texts.
fn user_agent(canaries: &[String]) -> Value {
    json!({
        "fingerprintId": canaries[0], "description": canaries[1], "ip": "2001:db8:ca4a:7777::9",
        "header": { "user-agent": { "values": [canaries[2]] } },
    })
}

/// Creates a session of a person with that user agent.
async fn session(admin: &Client, user: &str, canaries: &[String]) -> String {
    let checks = json!({ "user": { "userId": user } });
    let made = done(admin, SESSIONS, json!({ "checks": checks, "userAgent": user_agent(canaries) })).await;
    let read = after(&made, admin.request(Method::GET, &format!("{SESSIONS}/{}", made.id()))).await.body;
    assert_eq!(read["session"]["userAgent"], user_agent(canaries), "{read}");
    made.id()
}

/// Logs a person in on the login pages, with a browser whose User-Agent header is a canary.
async fn browses(platform: &Platform, admin: &Client, user: &str, canaries: &[String]) {
    let (name, password, says) = (&canaries[3], &canaries[4], &canaries[5]);
    let issuer = &platform.bootstrap.issuer;
    let mut browser = Browser::new(issuer);
    browser.sent_from.push(("user-agent", says.clone()));
    let shown = logs_in(issuer, &mut browser, (name, password)).await;
    assert_eq!(shown.status, 200, "{}", shown.text);
    eventually("the session has the user agent", async || {
        let found = post(admin, &format!("{SESSIONS}/_search"), json!([{ "userId": user }])).await.body;
        found.to_string().contains(says).then_some(())
    })
    .await;
}

/// Creates a session with a user agent, which ends within a second.
async fn ended(admin: &Client, user: &str, canaries: &[String]) -> String {
    let id = session(admin, user, canaries).await;
    let patch = admin.request(Method::PATCH, &format!("{SESSIONS}/{id}")).json(&json!({ "lifetime": "1s" }));
    assert_eq!(send(patch).await.status, 200);
    eventually("the session is over", async || {
        (send(admin.request(Method::GET, &format!("{SESSIONS}/{id}"))).await.status == 404).then_some(())
    })
    .await;
    id
}

#[tokio::test]
async fn the_user_agent_of_a_session_is_in_read_models_only_and_nowhere_once_the_person_is_erased() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let log = folder.path().join("log");
    let stderr = fs::File::create(&log).expect("the folder can be written");
    let crates = ["command", "projector", "query", "oidc", "view", "edge", "index", "server", "page", "eventlog"];
    let levels = crates.map(|name| format!("{name}=debug")).join(",");
    let grace = ["--index-grace", "1"].map(str::to_owned);
    let told = [("RUST_LOG", format!("info,{levels}"))];
    let told = told.each_ref().map(|(name, value)| (*name, value.as_str()));
    let platform = Platform::start_telling(&grace, &told, stderr.into()).await;
    let admin = platform.client().await;
    let (names, before, later, over) = (canaries(), canaries(), canaries(), canaries());
    let id = done(&admin, USERS, person(&names)).await.id();
    let changed = session(&admin, &id, &before).await;
    let patch = admin.request(Method::PATCH, &format!("{SESSIONS}/{changed}"));
    let patched = send(patch.json(&json!({ "userAgent": user_agent(&later) }))).await;
    assert_eq!(patched.status, 200, "{}", patched.body);
    let search = admin.request(Method::POST, &format!("{SESSIONS}/_search")).json(&json!([{ "userId": id }]));
    let found = after(&patched, search).await.body;
    assert_eq!(found["result"][0]["userAgent"], user_agent(&later), "{found}");
    ended(&admin, &id, &over).await;
    browses(&platform, &admin, &id, &names).await;

    let all = [&before[..3], &later[..3], &over[..3], &names[5..], &["2001:db8:ca4a:7777".to_owned()]].concat();
    assert_shown_nowhere(&platform, &admin, &log, &all).await;
    assert_ne!(rows(&platform, &all).await, 0, "a row has it, or this test finds nothing");
    let index = platform.data().join("index");
    assert_ne!(holding(&files(&index), &all), [] as [PathBuf; 0], "the search index has it");
    eventually("the search index is published", async || (published(&platform, &all).await > 0).then_some(())).await;
    assert_erased(&platform, &admin, &id, &changed, &all).await;
}

/// Deletes a person, and fails where anything of a user agent is left, or of the key that sealed it.
async fn assert_erased(platform: &Platform, admin: &Client, id: &str, session: &str, canaries: &[String]) {
    let index = platform.data().join("index");
    let blocks = Blocks::open(platform.log().await.context(), 1).await.expect("the bucket is there");
    let (slot, key) = key_of(platform, &blocks, id).await;
    let sealed = sealed_in_history(platform, session).await;
    assert!(sealed.starts_with(&format!("{}.{}.", slot.block, slot.entry)), "it is sealed with the person's key");
    delete(admin, id).await;
    assert_eq!(send(admin.request(Method::GET, &format!("{SESSIONS}/{session}"))).await.status, 404);
    eventually("the key is destroyed", async || {
        holding(&of_nats(platform), std::slice::from_ref(&key)).is_empty().then_some(())
    })
    .await;
    eventually("no row has it", async || (rows(platform, canaries).await == 0).then_some(())).await;
    eventually("the search index forgets", async || holding(&files(&index), canaries).is_empty().then_some(())).await;
    eventually("so does what is published", async || (published(platform, canaries).await == 0).then_some(())).await;
}

/// Returns the ciphertext of the first user agent of a session.
async fn sealed_in_history(platform: &Platform, session: &str) -> String {
    let (client, connection) =
        tokio_postgres::connect(&platform.postgres_url(), NoTls).await.expect("Postgres is there");
    tokio::spawn(connection);
    let select = "select payload from session_history_1.events where aggregate_type = 'session' and aggregate_id = $1 order by version limit 1";
    let row = client.query_one(select, &[&session]).await.expect("history has the session");
    let event: Value = serde_json::from_slice(row.get(0)).expect("payloads are JSON");
    event["user_agent"]["sealed"].as_str().expect("it is sealed").to_owned()
}

#[tokio::test]
async fn a_session_is_read_without_a_key_and_built_again_without_the_user_agent_where_the_key_was_destroyed() {
    let platform = Platform::start().await;
    let admin = platform.client().await;
    let names = canaries();
    let user = done(&admin, USERS, person(&names)).await.id();
    let id = session(&admin, &user, &names).await;
    let blocks = Blocks::open(platform.log().await.context(), 1).await.expect("the bucket is there");
    let (slot, _) = key_of(&platform, &blocks, &user).await;
    blocks.destroy(&slot.block, &[slot.entry]).await.expect("NATS is there");
    let read = send(admin.request(Method::GET, &format!("{SESSIONS}/{id}"))).await.body;
    assert_eq!(read["session"]["userAgent"], user_agent(&names), "who reads it needs no key: {read}");

    drop_read_models(&platform).await;
    let read = eventually("the session is there again", async || {
        let read = send(admin.request(Method::GET, &format!("{SESSIONS}/{id}"))).await;
        (read.status == 200).then_some(read.body)
    })
    .await;
    assert_eq!(read["session"]["details"]["id"], json!(id), "{read}");
    assert_eq!(read["session"]["userAgent"], Value::Null, "{read}");
}
