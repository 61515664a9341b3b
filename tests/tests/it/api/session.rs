//! Sessions: their users, the token that changes with each change, and how they end.

use reqwest::Method;
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, after, created, done, post, send, waited},
    eventually,
    tenant::{Tenant, new_name},
};

const USERS: &str = "/resources/v3alpha/users";
const ORGANIZATIONS: &str = "/resources/v3alpha/organizations";
const SESSIONS: &str = "/resources/v3alpha/sessions";

async fn person(admin: &Client, username: &str) -> String {
    let data = json!({ "given_name": "Ada", "family_name": "Lovelace" });
    created(admin, USERS, json!({ "username": username, "human": { "data": data } })).await.id()
}

async fn patched(admin: &Client, id: &str, body: Value) -> Answer {
    send(admin.request(Method::PATCH, &format!("{SESSIONS}/{id}")).json(&body)).await
}

async fn read(admin: &Client, id: &str) -> Answer {
    send(admin.request(Method::GET, &format!("{SESSIONS}/{id}"))).await
}

fn token(answer: &Answer) -> Option<&str> {
    answer.body["sessionToken"].as_str()
}

fn of_user(user: &str) -> Value {
    json!({ "user": { "userId": user } })
}

#[tokio::test]
async fn a_session_says_who_was_checked_and_has_another_token_with_each_change() {
    let tenant = Tenant::start().await;
    let (admin, name) = (tenant.client().await, new_name());
    let user = person(&admin, &name).await;
    let made = created(&admin, SESSIONS, json!({ "metadata": { "device": "phone", "none": "" } })).await;
    let (id, first) = (made.id(), token(&made).expect("it is shown").to_owned());
    assert!(first.starts_with(&format!("sess-{id}-")) && first.len() > id.len() + 40, "{first}");
    assert_eq!(read(&admin, &id).await.body["session"]["factors"], json!({}));

    let same = patched(&admin, &id, json!({ "metadata": { "device": "phone", "other": "" } })).await;
    assert_eq!((same.status.as_u16(), same.sequence(), token(&same)), (200, made.sequence(), None), "{}", same.body);

    let by_name = json!({ "checks": { "user": { "loginName": name.to_uppercase() } } });
    let checked = patched(&admin, &id, by_name).await;
    assert_eq!(checked.status, 200, "{}", checked.body);
    let second = token(&checked).expect("something changed");
    assert!(second != first && checked.sequence() > made.sequence());
    let found = after(&checked, admin.request(Method::GET, &format!("{SESSIONS}/{id}"))).await.body;
    let session = &found["session"];
    assert_eq!(session["factors"]["user"]["id"], json!(user));
    assert_eq!(session["metadata"], json!({ "device": "phone" }));
    assert_eq!(session["details"]["resourceOwner"]["id"], json!(tenant.bootstrap.instance_id));
    let checked_at: jiff::Timestamp = session["factors"]["user"]["verifiedAt"].as_str().unwrap().parse().unwrap();
    let ends: jiff::Timestamp = session["expirationDate"].as_str().unwrap().parse().unwrap();
    assert!(ends.duration_since(checked_at).as_hours() >= 90 * 24 - 1, "it lives for 90 days: {found}");
    assert!(!found.to_string().contains("sess-") && !found.to_string().contains("secret"), "{found}");

    let emptied = patched(&admin, &id, json!({ "metadata": { "device": "" }, "lifetime": "60s" })).await;
    assert_eq!(emptied.status, 200, "{}", emptied.body);
    let found = after(&emptied, admin.request(Method::GET, &format!("{SESSIONS}/{id}"))).await.body;
    assert_eq!(found["session"].get("metadata"), None);
    let stale = admin.request(Method::PATCH, &format!("{SESSIONS}/{id}")).header("if-match", "\"1\"");
    send(stale.json(&json!({}))).await.assert_refused("at another sequence", 412, "SEQUENCE_MISMATCH");
}

