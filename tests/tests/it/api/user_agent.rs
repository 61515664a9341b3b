//! The user agents of sessions: the request that checks a person may name one, and callers who may read the session see
//! it.

use reqwest::Method;
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, after, created, post, send},
    tenant::{Tenant, new_name},
};

const USERS: &str = "/resources/v3alpha/users";
const SESSIONS: &str = "/resources/v3alpha/sessions";

async fn person(admin: &Client) -> String {
    let data = json!({ "given_name": "Ada", "family_name": "Lovelace" });
    created(admin, USERS, json!({ "username": new_name(), "human": { "data": data } })).await.id()
}

fn agent() -> Value {
    json!({
        "fingerprintId": "device-1", "ip": "2001:db8::7", "description": "Ada's laptop",
        "header": { "user-agent": { "values": ["Mozilla/5.0"] }, "accept-language": { "values": ["en", "fr"] } },
    })
}

fn of_person(user: &str, agent: &Value) -> Value {
    json!({ "checks": { "user": { "userId": user } }, "userAgent": agent })
}

async fn patched(who: &Client, id: &str, body: Value) -> Answer {
    send(who.request(Method::PATCH, &format!("{SESSIONS}/{id}")).json(&body)).await
}

/// Returns the user agent of a session after a write, as it is read alone and in a list.
async fn read(admin: &Client, written: &Answer, id: &str) -> Value {
    let alone = after(written, admin.request(Method::GET, &format!("{SESSIONS}/{id}"))).await.body;
    let list = admin.request(Method::POST, &format!("{SESSIONS}/_search")).json(&json!([{ "inIds": { "ids": [id] } }]));
    let list = after(written, list).await.body;
    assert_eq!(list["result"][0]["userAgent"], alone["session"]["userAgent"], "{list}");
    assert_eq!(alone["session"]["details"]["id"], json!(id), "{alone}");
    alone["session"]["userAgent"].clone()
}

#[tokio::test]
async fn a_session_says_which_user_agent_it_is_of() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let user = person(&admin).await;
    let made = created(&admin, SESSIONS, of_person(&user, &agent())).await;
    let id = made.id();
    assert_eq!(read(&admin, &made, &id).await, agent());

    let same = patched(&admin, &id, json!({ "userAgent": agent() })).await;
    assert_eq!((same.status.as_u16(), same.sequence()), (200, made.sequence()), "{}", same.body);
    let other = json!({ "ip": "192.0.2.7" });
    let changed = patched(&admin, &id, json!({ "userAgent": other })).await;
    assert!(changed.status == 200 && changed.sequence() > made.sequence(), "{}", changed.body);
    assert_eq!(read(&admin, &changed, &id).await, other, "it takes the place of all that was known");
    let kept = patched(&admin, &id, json!({ "lifetime": "60s" })).await;
    assert_eq!(read(&admin, &kept, &id).await, other, "nothing was said of it");
    let none = patched(&admin, &id, json!({ "userAgent": {} })).await;
    assert_eq!(none.status, 200, "{}", none.body);
    assert_eq!(read(&admin, &none, &id).await, Value::Null);
    let again = patched(&admin, &id, json!({ "userAgent": {} })).await;
    assert_eq!((again.status.as_u16(), again.sequence()), (200, none.sequence()), "{}", again.body);
    assert_eq!(again.body["sessionToken"], Value::Null, "the token stays: {}", again.body);
}

#[tokio::test]
async fn a_request_with_a_wrong_user_agent_tells_nothing_of_the_password() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let data = json!({ "given_name": "Ada", "family_name": "Lovelace" });
    let password = "nine-lives-of-a-tabby-cat";
    let human = json!({ "data": data, "password": { "password": password } });
    let user = created(&admin, USERS, json!({ "username": new_name(), "human": human })).await.id();
    let session = created(&admin, SESSIONS, of_person(&user, &agent())).await.id();
    for said in [password, "eight-lives-of-a-tabby-cat"] {
        let checks = json!({ "user": { "userId": user }, "password": { "password": said } });
        let body = json!({ "checks": checks, "userAgent": { "ip": "1.2" } });
        for refused in [post(&admin, SESSIONS, body.clone()).await, patched(&admin, &session, body).await] {
            refused.assert_refused(said, 400, "INVALID_REQUEST");
            assert!(refused.body.to_string().contains("userAgent.ip"), "{said}: {}", refused.body);
        }
    }
}

#[tokio::test]
async fn a_user_agent_is_that_of_a_person_and_needs_the_permission() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let user = person(&admin).await;
    let refused = post(&admin, SESSIONS, json!({ "userAgent": agent() })).await;
    refused.assert_refused("of nobody", 400, "INVALID_REQUEST");
    assert!(refused.body.to_string().contains("session.userAgent needs checks.user"), "{}", refused.body);
    let nobodys = created(&admin, SESSIONS, json!({ "userAgent": {} })).await;
    let id = nobodys.id();
    let none = patched(&admin, &id, json!({ "userAgent": {} })).await;
    assert_eq!((none.status.as_u16(), none.sequence()), (200, nobodys.sequence()), "{}", none.body);
    patched(&admin, &id, json!({ "userAgent": agent() })).await.assert_refused("of nobody", 400, "INVALID_REQUEST");
    let checked = patched(&admin, &id, of_person(&user, &agent())).await;
    assert_eq!(checked.status, 200, "{}", checked.body);
    assert_eq!(read(&admin, &checked, &id).await, agent());
    let nobody = post(&admin, SESSIONS, of_person("1", &agent())).await;
    nobody.assert_refused("nobody", 404, "RESOURCE_NOT_FOUND");

    let bystander = tenant.client_named("nobody").await;
    let shown = json!({ "sessionToken": checked.body["sessionToken"], "userAgent": { "ip": "192.0.2.7" } });
    patched(&bystander, &id, shown).await.assert_refused("the token is not enough", 404, "RESOURCE_NOT_FOUND");

    for (wrong, field) in [
        (json!({ "ip": "nowhere" }), "userAgent.ip"),
        (json!({ "ip": "192.0.2.7:80" }), "userAgent.ip"),
        (json!({ "fingerprintId": "x".repeat(201) }), "userAgent.fingerprintId"),
        (json!({ "description": "a\u{0}" }), "userAgent.description"),
        (json!({ "header": { "User-Agent": { "values": ["x"] } } }), "userAgent.header"),
        (json!({ "header": { "cookie": { "values": ["x"] } } }), "userAgent.header"),
        (json!({ "header": { "authorization": { "values": ["x"] } } }), "userAgent.header"),
        (json!({ "header": { "a": { "values": vec!["x".repeat(1000); 5] } } }), "userAgent"),
    ] {
        let refused = post(&admin, SESSIONS, of_person(&user, &wrong)).await;
        refused.assert_refused(field, 400, "INVALID_REQUEST");
        assert!(refused.body.to_string().contains(field), "{field}: {}", refused.body);
    }
}
