//! Passwords of people: who may set them, their rules, and what is returned of them.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, created, done, post, send},
    tenant::{Tenant, new_name},
};

use super::tenancy::member;

const USERS: &str = "/resources/v3alpha/users";

fn ada(password: &Value) -> Value {
    let data = json!({ "given_name": "Augusta", "family_name": "Lovelace" });
    let email = json!({ "address": "countess.ada@example.com" });
    json!({ "username": new_name(), "human": { "data": data, "email": email, "password": password } })
}

async fn set(admin: &Client, id: &str, password: &Value) -> Answer {
    let request = admin.request(Method::POST, &format!("{USERS}/{id}/password")).header("prefer", "wait=10");
    send(request.json(password)).await
}

async fn read_user(admin: &Client, id: &str) -> Value {
    send(admin.request(Method::GET, &format!("{USERS}/{id}"))).await.body["user"].take()
}

#[tokio::test]
async fn a_password_is_set_and_compared_and_never_told() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let first = json!({ "password": "nine-lives-of-a-tabby-cat", "changeRequired": true });
    let id = done(&admin, USERS, ada(&first)).await.id();
    let shown = read_user(&admin, &id).await;
    assert_eq!(shown["password"]["changeRequired"], true, "{shown}");
    assert_eq!(shown["user"]["human"]["password"], Value::Null, "{shown}");

    let next = json!({ "newPassword": "caf\u{e9} au lait at nine", "currentPassword": "nine-lives-of-a-tabby-cat" });
    let changed = set(&admin, &id, &next).await;
    assert_eq!(changed.status, 200, "{}", changed.body);
    let after = read_user(&admin, &id).await;
    assert!(after["password"].get("changeRequired").is_none_or(|it| it == false), "{after}");
    assert_ne!(after["password"]["changeDate"], shown["password"]["changeDate"], "{after}");

    // The one before is another one now, and a wrong one changes nothing.
    for wrong in ["nine-lives-of-a-tabby-cat", "cafe au lait at nine", "caf\u{e9} au lait at nine "] {
        let answer = set(&admin, &id, &json!({ "newPassword": "a-hive-of-27-bees", "currentPassword": wrong })).await;
        assert_eq!(answer.status, 400, "{wrong}: {}", answer.body);
        assert!(answer.body.to_string().contains("password.currentPassword"), "{}", answer.body);
    }
    assert_eq!(read_user(&admin, &id).await["details"], after["details"]);
    let same = json!({ "newPassword": "cafe\u{301} au lait at nine", "currentPassword": "caf\u{e9} au lait at nine" });
    let answer = set(&admin, &id, &same).await;
    assert!(answer.body.to_string().contains("must differ"), "{}", answer.body);
    let short = json!({ "newPassword": "e\u{301}".repeat(9) });
    assert!(set(&admin, &id, &short).await.body.to_string().contains("at least 10 characters"), "they are nine");
    // It is the same one however it is typed.
    let decomposed =
        json!({ "newPassword": "a-hive-of-27-bees", "currentPassword": "cafe\u{301}\u{a0}au lait at nine" });
    assert_eq!(set(&admin, &id, &decomposed).await.status, 200);

    // Whoever sends it again, having heard nothing, is answered as before.
    let again = async || {
        let body = json!({ "newPassword": "a-hive-of-28-bees", "currentPassword": "a-hive-of-27-bees" });
        let request = admin.request(Method::POST, &format!("{USERS}/{id}/password")).header("idempotency-key", "once");
        send(request.json(&body)).await
    };
    let (answered, replayed) = (again().await, again().await);
    assert_eq!([answered.status, replayed.status], [StatusCode::OK; 2], "{}", replayed.body);
    assert_eq!(answered.sequence(), replayed.sequence());

    let events = json!([{ "aggregateId": id }]);
    let events = send(admin.request(Method::POST, "/resources/v3alpha/events/_search").json(&events)).await;
    let payload = events.body["result"][0]["payload"].as_str().unwrap_or_default();
    assert!(payload.contains(r#"{"fields":["password"],"#), "the newest names it: {}", events.body);
    for secret in ["bees", "tabby-cat", "argon2", "sealed"] {
        assert!(!events.body.to_string().contains(secret), "{secret}: {}", events.body);
    }
}

#[tokio::test]
async fn what_is_common_known_or_against_the_settings_is_refused() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let id = created(&admin, USERS, ada(&json!({ "password": "nine-lives-of-a-tabby-cat" }))).await.id();
    for guessable in ["password123", "1q2w3e4r5t6y", "augustalovelace", "countess.ada1", "Lovelace2026"] {
        let answer = set(&admin, &id, &json!({ "newPassword": guessable })).await;
        assert_eq!(answer.status, 400, "{guessable}: {}", answer.body);
        assert!(answer.body.to_string().contains("easy to guess"), "{guessable}: {}", answer.body);
        let answer = post(&admin, USERS, ada(&json!({ "password": guessable }))).await;
        assert!(answer.body.to_string().contains("user.human.password.password"), "{guessable}: {}", answer.body);
    }
    let keyed = || {
        let request =
            admin.request(Method::POST, &format!("{USERS}/{id}/password")).header("idempotency-key", "before");
        request.json(&json!({ "newPassword": "a-hive-of-27-bees" }))
    };
    let before = send(keyed()).await;
    assert_eq!(before.status, 200, "{}", before.body);
    let settings = json!({ "requiresUppercase": { "set": true }, "minLength": { "set": 30 } });
    let asked = send(admin.request(Method::PATCH, "/settings/v3alpha/password").json(&settings)).await;
    assert_eq!(asked.status, 200, "{}", asked.body);
    let replayed = send(keyed()).await;
    assert_eq!((replayed.status, replayed.sequence()), (before.status, before.sequence()), "{}", replayed.body);
    let lacking = set(&admin, &id, &json!({ "newPassword": "a-hive-of-27-bees" })).await;
    assert_eq!(lacking.status, 400, "{}", lacking.body);
    for rule in ["must have at least 30 characters", "must have an upper case letter"] {
        assert!(lacking.body.to_string().contains(rule), "{}", lacking.body);
    }
    let stale = admin.request(Method::POST, &format!("{USERS}/{id}/password")).header("if-match", "\"1\"");
    let stale = send(stale.json(&json!({ "newPassword": "a-hive-of-27-bees" }))).await;
    stale.assert_refused("one that was seen earlier", 412, "SEQUENCE_MISMATCH");
    let long = json!({ "newPassword": "A hive of twenty seven angry bees" });
    assert_eq!(set(&admin, &id, &long).await.status, 200);
}