#[tokio::test]
async fn a_session_is_of_one_person_who_may_log_in() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let (user, other) = (person(&admin, &new_name()).await, person(&admin, &new_name()).await);
    let id = created(&admin, SESSIONS, json!({ "checks": of_user(&user) })).await.id();
    let refused = patched(&admin, &id, json!({ "checks": of_user(&other) })).await;
    refused.assert_refused("of another", 400, "PRECONDITION_FAILED");

    let nobodys = created(&admin, SESSIONS, json!({})).await.id();
    for (verb, back) in [("_lock", "_unlock"), ("_deactivate", "_reactivate")] {
        done(&admin, &format!("{USERS}/{user}/{verb}"), json!({})).await;
        let refused = post(&admin, SESSIONS, json!({ "checks": of_user(&user) })).await;
        refused.assert_refused(verb, 400, "PRECONDITION_FAILED");
        let refused = patched(&admin, &nobodys, json!({ "checks": of_user(&user) })).await;
        refused.assert_refused(verb, 400, "PRECONDITION_FAILED");
        done(&admin, &format!("{USERS}/{user}/{back}"), json!({})).await;
    }
    let id = created(&admin, SESSIONS, json!({ "checks": of_user(&user) })).await.id();
    assert_eq!(patched(&admin, &id, json!({ "checks": of_user(&user) })).await.status, 200);
    send(admin.request(Method::DELETE, &format!("{USERS}/{user}"))).await;
    patched(&admin, &id, json!({ "lifetime": "60s" })).await.assert_refused("of nobody", 404, "RESOURCE_NOT_FOUND");
    post(&admin, SESSIONS, json!({ "checks": of_user(&user) })).await.assert_refused(
        "of nobody",
        404,
        "RESOURCE_NOT_FOUND",
    );
}

/// Returns the status of reading a session, and how many sessions are found of its user.
async fn status_and_count(admin: &Client, id: &str, user: &str) -> (u16, Value) {
    let found = post(admin, &format!("{SESSIONS}/_search"), json!([{ "userId": user }])).await;
    (read(admin, id).await.status.as_u16(), found.body["details"]["totalResult"].clone())
}

#[tokio::test]
async fn sessions_end_with_their_user_and_stay_ended() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let organization = created(&admin, ORGANIZATIONS, json!({ "name": new_name() })).await.id();
    let data = json!({ "given_name": "Ada", "family_name": "Lovelace" });
    let user = json!({ "username": new_name(), "human": { "data": data } });
    let user = created(&admin, &format!("{USERS}?ctx.orgId={organization}"), user).await.id();
    let other = person(&admin, &new_name()).await;
    let at = |kind: &str, id: &str, verb: &str| format!("/resources/v3alpha/{kind}/{id}/{verb}");
    for (kind, whose, verb, back) in [
        ("users", &user, "_lock", "_unlock"),
        ("users", &user, "_deactivate", "_reactivate"),
        ("organizations", &organization, "_deactivate", "_reactivate"),
    ] {
        let session = waited(&admin, SESSIONS, json!({ "checks": of_user(&user) })).await.id();
        assert_eq!(status_and_count(&admin, &session, &user).await, (200, json!("1")), "{verb}");
        done(&admin, &at(kind, whose, verb), json!({})).await;
        done(&admin, &at(kind, whose, back), json!({})).await;
        // Whether that comes in time or not, it brings nothing back.
        patched(&admin, &session, json!({ "checks": of_user(&user) })).await;
        eventually("its user's end ends it", async || {
            (status_and_count(&admin, &session, &user).await == (404, json!("0"))).then_some(())
        })
        .await;
        patched(&admin, &session, json!({ "checks": of_user(&user) })).await.assert_refused(
            back,
            404,
            "RESOURCE_NOT_FOUND",
        );
    }
    let operator = tenant.operator().await;
    let instance = tenant.bootstrap.instance_id.clone();
    let session = waited(&admin, SESSIONS, json!({ "checks": of_user(&user) })).await.id();
    done(&operator, &at("instances", &instance, "_deactivate"), json!({})).await;
    done(&operator, &at("instances", &instance, "_reactivate"), json!({})).await;
    tenant.ready().await;
    let first = &tenant.bootstrap.service_user;
    let issuer = &tenant.bootstrap.issuer;
    let again = async || Client::try_log_in(issuer, first).await.ok();
    let admin = eventually("the instance serves again", again).await;
    let others = created(&admin, SESSIONS, json!({ "checks": of_user(&other) })).await.id();
    eventually("the end of its instance ends it", async || {
        (status_and_count(&admin, &session, &user).await == (404, json!("0"))).then_some(())
    })
    .await;
    let session = waited(&admin, SESSIONS, json!({ "checks": of_user(&user) })).await.id();
    let removed = send(admin.request(Method::DELETE, &format!("{USERS}/{user}"))).await;
    assert_eq!(removed.status, 200, "{}", removed.body);
    eventually("it goes with its user", async || {
        (status_and_count(&admin, &session, &user).await == (404, json!("0"))).then_some(())
    })
    .await;
    assert_eq!(status_and_count(&admin, &others, &other).await, (200, json!("1")), "others stay");
}

