//! People: their data, the choice of their ids, and what they do not have.

use reqwest::Method;
use serde_json::{Value, json};
use tests::{
    client::{Client, created, done, post, send},
    tenant::{Tenant, new_name},
};

use super::tenancy::member;

const USERS: &str = "/resources/v3alpha/users";

fn ada(username: &str) -> Value {
    let data = json!({ "given_name": "Ada", "family_name": "Lovelace", "birthdate": "1815-12-10" });
    let email = json!({ "address": format!("{username}@example.com"), "isVerified": true });
    json!({ "username": username, "human": { "data": data, "email": email, "phone": { "number": "+441632960123" } } })
}

async fn read(admin: &Client, id: &str) -> Value {
    send(admin.request(Method::GET, &format!("{USERS}/{id}"))).await.body["user"].take()
}

async fn patch(admin: &Client, id: &str, body: Value) -> tests::client::Answer {
    send(admin.request(Method::PATCH, &format!("{USERS}/{id}")).json(&body)).await
}

#[tokio::test]
async fn a_person_is_created_read_changed_found_and_deleted() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let name = new_name();
    let id = done(&admin, USERS, ada(&name)).await.id();
    let mut expected = ada(&name);
    expected["human"]["schemaId"] = json!("human");
    let shown = read(&admin, &id).await;
    assert_eq!(shown["user"], expected);
    assert_eq!((&shown["state"], &shown["userState"]), (&json!("EFFECTIVE_STATE_ACTIVE"), &json!("USER_STATE_ACTIVE")));

    // What is left out stays, what is empty goes, and data are replaced as a whole.
    let data = json!({ "given_name": "Ada", "family_name": "King" });
    let first = patch(&admin, &id, json!({ "human": { "data": data, "phone": {} } })).await;
    let again = patch(&admin, &id, json!({ "human": { "data": data, "phone": {} } })).await;
    assert_eq!(first.status, 200, "{}", first.body);
    assert_eq!(again.sequence(), first.sequence(), "nothing has changed: {}", again.body);
    let renamed = format!("{name} renamed");
    let answer = send(
        admin
            .request(Method::PATCH, &format!("{USERS}/{id}"))
            .header("prefer", "wait=10")
            .json(&json!({ "username": renamed })),
    )
    .await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let shown = read(&admin, &id).await["user"].take();
    assert_eq!(shown["human"]["data"], data);
    assert_eq!((&shown["username"], &shown["human"]["phone"]), (&json!(renamed), &Value::Null));
    assert_eq!(shown["human"]["email"], ada(&name)["human"]["email"]);

    // The old name is free, the new one is taken, case not counting.
    assert_eq!(post(&admin, USERS, ada(&name)).await.status, 201);
    assert_eq!(post(&admin, USERS, json!({ "username": renamed.to_uppercase(), "service": {} })).await.status, 409);

    let found = json!([{ "familyName": { "name": "KING", "method": "TEXT_FILTER_METHOD_EQUALS_IGNORE_CASE" } }]);
    let search = async |filters: &Value| {
        let answer = send(admin.request(Method::POST, &format!("{USERS}/_search")).json(filters)).await;
        answer.body["result"].as_array().map_or(0, Vec::len)
    };
    assert_eq!(search(&found).await, 1);
    let gone = send(admin.request(Method::DELETE, &format!("{USERS}/{id}")).header("prefer", "wait=10")).await;
    assert_eq!(gone.status, 200, "{}", gone.body);
    assert_eq!(search(&found).await, 0);
    assert_eq!(send(admin.request(Method::GET, &format!("{USERS}/{id}"))).await.status, 404);
}

#[tokio::test]
async fn an_id_that_a_caller_gives_is_used_once_only() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let own = format!("person-{}", new_name());
    let at = |id: &str| format!("{USERS}?userId={id}");
    let first = done(&admin, &at(&own), ada(&new_name())).await;
    assert_eq!(first.id(), own);
    let by_id = json!([{ "inIds": { "ids": ["1", own] } }]);
    let found = send(admin.request(Method::POST, &format!("{USERS}/_search")).json(&by_id)).await;
    assert_eq!(
        (&found.body["result"][0]["details"]["id"], &found.body["details"]["totalResult"]),
        (&json!(own), &json!("1"))
    );
    for round in ["it is there", "it was there"] {
        assert_eq!(post(&admin, &at(&own), ada(&new_name())).await.status, 409, "{round}");
        // Nobody else's key has taken the place of the person's.
        if round == "it is there" {
            assert_eq!(read(&admin, &own).await["user"]["human"]["data"]["given_name"], "Ada");
            assert_eq!(patch(&admin, &own, json!({ "human": { "email": {} } })).await.status, 200);
            assert_eq!(send(admin.request(Method::DELETE, &format!("{USERS}/{own}"))).await.status, 200);
        }
    }
    let project = created(&admin, "/resources/v3alpha/projects", json!({ "name": new_name() })).await.id();
    let app = json!({ "projectId": project, "name": "app", "api": {} });
    let app = created(&admin, "/resources/v3alpha/apps", app).await.id();
    assert_eq!(post(&admin, &at(&app), ada(&new_name())).await.status, 409, "it is a client id");
}

