//! Opaque access tokens: they are equivalent to signed ones, but only the platform can read them.

use reqwest::Method;
use serde_json::{Value, json};
use tests::{
    client::{Client, SCOPE, ServiceUser, TARGETS, created, done, send},
    eventually,
    tenant::instance_beside,
};

use super::{
    shop::{API, ROLES, Shop, user},
    token::parts,
};

/// Requests a token of a user with a scope.
async fn access_token(admin: &Client, user: &ServiceUser, scope: &str) -> String {
    let form = [("grant_type", "client_credentials"), ("scope", scope)];
    let request = admin.anonymous(Method::POST, "/oauth/v2/token");
    let answer = send(request.basic_auth(&user.client_id, Some(&user.client_secret)).form(&form)).await;
    answer.body["access_token"].as_str().unwrap_or_else(|| panic!("there is a token: {}", answer.body)).to_owned()
}

/// Sets the format of a user's tokens, and returns the first token with it.
async fn choose(admin: &Client, user: &ServiceUser, form: &str, scope: &str) -> String {
    let change = json!({ "service": { "accessTokenType": form } });
    let path = format!("{API}/users/{}", user.user_id);
    let answer = send(admin.request(Method::PATCH, &path).json(&change)).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let is_opaque = form.ends_with("BEARER");
    eventually("tokens are of the form that was chosen", async || {
        let token = access_token(admin, user, scope).await;
        (token.starts_with("at-") == is_opaque).then_some(token)
    })
    .await
}

/// Returns the status of the API for a token; a caller with the permission gets 404.
async fn status(client: &Client, token: &str) -> u16 {
    send(client.anonymous(Method::GET, &format!("{TARGETS}/1")).bearer_auth(token)).await.status.as_u16()
}

#[tokio::test]
async fn an_opaque_token_is_worth_what_a_signed_one_is() {
    let shop = Shop::open(json!({})).await;
    shop.grant(&["clerk"]).await;
    let scope = shop.scope(&format!("{ROLES} urn:platform:iam:user:resourceowner"));
    let signed = access_token(&shop.admin, &shop.user, &scope).await;
    let token = choose(&shop.admin, &shop.user, "ACCESS_TOKEN_TYPE_BEARER", &scope).await;
    assert!(token.starts_with("at-") && !token.contains('.'), "nobody takes it for a JWT: {token}");
    let told = async |token: &str| {
        let mut told = shop.introspect(token).await;
        let members = told.as_object_mut().expect("it is an object");
        assert_eq!(members["active"], true, "{token}");
        let left = ["exp", "iat", "jti", "nbf"].map(|name| members.remove(name).is_some());
        assert_eq!(left, [true; 4], "{members:?}");
        told
    };
    assert_eq!(told(&token).await, told(&signed).await);
    assert!(told(&token).await["urn:platform:iam:org:project:roles"]["clerk"].is_object());

    // What is changed or cut off is none, and is not told from what never was one.
    let inactive = json!({ "active": false });
    let middle = token.len() / 2;
    let other = if token.as_bytes()[middle] == b'A' { "B" } else { "A" };
    let changed = format!("{}{other}{}", &token[..middle], &token[middle + 1..]);
    for broken in [&changed, &token[..token.len() - 1], "at-", "at-x", "at-1-x", &token[3..], &format!("{token}.e30.x")]
    {
        assert_eq!(shop.introspect(broken).await, inactive, "{broken}");
    }

    // Its client ends it, and no other with it.
    let other = access_token(&shop.admin, &shop.user, &scope).await;
    let revoke = async |user: &ServiceUser, token: &str| {
        let request = shop.admin.anonymous(Method::POST, "/oauth/v2/revoke");
        let request = request.basic_auth(&user.client_id, Some(&user.client_secret)).form(&[("token", token)]);
        let answer = send(request).await;
        (answer.status.as_u16(), answer.body)
    };
    let stranger = user(&shop.admin, "other", "").await;
    let (status, refused) = revoke(&stranger, &token).await;
    assert_eq!((status, &refused["error"]), (400, &json!("invalid_grant")), "{refused}");
    assert_eq!(revoke(&shop.user, &token).await, (200, Value::Null));
    assert_eq!(shop.introspect(&token).await, inactive);
    assert_eq!(shop.introspect(&other).await["active"], true);

    // An organization that is switched off has no tokens.
    let organization = &created(&shop.admin, &format!("{API}/organizations"), json!({ "name": "Beside" })).await.id();
    let beside = user(&shop.admin, "beside", &format!("?ctx.orgId={organization}")).await;
    let of_beside = choose(&shop.admin, &beside, "ACCESS_TOKEN_TYPE_BEARER", &shop.scope("")).await;
    assert_eq!(shop.introspect(&of_beside).await["active"], true);
    shop.change(Method::POST, &format!("organizations/{organization}/_deactivate"), None).await;
    eventually("its organization is off", async || (shop.introspect(&of_beside).await == inactive).then_some(())).await;

    let signed = choose(&shop.admin, &shop.user, "ACCESS_TOKEN_TYPE_JWT", &scope).await;
    let [header, _] = parts(&signed);
    assert_eq!(header["typ"], "at+jwt");
    assert_eq!(shop.introspect(&other).await["active"], true, "those from before go on");
    shop.change(Method::POST, &format!("users/{}/_deactivate", shop.user.user_id), None).await;
    eventually("the user is off", async || (shop.introspect(&other).await == inactive).then_some(())).await;
}