#[tokio::test]
async fn a_session_is_read_and_found_at_once_and_ended_once() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let user = person(&admin, &new_name()).await;
    let made = waited(&admin, SESSIONS, json!({ "checks": of_user(&user) })).await;
    assert_eq!(made.headers["preference-applied"], "wait");
    let search = async || post(&admin, &format!("{SESSIONS}/_search"), json!([{ "userId": user }])).await;
    let found = search().await.body;
    assert_eq!(found["result"][0]["details"]["id"], json!(made.id()), "{found}");
    assert_eq!(found["details"]["totalResult"], json!("1"));

    let path = format!("{SESSIONS}/{}", made.id());
    let ended = send(admin.request(Method::DELETE, &path)).await;
    assert_eq!(ended.status, 200, "{}", ended.body);
    after(&ended, admin.request(Method::GET, &path)).await.assert_refused("ended", 404, "RESOURCE_NOT_FOUND");
    assert_eq!(search().await.body["details"]["totalResult"], json!("0"));
    let again = send(admin.request(Method::DELETE, &path)).await;
    again.assert_refused("ended before", 404, "RESOURCE_NOT_FOUND");
    patched(&admin, &made.id(), json!({})).await.assert_refused("ended", 404, "RESOURCE_NOT_FOUND");
}

/// The consistency token of a client that has seen both logs covers both, for any request.
#[tokio::test]
async fn a_consistency_token_goes_on_from_one_log_to_the_other() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let user = person(&admin, &new_name()).await;
    let session = created(&admin, SESSIONS, json!({ "checks": of_user(&user) })).await;
    let length = |answer: &Answer| answer.consistency().len();
    let of_events = length(&send(admin.request(Method::GET, &format!("{USERS}/{user}"))).await);
    assert!(length(&session) > of_events, "it has a sequence more");
    // What is read of the one log carries on what was seen of the other.
    let read = after(&session, admin.request(Method::GET, &format!("{USERS}/{user}"))).await;
    assert_eq!((read.status.as_u16(), length(&read)), (200, length(&session)));
    let changed = after(&read, admin.request(Method::PATCH, &format!("{USERS}/{user}")).json(&json!({}))).await;
    assert_eq!((changed.status.as_u16(), length(&changed)), (200, length(&session)), "{}", changed.body);
    let found = after(&changed, admin.request(Method::GET, &format!("{SESSIONS}/{}", session.id()))).await;
    assert_eq!(found.status, 200, "{}", found.body);
}

#[tokio::test]
async fn the_same_request_under_a_key_makes_one_session_with_one_token() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let request = || admin.request(Method::POST, SESSIONS).header("idempotency-key", "a").json(&json!({}));
    let (first, again) = (send(request()).await, send(request()).await);
    assert_eq!((first.status.as_u16(), again.status.as_u16()), (201, 201), "{}", again.body);
    assert_eq!((first.id(), token(&first)), (again.id(), token(&again)));
    assert_eq!(again.headers["idempotency-replayed"], "true");
}

