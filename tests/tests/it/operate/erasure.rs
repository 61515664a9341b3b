//! Personal data: in clear in read models only, and nowhere once the person is erased.

mod user_agents;

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use base::secret::random_text;
use eventlog::blocks::{Blocks, Slot, Values};
use futures::StreamExt;
use proto::operation::{CREATE_USER, SET_PASSWORD};
use reqwest::Method;
use serde_json::{Value, json};
use tests::{
    client::{Client, done, post, put, send},
    endpoint::{Endpoint, Reply, execute},
    eventually,
    instance::Instance,
    platform::Platform,
};
use tokio::{io::AsyncReadExt, time::timeout};
use tokio_postgres::NoTls;

const USERS: &str = "/resources/v3alpha/users";
/// The time of reading a pack without an end after which it counts as removed meanwhile.
const REMOVED: Duration = Duration::from_secs(10);

/// Returns all files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return vec![] };
    let paths = entries.flatten().map(|entry| entry.path());
    paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Returns the files that contain one of these texts.
fn holding(files: &[PathBuf], texts: &[String]) -> Vec<PathBuf> {
    let holds = |path: &&PathBuf| {
        let bytes = fs::read(path).unwrap_or_default();
        texts.iter().any(|text| has(&bytes, text))
    };
    files.iter().filter(holds).cloned().collect()
}

fn has(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|part| part.eq_ignore_ascii_case(text.as_bytes()))
}

/// Returns the files of NATS, except for the packs of search indexes, which are read models.
fn of_nats(platform: &Platform) -> Vec<PathBuf> {
    let all = files(&platform.data().join("nats"));
    all.into_iter().filter(|path| !path.display().to_string().contains("OBJ_INDEX_FILES")).collect()
}

fn canaries() -> Vec<String> {
    ["given", "family", "mail", "login", "password", "metadata"]
        .map(|kind| format!("canary{kind}{}", random_text(12).to_lowercase()))
        .to_vec()
}

fn person(canaries: &[String]) -> Value {
    let mut person = person_of(canaries);
    person["human"]["password"] = json!({ "password": canaries[4] });
    person
}

/// Returns a person without what is never read.
fn person_of(canaries: &[String]) -> Value {
    let data = json!({ "given_name": canaries[0], "family_name": canaries[1] });
    let email = json!({ "address": format!("{}@example.com", canaries[2]) });
    json!({ "username": canaries[3], "human": { "data": data, "email": email } })
}

async fn delete(admin: &Client, id: &str) {
    let request = admin.request(Method::DELETE, &format!("{USERS}/{id}")).header("prefer", "wait=10");
    let answer = send(request).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
}

/// Returns how many rows of any table contain one of these texts.
async fn rows(platform: &Instance, texts: &[String]) -> usize {
    let (client, connection) =
        tokio_postgres::connect(&platform.postgres_url(), NoTls).await.expect("Postgres is there");
    tokio::spawn(connection);
    let tables = "select format('%I.%I', schemaname, tablename) from pg_tables where schemaname not in ('pg_catalog', 'information_schema')";
    let mut found = 0;
    for table in client.query(tables, &[]).await.expect("tables are listed") {
        let table: String = table.get(0);
        for text in texts {
            let select = format!(
                "select count(*) from {table} t where position($1 in lower(t::text)) > 0 or position($2 in t::text) > 0"
            );
            // Payloads of events are shown as hexadecimal digits.
            let row = client
                .query_one(&select, &[text, &text.bytes().map(|byte| format!("{byte:02x}")).collect::<String>()])
                .await
                .expect("a table is read");
            found += usize::try_from(row.get::<_, i64>(0)).expect("it is a count");
        }
    }
    found
}