#[tokio::test]
async fn hashes_of_other_systems_are_taken_over() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    for hash in [
        "$argon2id$v=19$m=256,t=2,p=1$c2FsdHNhbHRzYWx0c2FsdA$bDxMHTn5tn5pgr7ylve8rh43Uf/d2uwTEv1HLyehZ0w",
        "$2b$04$tp4KVyv19vQIx/uR84vCgeMOOOCrVzatyk2nkue3jwVWEZhaGtNR2",
        "$scrypt$ln=10,r=8,p=1$c2FsdHNhbHRzYWx0c2FsdA$Q3s5IVdQFpQ6Ztum566p9HYmSU9XwXf1xQaHluIcFzs",
        "$pbkdf2-sha256$i=1000,l=32$c2FsdHNhbHRzYWx0c2FsdA$vziugTYXn+vq18wXgJqgh9qsyB3sQnHKAWx1PZZ1kkA",
        "$pbkdf2-sha512$1000$DgHgfK.VEkIoZSwlJATgHA$Uc04nYFXobu3UT0aktANAEi1WoBuppnK941BF83goPvPyeUJSx1iFEZ6plAg7tjEU4GaFtkNFqcDhxtdBRZijg",
    ] {
        let id = created(&admin, USERS, ada(&json!({ "hash": hash }))).await.id();
        let with = |current: &str| json!({ "newPassword": "a-hive-of-27-bees", "currentPassword": current });
        assert_eq!(set(&admin, &id, &with("correct horse e")).await.status, 400, "{hash}");
        let answer = set(&admin, &id, &with("correct horse \u{e9}")).await;
        assert_eq!(answer.status, 200, "{hash}: {}", answer.body);
    }
}

#[tokio::test]
async fn only_who_may_give_credentials_and_roles_of_a_person_sets_a_password() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let id = created(&admin, USERS, ada(&json!({ "password": "nine-lives-of-a-tabby-cat" }))).await.id();
    let body = json!({ "newPassword": "a-hive-of-27-bees" });
    let organization = &tenant.bootstrap.organization_id;
    let (_, viewer) = member(&tenant, &admin, organization, &new_name(), &["ORG_OWNER_VIEWER"]).await;
    set(&viewer, &id, &body).await.assert_refused("one who reads", 403, "PERMISSION_DENIED");
    let (_, manager) = member(&tenant, &admin, organization, &new_name(), &["ORG_USER_MANAGER"]).await;
    assert_eq!(set(&manager, &id, &body).await.status, 200);
    // Of somebody with more rights it would give those.
    let owner = json!({ "userId": id, "roles": ["IAM_OWNER"] });
    created(&admin, "/resources/v3alpha/memberships", owner).await;
    // Nor does it tell whether a password is the right one.
    for (case, new, current) in [
        ("another", "a-hive-of-28-bees", None),
        ("with the right one", "a-hive-of-28-bees", Some("a-hive-of-27-bees")),
        ("a common one with the right one", "password123", Some("a-hive-of-27-bees")),
        ("a common one with a wrong one", "password123", Some("a-hive-of-26-bees")),
    ] {
        let body = json!({ "newPassword": new, "currentPassword": current });
        set(&manager, &id, &body).await.assert_refused(case, 403, "PERMISSION_DENIED");
    }
    assert_eq!(set(&admin, &id, &body).await.status, 200);
}