#[tokio::test]
async fn whoever_has_the_token_changes_and_ends_the_session_and_no_more() {
    let tenant = Tenant::start().await;
    let (admin, nobody) = (tenant.client().await, tenant.client_named("nobody").await);
    let user = person(&admin, &new_name()).await;
    let made = created(&admin, SESSIONS, json!({ "checks": of_user(&user) })).await;
    let other = created(&admin, SESSIONS, json!({})).await;
    let (id, first) = (made.id(), token(&made).expect("it is shown").to_owned());
    let theirs = token(&other).expect("it is shown").to_owned();
    let with = |token: &str, more: Value| {
        let mut body = json!({ "sessionToken": token, "metadata": { "place": "home" } });
        body.as_object_mut().expect("it is one").extend(more.as_object().expect("it is one").clone());
        body
    };
    let of_this = |secret: &str| format!("sess-{id}-{secret}");
    let secret = theirs.rsplit_once(&format!("{}-", other.id())).expect("it has one").1;
    for (case, body) in [
        ("no token", json!({})),
        ("no token at all", with("", json!({}))),
        ("a wrong one", with(&of_this("abc"), json!({}))),
        ("that of another session", with(&theirs, json!({}))),
        ("the secret of another session", with(&of_this(secret), json!({}))),
        ("who it is", with(&first, json!({ "checks": of_user(&user) }))),
        ("a longer life", with(&first, json!({ "lifetime": "3600s" }))),
    ] {
        patched(&nobody, &id, body).await.assert_refused(case, 404, "RESOURCE_NOT_FOUND");
    }
    read(&nobody, &id).await.assert_refused("to read", 403, "PERMISSION_DENIED");
    let changed = patched(&nobody, &id, with(&first, json!({}))).await;
    assert_eq!(changed.status, 200, "{}", changed.body);
    let second = token(&changed).expect("it changed").to_owned();
    patched(&nobody, &id, with(&first, json!({}))).await.assert_refused("the old one", 404, "RESOURCE_NOT_FOUND");

    let end = async |token: &str| {
        let path = format!("{SESSIONS}/{id}");
        send(nobody.request(Method::DELETE, &path).query(&[("sessionToken", token)])).await
    };
    for token in ["", &first, &theirs] {
        end(token).await.assert_refused("to end", 404, "RESOURCE_NOT_FOUND");
    }
    let ended = end(&second).await;
    assert_eq!(ended.status, 200, "{}", ended.body);
    after(&ended, admin.request(Method::GET, &format!("{SESSIONS}/{id}"))).await.assert_refused(
        "it has ended",
        404,
        "RESOURCE_NOT_FOUND",
    );
}

#[tokio::test]
async fn whoever_has_lost_an_answer_sends_the_request_again_with_the_token_that_it_had() {
    let tenant = Tenant::start().await;
    let (admin, nobody) = (tenant.client().await, tenant.client_named("nobody").await);
    let (made, other) = (created(&admin, SESSIONS, json!({})).await, created(&admin, SESSIONS, json!({})).await);
    let (id, first) = (made.id(), token(&made).expect("it is shown").to_owned());
    let theirs = token(&other).expect("it is shown").to_owned();
    let keyed = async |key: &str, token: &str| {
        let request = nobody.request(Method::PATCH, &format!("{SESSIONS}/{id}")).header("idempotency-key", key);
        send(request.json(&json!({ "sessionToken": token, "metadata": { "place": "work" } }))).await
    };
    let (lost, again) = (keyed("a", &first).await, keyed("a", &first).await);
    assert_eq!((lost.status.as_u16(), again.status.as_u16()), (200, 200), "{}", again.body);
    assert!(again.headers.contains_key("idempotency-replayed") && token(&again).is_some());
    assert_eq!(token(&lost), token(&again));
    let second = token(&again).expect("it changed").to_owned();
    for token in [&theirs, &second] {
        keyed("a", token).await.assert_refused("another token", 400, "IDEMPOTENCY_KEY_REUSED");
    }
    let path = format!("{SESSIONS}/{id}");
    let request = || nobody.request(Method::DELETE, &path).header("idempotency-key", "b");
    let ended = send(request().query(&[("sessionToken", &second)])).await;
    assert_eq!(ended.status, 200, "{}", ended.body);
    let again = send(request().query(&[("sessionToken", &second)])).await;
    assert_eq!((again.status.as_u16(), again.sequence()), (200, ended.sequence()), "{}", again.body);
}