#[tokio::test]
async fn the_api_takes_an_opaque_token_of_its_own_instance_that_is_for_it() {
    let shop = Shop::open(json!({})).await;
    let admin = &shop.admin;
    let reader = user(admin, "reader", "").await;
    let role = json!({ "userId": reader.user_id, "roles": ["IAM_OWNER_VIEWER"] });
    done(admin, &format!("{API}/memberships"), role).await;
    let token = choose(admin, &reader, "ACCESS_TOKEN_TYPE_BEARER", SCOPE).await;
    eventually("its role is known", async || (status(admin, &token).await == 404).then_some(())).await;

    let elsewhere = instance_beside(&shop.tenant).await.client().await;
    assert_eq!(status(&elsewhere, &token).await, 401, "another instance has another key");
    let answer = async |token: &str| {
        let answer = send(admin.anonymous(Method::GET, &format!("{TARGETS}/1")).bearer_auth(token)).await;
        (
            answer.status.as_u16(),
            answer.reason().to_owned(),
            answer.body["message"].as_str().unwrap_or_default().to_owned(),
        )
    };
    let for_the_shop = access_token(admin, &reader, &shop.scope("")).await;
    let (status_, reason, message) = answer(&for_the_shop).await;
    assert_eq!((status_, &*reason), (401, "TOKEN_INVALID"), "{message}");
    assert!(message.contains("the access token is not for the platform's API"), "{message}");
    let audience = SCOPE.split(' ').find(|scope| scope.ends_with(":aud")).expect("it has one");
    let without = access_token(admin, &reader, audience).await;
    let (status_, reason, message) = answer(&without).await;
    assert_eq!((status_, &*reason), (403, "INSUFFICIENT_SCOPE"), "{message}");
    let (status_, reason, message) = answer(&token[..token.len() - 4]).await;
    assert_eq!((status_, &*reason), (401, "TOKEN_INVALID"), "{message}");

    // All that it stands on counts for it as for a signed one.
    let revoking = admin.anonymous(Method::POST, "/oauth/v2/revoke");
    let revoking = revoking.basic_auth(&reader.client_id, Some(&reader.client_secret)).form(&[("token", &token)]);
    assert_eq!(send(revoking).await.status, 200);
    assert_eq!(status(admin, &token).await, 401);
    let next = access_token(admin, &reader, SCOPE).await;
    assert_eq!(status(admin, &next).await, 404);
    shop.change(Method::POST, &format!("users/{}/_lock", reader.user_id), None).await;
    eventually("the user is locked", async || (status(admin, &next).await == 401).then_some(())).await;
}