#[tokio::test]
async fn what_is_personal_is_in_read_models_only_and_nowhere_once_it_is_erased() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let log = folder.path().join("log");
    let stderr = fs::File::create(&log).expect("the folder can be written");
    let told = [("RUST_LOG", "info,command=debug,projector=debug,query=debug,view=debug,edge=debug,index=debug")];
    let grace = ["--index-grace", "1"].map(str::to_owned);
    let platform = Platform::start_telling(&grace, &told, stderr.into()).await;
    let admin = platform.client().await;
    let (before, after, stays) = (canaries(), canaries(), canaries());
    let all: Vec<String> = before.iter().chain(&after).chain(&stays).cloned().collect();

    let id = done(&admin, USERS, person(&before)).await.id();
    let other = done(&admin, USERS, person(&stays)).await.id();
    for (user, key, canaries) in [(&id, "old", &before), (&id, "new", &after), (&other, "old", &stays)] {
        put(&admin, &format!("{USERS}/{user}/metadata/{key}"), json!({ "value": canaries[5] })).await;
    }
    assert_eq!(post(&admin, USERS, person(&before)).await.status, 409, "the name is taken");
    let wrong =
        json!({ "username": after[3], "human": { "data": { "given_name": after[0], after[1].clone(): after[2] } } });
    assert_eq!(post(&admin, USERS, wrong).await.status, 400);
    let patch = admin.request(Method::PATCH, &format!("{USERS}/{id}")).header("prefer", "wait=10");
    let changed = send(patch.json(&person_of(&after))).await;
    assert_eq!(changed.status, 200, "{}", changed.body);
    let another = json!({ "newPassword": after[4], "currentPassword": before[4] });
    done(&admin, &format!("{USERS}/{id}/password"), another).await;
    let wrong = json!({ "newPassword": before[4], "currentPassword": before[4] });
    assert_eq!(post(&admin, &format!("{USERS}/{id}/password"), wrong).await.status, 400);
    let filter =
        json!([{ "email": { "name": after[2].to_uppercase(), "method": "TEXT_FILTER_METHOD_CONTAINS_IGNORE_CASE" } }]);
    let found = send(admin.request(Method::POST, &format!("{USERS}/_search")).json(&filter)).await;
    assert_eq!(found.body["result"][0]["details"]["id"], id, "{}", found.body);
    assert_shown_nowhere(&platform, &admin, &log, &all).await;
    assert!(rows(&platform, &after).await > 0, "a row has it, or this test finds nothing");
    assert_no_password(&platform, &admin, &log, [&before[4], &after[4]]).await;

    // The wrapped key is overwritten where it is kept.
    let blocks = Blocks::open(platform.log().await.context(), 1).await.expect("the bucket is there");
    let (slot, key) = key_of(&platform, &blocks, &id).await;
    assert_ne!(holding(&of_nats(&platform), std::slice::from_ref(&key)), [] as [PathBuf; 0], "NATS has the key");
    let index = platform.data().join("index");
    assert_ne!(
        holding(&files(&index), &after),
        [] as [PathBuf; 0],
        "the search index has it, or this test finds nothing"
    );
    eventually("the search index is published", async || (published(&platform, &after).await > 0).then_some(())).await;
    delete(&admin, &id).await;
    let erased: Vec<String> = before.iter().chain(&after).cloned().collect();
    eventually("the key is destroyed", async || {
        holding(&of_nats(&platform), std::slice::from_ref(&key)).is_empty().then_some(())
    })
    .await;
    eventually("the search index forgets", async || holding(&files(&index), &erased).is_empty().then_some(())).await;
    eventually("so does what is published", async || (published(&platform, &erased).await == 0).then_some(())).await;
    assert_eq!(rows(&platform, &erased).await, 0);

    let person = Erased { id, slot, key, canaries: erased };
    assert_nothing_comes_back(&platform, &blocks, &person, (&other, &stays)).await;
}