#[tokio::test]
async fn a_person_has_nothing_to_act_as_a_program_with() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let id = created(&admin, USERS, ada(&new_name())).await.id();
    let own = format!("{USERS}/{id}");
    let until = "2099-01-01T00:00:00Z";
    for (path, body) in [
        ("_generate_secret", json!({})),
        ("keys", json!({ "keyType": "KEY_TYPE_ED25519", "expirationDate": until })),
        ("tokens", json!({ "expirationDate": until })),
    ] {
        let answer = post(&admin, &format!("{own}/{path}"), body).await;
        assert_eq!(answer.status, 400, "{path}: {}", answer.body);
        assert!(answer.body.to_string().contains("the user is a person"), "{path}: {}", answer.body);
    }
    let service = patch(&admin, &id, json!({ "service": { "description": "x" } })).await;
    assert!(service.body.to_string().contains("the user is a person"), "{}", service.body);
    let token = admin.anonymous(Method::POST, "/oauth/v2/token").basic_auth(&id, Some("secret"));
    let token = send(token.form(&[("grant_type", "client_credentials"), ("scope", "openid")])).await;
    assert_eq!(token.body["error"], "invalid_client", "{}", token.body);
}

#[tokio::test]
async fn what_is_wrong_with_data_is_told_by_its_path_and_without_its_value() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let with = |data: Value| json!({ "username": new_name(), "human": { "data": data } });
    for (data, path) in [
        (json!({ "family_name": "x" }), "human.data.given_name is required"),
        (json!({ "given_name": "x", "family_name": 1 }), "human.data.family_name must be a string"),
        (
            json!({ "given_name": "x", "family_name": "x", "shoe_size": "canary" }),
            "human.data.shoe_size is not a property",
        ),
        (json!({ "given_name": "x", "family_name": "x", "website": "canary" }), "human.data.website must be an http"),
        (
            json!({ "given_name": "x", "family_name": "x", "address": { "planet": "canary" } }),
            "human.data.address.planet is",
        ),
    ] {
        let answer = post(&admin, USERS, with(data)).await;
        let text = answer.body.to_string();
        assert!(answer.status == 400 && text.contains(path) && !text.contains("canary"), "{path}: {text}");
    }
    let nested = (0..200).fold(json!("x"), |inner, _| json!({ "a": inner }));
    assert_eq!(post(&admin, USERS, with(json!({ "address": nested }))).await.status, 400);
    assert_eq!(post(&admin, USERS, json!({ "username": new_name(), "human": { "data": [] } })).await.status, 400);
}

#[tokio::test]
async fn nobody_changes_how_somebody_with_more_rights_is_reached() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let (_, manager) =
        member(&tenant, &admin, &tenant.bootstrap.organization_id, &new_name(), &["ORG_USER_MANAGER"]).await;
    let email = |is_verified: bool| json!({ "address": "ada@example.com", "isVerified": is_verified });
    let mut powerful = ada(&new_name());
    powerful["human"]["email"] = email(false);
    let id = created(&admin, USERS, powerful).await.id();
    let membership = json!({ "userId": id, "roles": ["IAM_OWNER"] });
    created(&admin, "/resources/v3alpha/memberships", membership).await;
    for (case, change) in [
        ("verified", json!({ "human": { "email": email(true) } })),
        ("in other letters", json!({ "human": { "email": { "address": "ADA@example.com" } } })),
        ("phone", json!({ "human": { "phone": { "number": "+441632960124" } } })),
        ("no phone", json!({ "human": { "phone": {} } })),
        ("renamed", json!({ "username": new_name() })),
    ] {
        patch(&manager, &id, change).await.assert_refused(case, 403, "PERMISSION_DENIED");
    }
    let data = json!({ "given_name": "Ada", "family_name": "King" });
    let changed = patch(&manager, &id, json!({ "human": { "data": data } })).await;
    assert_eq!(changed.status, 200, "her data give nobody anything: {}", changed.body);
}
