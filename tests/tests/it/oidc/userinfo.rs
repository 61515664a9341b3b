//! Userinfo: the claims about users, by the tokens of requests. The numbers are those of the cases of the design.

use reqwest::{Method, StatusCode};
use serde_json::json;
use tests::{
    client::{done, put, send, service_user},
    eventually,
    tenant::new_name,
};

use super::{
    flow::{API, Flow, access_token},
    token::{assert_error, parts},
};

const PATH: &str = "/oidc/v1/userinfo";
const ROLES: &str = "urn:platform:iam:org:projects:roles";
const METADATA: &str = "urn:platform:iam:user:metadata";

#[tokio::test]
async fn it_says_what_scopes_ask_for_as_it_is_now() {
    let flow = Flow::start().await;
    let role = json!({ "projectId": flow.project, "key": "clerk", "displayName": "Clerk" });
    done(&flow.admin, &format!("{API}/roles"), role).await;
    let grant = json!({ "userId": flow.person.0, "projectId": flow.project, "roleKeys": ["clerk"] });
    done(&flow.admin, &format!("{API}/user_grants"), grant).await;
    let user = format!("{API}/users/{}", flow.person.0);
    put(&flow.admin, &format!("{user}/metadata/plan"), json!({ "value": "gold" })).await;
    let scope = format!("openid profile {ROLES} {METADATA} urn:platform:iam:user:resourceowner");
    let (tokens, _) = flow.tokens(&[("scope", &scope)]).await;
    let token = access_token(&tokens);
    let said = flow.userinfo(token).await.body;
    let claim = format!("urn:platform:iam:org:project:{}:roles", flow.project);
    let organization = &flow.tenant.bootstrap.organization_id;
    assert!(said[&claim]["clerk"][organization].is_string(), "{said}");
    assert_eq!(said[METADATA], json!({ "plan": "Z29sZA" }), "{said}");
    assert_eq!(said["urn:platform:iam:user:resourceowner:id"], json!(organization), "{said}");
    let [_, id_token] = parts(tokens["id_token"].as_str().expect("there is one"));
    assert_eq!((&said["sub"], id_token.get("name")), (&id_token["sub"], None), "126 and 70");

    let data = json!({ "given_name": "Radia", "family_name": "Joy", "nickname": "mother of trees" });
    let change = flow.admin.request(Method::PATCH, &user).header("prefer", "wait=10");
    let changed = send(change.json(&json!({ "human": { "data": data } }))).await;
    assert_eq!(changed.status, StatusCode::OK, "{}", changed.body);
    let said = eventually("the new name is told", async || {
        let said = flow.userinfo(token).await.body;
        (said["family_name"] == "Joy").then_some(said)
    })
    .await;
    assert_eq!((&said["name"], &said["nickname"]), (&json!("Radia Joy"), &json!("mother of trees")), "{said}");
    assert_eq!(said.get("locale"), None, "what is no more is not told: {said}");

    let (plain, _) = flow.tokens(&[("scope", "openid")]).await;
    let said = flow.userinfo(access_token(&plain)).await.body;
    assert_eq!(said, json!({ "sub": flow.person.0 }), "124: nothing that was not asked for");
}

#[tokio::test]
async fn it_takes_access_tokens_that_are_sent_as_the_rfc_says() {
    let flow = Flow::start().await;
    let (tokens, _) = flow.tokens(&[]).await;
    let token = access_token(&tokens);
    let id_token = tokens["id_token"].as_str().expect("there is one");
    let get = || flow.admin.anonymous(Method::GET, PATH);
    for scheme in ["Bearer", "bearer", "BEARER"] {
        let answer = send(get().header("authorization", format!("{scheme} {token}"))).await;
        assert_eq!(answer.status, StatusCode::OK, "125: {scheme}: {}", answer.body);
    }
    let in_query = flow.admin.anonymous(Method::GET, &format!("{PATH}?access_token={token}"));
    let beside = |other: &[u8]| get().bearer_auth(token).header("authorization", other);
    for (case, request, challenge) in [
        ("125: no header", get(), "Bearer"),
        ("125: two headers", beside(format!("Bearer {token}").as_bytes()), "Bearer"),
        ("125: two headers, one of which is no text", beside(b"Bearer \xff"), "Bearer"),
        ("125: in the address", in_query, "Bearer"),
        ("125: an ID token", get().bearer_auth(id_token), "Bearer error=\"invalid_token\""),
        ("125: another scheme", get().header("authorization", format!("DPoP {token}")), "Bearer"),
        ("125: nothing after the scheme", get().header("authorization", "Bearer"), "Bearer"),
        ("an empty form", flow.admin.anonymous(Method::POST, PATH).form(&[("a", "b")]), "Bearer"),
    ] {
        let answer = send(request).await;
        assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{case}: {}", answer.body);
        let told = answer.headers["www-authenticate"].to_str().expect("it is text");
        let is_it = if challenge == "Bearer" { !told.contains("error=") } else { told.starts_with(challenge) };
        assert!(told.starts_with("Bearer") && is_it, "{case}: {told}");
        assert!(answer.body.get("sub").is_none(), "{case}: {}", answer.body);
    }
    let both = flow.admin.anonymous(Method::POST, PATH).bearer_auth(token).form(&[("access_token", token)]);
    assert_error("125: in a header and in a form", &send(both).await, 400, "invalid_request");
    for method in [Method::PUT, Method::DELETE, Method::PATCH] {
        let answer = send(flow.admin.anonymous(method.clone(), PATH).bearer_auth(token)).await;
        assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED, "{method}");
    }
    let revoking = flow.admin.anonymous(Method::POST, "/oauth/v2/revoke");
    let revoked = send(revoking.form(&[("token", token), ("client_id", &flow.app.id)])).await;
    assert_eq!(revoked.status, StatusCode::OK, "127: {}", revoked.body);
    assert_eq!(send(get().bearer_auth(token)).await.status, StatusCode::UNAUTHORIZED, "125");
}

#[tokio::test]
async fn a_token_without_openid_is_not_enough() {
    let flow = Flow::start().await;
    let user = service_user(&flow.admin, (&new_name(), json!({})), "").await;
    let audience = format!("urn:platform:iam:org:project:id:{}:aud", flow.project);
    for (scope, status) in [(audience.clone(), 403), (format!("openid {audience}"), 200)] {
        let form = [("grant_type", "client_credentials"), ("scope", scope.as_str())];
        let request = flow.admin.anonymous(Method::POST, "/oauth/v2/token");
        let tokens = send(request.basic_auth(&user.client_id, Some(&user.client_secret)).form(&form)).await.body;
        let answer = flow.userinfo(access_token(&tokens)).await;
        assert_eq!(answer.status.as_u16(), status, "125: {scope}: {}", answer.body);
        if status == 403 {
            let told = answer.headers["www-authenticate"].to_str().expect("it is text");
            assert!(told.starts_with("Bearer error=\"insufficient_scope\""), "{told}");
        } else {
            assert_eq!(answer.body["sub"], json!(user.user_id));
        }
    }
}
