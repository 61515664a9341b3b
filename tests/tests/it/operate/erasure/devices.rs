//! The devices of sessions are in clear nowhere, neither in read models.

use tests::client::after;

use super::{
    Blocks, Client, Method, PathBuf, Platform, USERS, Value, assert_shown_nowhere, canaries, delete, done, eventually,
    files, fs, holding, json, key_of, of_nats, person, published, rows, send,
};

const SESSIONS: &str = "/resources/v3alpha/sessions";

/// A device of which all that is said is one of these texts.
fn device(canaries: &[String]) -> Value {
    json!({
        "fingerprintId": canaries[0], "description": canaries[1], "ip": "2001:db8:ca4a:7777::9",
        "header": { "user-agent": { "values": [canaries[2]] } },
    })
}

#[tokio::test]
async fn the_device_of_a_session_is_in_clear_nowhere_and_is_erased_with_the_person() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let log = folder.path().join("log");
    let stderr = fs::File::create(&log).expect("the folder can be written");
    let told = [("RUST_LOG", "info,command=debug,projector=debug,query=debug,view=debug,edge=debug,index=debug")];
    let platform = Platform::start_telling(&[], &told, stderr.into()).await;
    let admin = platform.client().await;
    let (names, texts, later) = (canaries(), canaries(), canaries());
    let id = done(&admin, USERS, person(&names)).await.id();
    let checks = json!({ "user": { "userId": id }, "password": { "password": names[4] } });
    let made = done(&admin, SESSIONS, json!({ "checks": checks, "userAgent": device(&texts) })).await;
    let session = format!("{SESSIONS}/{}", made.id());
    let patch = json!({ "userAgent": device(&later) });
    let changed = send(admin.request(Method::PATCH, &session).header("prefer", "wait=10").json(&patch)).await;
    assert_eq!(changed.status, 200, "{}", changed.body);
    let read = after(&changed, admin.request(Method::GET, &session)).await.body;
    assert_eq!(read["session"]["userAgent"], device(&later), "{read}");
    let found = json!([{ "userId": id }]);
    let found = after(&changed, admin.request(Method::POST, &format!("{SESSIONS}/_search")).json(&found)).await.body;
    assert_eq!(found["result"][0]["userAgent"], device(&later), "{found}");

    // The person is in the read models, so this finds what is there.
    let index = platform.data().join("index");
    eventually("the index has the person", async || (!holding(&files(&index), &names).is_empty()).then_some(())).await;
    let all = [&texts[..3], &later[..3], &["2001:db8:ca4a:7777".to_owned()]].concat();
    assert_shown_nowhere(&platform, &admin, &log, &all).await;
    assert_eq!(rows(&platform, &all).await, 0, "a row has it in clear");
    assert_eq!(holding(&files(&index), &all), [] as [PathBuf; 0], "the search index has it in clear");
    assert_eq!(published(&platform, &all).await, 0, "what is published has it in clear");
    assert_erased(&platform, &admin, (&id, &session)).await;
}

/// Deletes a person, and fails where a session or the key with which its device was sealed is left.
async fn assert_erased(platform: &Platform, admin: &Client, (id, session): (&str, &str)) {
    let blocks = Blocks::open(platform.log().await.context(), 1).await.expect("the bucket is there");
    let (_, key) = key_of(platform, &blocks, id).await;
    delete(admin, id).await;
    assert_eq!(send(admin.request(Method::GET, session)).await.status, 404);
    eventually("the key is destroyed", async || {
        holding(&of_nats(platform), std::slice::from_ref(&key)).is_empty().then_some(())
    })
    .await;
}