/// Fails where one of these passwords is stored anywhere, or its hash, or an imported hash.
async fn assert_no_password(platform: &Platform, admin: &Client, log: &Path, passwords: [&String; 2]) {
    let hash = "$2b$04$tp4KVyv19vQIx/uR84vCgeMOOOCrVzatyk2nkue3jwVWEZhaGtNR2";
    let mut hashed = person_of(&canaries());
    hashed["human"]["password"] = json!({ "hash": hash });
    done(admin, USERS, hashed).await;
    let all = [passwords[0].clone(), passwords[1].clone(), "argon2id".to_owned(), hash.to_lowercase()];
    assert_shown_nowhere(platform, admin, log, &all).await;
    assert_eq!(rows(platform, &all).await, 0);
}

/// Fails where events, metrics, log lines or NATS contain one of these texts.
async fn assert_shown_nowhere(platform: &Platform, admin: &Client, log: &Path, all: &[String]) {
    let events = send(admin.request(Method::POST, "/resources/v3alpha/events/_search").json(&json!([]))).await;
    let metrics = platform.management().metrics().await;
    for (what, text) in [
        ("events", events.body.to_string()),
        ("metrics", metrics),
        ("log lines", fs::read_to_string(log).expect("it is written")),
    ] {
        assert!(all.iter().all(|canary| !text.to_lowercase().contains(canary)), "{what}: {text}");
    }
    assert_eq!(holding(&of_nats(platform), all), [] as [PathBuf; 0], "NATS has it in clear");
}

/// A person whose key was destroyed.
struct Erased {
    id: String,
    slot: Slot,
    key: String,
    canaries: Vec<String>,
}

/// Builds all read models again, with the key as it was, and fails where anything of the person comes back; another
/// person, who stays, is deleted at last.
async fn assert_nothing_comes_back(
    platform: &Platform,
    blocks: &Blocks,
    Erased { id, slot, key, canaries }: &Erased,
    (other, stays): (&str, &[String]),
) {
    let admin = platform.client().await;
    // Nor does it come back when the read models are built again, though the keys were restored from a backup meanwhile.
    let bucket = blocks.bucket().await.expect("the bucket is there");
    let mut restored = blocks.values(&slot.block).await.expect("NATS is there").expect("the block is there");
    assert_eq!(restored.insert(slot.entry.clone(), Some(key.clone())), Some(None), "it says that it was destroyed");
    let restored = serde_json::to_vec(&restored).expect("it is plain data");
    bucket.put(&slot.block, restored.into()).await.expect("the block is restored");
    bucket.delete("erasures").await.expect("the place of erasures is as it was");
    drop_read_models(platform).await;
    eventually("the others are there again", async || {
        let read = send(admin.request(Method::GET, &format!("{USERS}/{other}"))).await.body;
        (read["user"]["user"]["human"]["data"]["given_name"] == stays[0].as_str()).then_some(())
    })
    .await;
    assert_eq!(send(admin.request(Method::GET, &format!("{USERS}/{id}"))).await.status, 404);
    assert_eq!(rows(platform, canaries).await, 0);
    assert_eq!(holding(&files(&platform.data().join("index")), canaries), [] as [PathBuf; 0]);

    // What was destroyed before is destroyed again.
    assert_ne!(holding(&of_nats(platform), std::slice::from_ref(key)), [] as [PathBuf; 0], "it was restored");
    // Each read model is there again at a time of its own, and the writer needs those of both logs.
    let is_deleted = async || {
        let answer = send(admin.request(Method::DELETE, &format!("{USERS}/{other}")).header("prefer", "wait=10")).await;
        assert!([200, 503].contains(&answer.status.as_u16()), "{}", answer.body);
        (answer.status == 200).then_some(())
    };
    eventually("the other one is deleted", is_deleted).await;
    eventually("the key is destroyed again", async || {
        holding(&of_nats(platform), std::slice::from_ref(key)).is_empty().then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_lost_key_is_not_taken_for_a_destroyed_one() {
    let mut platform = Platform::start().await;
    let admin = platform.client().await;
    let (lost, others) = (canaries(), canaries());
    let id = done(&admin, USERS, person(&lost)).await.id();
    let other = done(&admin, USERS, person(&others)).await.id();
    let blocks = Blocks::open(platform.log().await.context(), 1).await.expect("the bucket is there");
    let (slot, _) = key_of(&platform, &blocks, &id).await;
    let mut values = blocks.values(&slot.block).await.expect("NATS is there").expect("the block is there");
    let key = values.remove(&slot.entry).expect("the key is there");
    let bucket = blocks.bucket().await.expect("the bucket is there");
    let write = async |values: &Values| {
        bucket
            .put(&slot.block, serde_json::to_vec(values).expect("it is plain data").into())
            .await
            .expect("it is written");
    };
    write(&values).await;
    drop_read_models(&platform).await;
    // The projection waits: what is read without it would be read without it for ever.
    eventually("the projection says what is missing", async || {
        let (_, readiness) = platform.management().readiness().await?;
        readiness.to_string().contains(&format!("lacks the key {}", slot.entry)).then_some(())
    })
    .await;
    let given = async |id: &str| {
        let read = send(admin.request(Method::GET, &format!("{USERS}/{id}"))).await.body;
        read["user"]["user"]["human"]["data"]["given_name"].clone()
    };
    values.insert(slot.entry.clone(), key);
    write(&values).await;
    eventually("it is read when the key is back", async || (given(&id).await == lost[0].as_str()).then_some(())).await;

    // Who has to do without it says so.
    values.remove(&slot.entry);
    write(&values).await;
    drop_read_models(&platform).await;
    platform.stop().await;
    platform.restart(&[("PLATFORM_ACCEPT_LOST_KEYS", "true")]).await;
    eventually("the others are there", async || (given(&other).await == others[0].as_str()).then_some(())).await;
    let patch = admin.request(Method::PATCH, &format!("{USERS}/{id}")).json(&json!({ "human": { "phone": {} } }));
    let refused = send(patch).await;
    assert!(refused.body.to_string().contains("was destroyed"), "{}", refused.body);
}

/// Returns how many packs of search indexes contain one of these texts.
async fn published(platform: &Instance, texts: &[String]) -> usize {
    let log = platform.log().await;
    let store = log.context().get_object_store("INDEX_FILES").await.expect("the store is there");
    let packs: Vec<_> =
        store.list().await.expect("packs are listed").filter_map(async |pack| pack.ok()).collect().await;
    let mut found = 0;
    for pack in packs {
        // One that is removed meanwhile is gone: what was to be read of it never comes.
        let Ok(mut object) = store.get(&pack.name).await else { continue };
        let mut bytes = vec![];
        if timeout(REMOVED, object.read_to_end(&mut bytes)).await.is_ok_and(|read| read.is_ok()) {
            found += usize::from(texts.iter().any(|text| has(&bytes, text)));
        }
    }
    found
}

/// Returns the slot of a person's wrapped key, as in its event, and that key.
async fn key_of(platform: &Instance, blocks: &Blocks, id: &str) -> (Slot, String) {
    let (client, connection) =
        tokio_postgres::connect(&platform.postgres_url(), NoTls).await.expect("Postgres is there");
    tokio::spawn(connection);
    let select = "select payload from history_2.events where aggregate_type = 'user' and aggregate_id = $1 order by version limit 1";
    let row = client.query_one(select, &[&id]).await.expect("history has the person");
    let event: Value = serde_json::from_slice(row.get(0)).expect("payloads are JSON");
    let sealed = event["human"]["personal"].as_str().expect("it is sealed");
    let mut parts = sealed.split('.').map(str::to_owned);
    let (block, entry) = (parts.next().expect("it has a block"), parts.next().expect("it has an entry"));
    let values = blocks.values(&block).await.expect("NATS is there").expect("the block is there");
    let key = values[&entry].clone().expect("it is not destroyed");
    (Slot { block, entry }, key)
}

async fn drop_read_models(platform: &Instance) {
    let (client, connection) =
        tokio_postgres::connect(&platform.postgres_url(), NoTls).await.expect("Postgres is there");
    tokio::spawn(connection);
    let schemas =
        "select schemaname from pg_tables where schemaname not in ('pg_catalog', 'information_schema') group by 1";
    for schema in client.query(schemas, &[]).await.expect("schemas are listed") {
        let drop = format!("drop schema {} cascade", schema.get::<_, String>(0));
        client.batch_execute(&drop).await.expect("it is dropped");
    }
}

#[tokio::test]
async fn targets_are_told_what_is_personal_until_it_is_erased() {
    let platform = Platform::start().await;
    let admin = platform.client().await;
    let endpoint = Endpoint::replying(Reply::status(503)).await;
    let (target, _) = endpoint.target(&admin, "restWebhook", &json!({})).await;
    assert_eq!(execute(&admin, json!({ "event": { "event": "user.added" } }), &[&target]).await.status, 201);
    let names = canaries();
    let id = done(&admin, USERS, person(&names)).await.id();
    let told = endpoint.called(1).await[0].json();
    let payload = &told["event_payload"];
    assert_eq!(payload["username"], names[3].as_str(), "{told}");
    assert_eq!(payload["human"]["personal"]["data"]["given_name"], names[0].as_str(), "{told}");
    let password = payload["password"].as_object().expect("it has one");
    assert_eq!(password.keys().collect::<Vec<_>>(), ["changed_at", "is_change_required"], "{told}");
    assert_eq!(holding(&of_nats(&platform), &names), [] as [PathBuf; 0], "the queue has it in clear");

    // It was not delivered before the person went.
    let blocks = Blocks::open(platform.log().await.context(), 1).await.expect("the bucket is there");
    let (_, key) = key_of(&platform, &blocks, &id).await;
    delete(&admin, &id).await;
    eventually("the key is destroyed", async || {
        holding(&of_nats(&platform), std::slice::from_ref(&key)).is_empty().then_some(())
    })
    .await;
    endpoint.take();
    endpoint.reply(Reply::status(200));
    let told = endpoint.called(1).await[0].json();
    assert_eq!((&told["event_type"], &told["aggregateID"]), (&json!("user.added"), &json!(id)));
    assert_eq!(told["event_payload"]["human"]["personal"], Value::Null, "{told}");
    assert!(names.iter().all(|name| !told.to_string().contains(name)), "{told}");
}

#[tokio::test]
async fn targets_that_are_asked_see_no_password() {
    let platform = Platform::start().await;
    let admin = platform.client().await;
    let endpoint = Endpoint::start().await;
    let (target, _) = endpoint.target(&admin, "restWebhook", &json!({})).await;
    for facts in [&CREATE_USER.facts, &SET_PASSWORD.facts] {
        let asked = execute(&admin, json!({ "request": { "method": facts.grpc } }), &[&target]).await;
        assert_eq!(asked.status, 201, "{}", asked.body);
    }
    let (names, hash) = (canaries(), "$2b$04$tp4KVyv19vQIx/uR84vCgeMOOOCrVzatyk2nkue3jwVWEZhaGtNR2");
    let id = done(&admin, USERS, person(&names)).await.id();
    let mut hashed = person_of(&canaries());
    hashed["human"]["password"] = json!({ "hash": hash });
    done(&admin, USERS, hashed).await;
    let another = json!({ "newPassword": format!("{}-new", names[4]), "currentPassword": names[4] });
    done(&admin, &format!("{USERS}/{id}/password"), another).await;
    let calls = endpoint.called(3).await;
    assert!(calls[0].json().to_string().contains(&names[0]), "it is told of the person");
    assert!(calls[2].json().to_string().contains(&id), "it is told of whom");
    for call in calls {
        let told = call.json().to_string();
        assert!(!told.contains(&names[4]) && !told.contains(hash), "{told}");
    }
}
