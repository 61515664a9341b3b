//! Token introspection: the answers to apps about the tokens that they receive. The numbers are those of the cases of
//! the design.

use jsonwebtoken::{Algorithm, Header};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tests::{
    client::{Client, SCOPE, done, put, send},
    eventually,
    secrets::Secrets,
    tenant::{Tenant, instance_beside},
};

use super::{
    shop::{API, ROLES, Shop},
    token::{assert_error, parts},
};

const INTROSPECT: &str = "/oauth/v2/introspect";

fn inactive() -> Value {
    json!({ "active": false })
}

#[tokio::test]
async fn an_app_is_told_what_a_token_says_and_the_roles_of_its_project() {
    let shop = Shop::open(json!({})).await;
    let grant = shop.grant(&["clerk"]).await;
    let token = shop.token(&format!("{ROLES} urn:platform:iam:user:resourceowner")).await;
    let [_, claims] = parts(&token);
    let told = shop.introspect(&token).await;
    for name in ["aud", "client_id", "exp", "iat", "iss", "jti", "nbf", "scope", "sub"] {
        assert_eq!(told[name], claims[name], "{name}: {told}");
    }
    assert_eq!((&told["active"], &told["token_type"]), (&json!(true), &json!("Bearer")));
    let issuer = shop.tenant.bootstrap.issuer.trim_start_matches("http://");
    let host = issuer.split(':').next().expect("it has a host");
    assert_eq!(told["username"], format!("robot@{host}"));
    assert_eq!(told.get("seq"), None, "what only the platform needs is not told: {told}");
    let organization = &shop.tenant.bootstrap.organization_id;
    assert_eq!(told["urn:platform:iam:user:resourceowner:id"], json!(organization));
    let own = &told["urn:platform:iam:org:project:roles"];
    assert_eq!(own, &json!({ "clerk": { organization: host } }), "{told}");
    assert_eq!(own, &told[format!("urn:platform:iam:org:project:{}:roles", shop.project)]);

    // 124: only what was asked for; and it is told as it is now, not as it was when the token was issued.
    let plain = shop.introspect(&shop.token("").await).await;
    assert_eq!((&plain["active"], plain.get("urn:platform:iam:org:project:roles")), (&json!(true), None), "{plain}");
    shop.change(Method::DELETE, &format!("user_grants/{grant}"), None).await;
    let is_gone =
        async || shop.introspect(&token).await.get("urn:platform:iam:org:project:roles").is_none().then_some(());
    eventually("the role is not told any more", is_gone).await;
    assert_eq!(shop.introspect(&token).await["active"], true);
}

#[tokio::test]
async fn metadata_is_told_where_it_is_asked_for_and_as_it_is_now() {
    const METADATA: &str = "urn:platform:iam:user:metadata";
    let shop = Shop::open(json!({})).await;
    let entry = |key: &str| format!("{API}/users/{}/metadata/{key}", shop.user.user_id);
    put(&shop.admin, &entry("plan"), json!({ "value": "gold" })).await;
    put(&shop.admin, &entry("b"), json!({ "value": "" })).await;
    let token = shop.token(METADATA).await;
    let [_, claims] = parts(&token);
    assert_eq!(claims[METADATA], json!({ "plan": "Z29sZA", "b": "" }), "{claims}");
    assert_eq!(parts(&shop.token("").await)[1].get(METADATA), None);

    put(&shop.admin, &entry("plan"), json!({ "value": "silver" })).await;
    let told = async || (shop.introspect(&token).await[METADATA]["plan"] == "c2lsdmVy").then_some(());
    eventually("the new value is told", told).await;
    assert_eq!(shop.introspect(&shop.token("").await).await.get(METADATA), None);

    // More than a token can carry is refused where it is asked for.
    put(&shop.admin, &entry("long"), json!({ "value": "x".repeat(16_384) })).await;
    eventually("it is too much", async || (shop.ask(&shop.user, METADATA).await.status == 400).then_some(())).await;
    assert_error("too much", &shop.ask(&shop.user, METADATA).await, 400, "invalid_scope");
    assert_eq!(shop.introspect(&token).await[METADATA]["plan"], "c2lsdmVy", "introspection has more room");
    put(&shop.admin, &entry("longer"), json!({ "value": "x".repeat(16_384) })).await;
    let is_left_out = async || shop.introspect(&token).await.get(METADATA).is_none().then_some(());
    eventually("it is too much there, too", is_left_out).await;
    assert_eq!(shop.introspect(&token).await["active"], true);
    assert_error("too much", &shop.ask(&shop.user, METADATA).await, 400, "invalid_scope");
    assert_eq!(shop.ask(&shop.user, "").await.status, 200);
}

#[tokio::test]
async fn what_is_no_active_token_for_the_app_is_only_said_to_be_inactive() {
    let shop = Shop::open(json!({})).await;
    let token = shop.token("").await;
    // 120: unknown, garbage, cut off, of other instances, for others.
    let other = Client::log_in(&shop.tenant.bootstrap.issuer, &shop.user).await;
    let beside = instance_beside(&shop.tenant).await;
    let foreign = beside.client().await;
    let huge = "x".repeat(20_000);
    for (case, token) in [
        ("garbage", "garbage"),
        ("nearly a token", &token[..token.len() - 2]),
        ("no signature", &token[..=token.rfind('.').expect("it has dots")]),
        ("for the platform", &other.token),
        ("of another instance", &foreign.token),
        ("huge", &huge),
        ("not of this alphabet", "\u{e9}\u{0}"),
    ] {
        assert_eq!(shop.introspect(token).await, inactive(), "{case}");
    }
    // An app of another project is not in the audience; one of the same project is.
    let project = done(&shop.admin, &format!("{API}/projects"), json!({ "name": "Other" })).await.id();
    for (case, project, is_active) in [("of another project", &project, false), ("of the same", &shop.project, true)] {
        let app = json!({ "projectId": project, "name": "API", "api": {} });
        let app = done(&shop.admin, &format!("{API}/apps"), app).await;
        let secret = app.body["clientSecret"].as_str().expect("it is shown");
        let told = shop.introspected_by((&app.id(), secret), &token).await;
        assert_eq!(told.body["active"], is_active, "{case}: {}", told.body);
    }
    // 124: deactivated users, at once.
    assert_eq!(shop.introspect(&token).await["active"], true);
    let user = format!("users/{}", shop.user.user_id);
    shop.change(Method::POST, &format!("{user}/_deactivate"), None).await;
    assert_eq!(shop.introspect(&token).await, inactive(), "the user is switched off");
    shop.change(Method::POST, &format!("{user}/_reactivate"), None).await;
    assert_eq!(shop.introspect(&token).await, inactive(), "and its old tokens stay dead");
}

#[tokio::test]
async fn only_apps_with_their_secret_are_told() {
    let shop = Shop::open(json!({})).await;
    let token = shop.token("").await;
    let (id, secret) = (&*shop.app.0, &*shop.app.1);
    let ask = || shop.admin.anonymous(Method::POST, INTROSPECT);
    let with = |request: RequestBuilder| request.form(&[("token", &token)]);
    let public = json!({ "projectId": shop.project, "name": "Public", "oidc": {
        "redirectUris": ["https://shop.example/"], "authMethodType": "OIDC_AUTH_METHOD_TYPE_NONE" } });
    let public = done(&shop.admin, &format!("{API}/apps"), public).await.id();
    let user = &shop.user;
    let posted = [("token", &*token), ("client_id", id), ("client_secret", secret)];
    // 121: no authentication, and a public client; and whoever is no app.
    for (case, request) in [
        ("nobody", with(ask())),
        ("a wrong secret", with(ask().basic_auth(id, Some("wrong")))),
        ("no secret", with(ask().basic_auth(id, Some("")))),
        ("an unknown app", with(ask().basic_auth("0", Some(secret)))),
        ("an id that cannot be", with(ask().basic_auth("\u{0}", Some(secret)))),
        ("a public app", with(ask().basic_auth(&public, Some("")))),
        ("a public app that names itself", ask().form(&[("token", &*token), ("client_id", &public)])),
        ("a user", with(ask().basic_auth(&user.client_id, Some(&user.client_secret)))),
        ("the token itself", with(ask().bearer_auth(&token))),
        ("in the form, which is for the token endpoint", ask().form(&posted)),
    ] {
        assert_error(case, &send(request).await, 401, "invalid_client");
    }
    let known = || ask().basic_auth(id, Some(secret));
    for (case, request) in [
        ("no token", known().form(&[("a", "b")])),
        ("an empty token", known().form(&[("token", "")])),
        ("a token twice", known().form(&[("token", &token), ("token", &token)])),
        ("JSON", known().json(&json!({ "token": token }))),
    ] {
        assert_error(case, &send(request).await, 400, "invalid_request");
    }
    // 122: a hint changes nothing, whatever it says.
    for hint in ["refresh_token", "access_token", "magic"] {
        let answer = send(known().form(&[("token", &*token), ("token_type_hint", hint)])).await;
        assert_eq!(answer.body["active"], true, "{hint}: {}", answer.body);
    }
    let get = send(shop.admin.anonymous(Method::GET, INTROSPECT)).await;
    assert_eq!((get.status.as_u16(), &get.headers["allow"]), (405, &"POST".parse().unwrap()));

    // What the app stands on takes its voice away.
    for path in [format!("apps/{id}"), format!("projects/{}", shop.project)] {
        shop.change(Method::POST, &format!("{path}/_deactivate"), None).await;
        assert_error(&path, &send(with(known())).await, 401, "invalid_client");
        shop.change(Method::POST, &format!("{path}/_reactivate"), None).await;
        let is_back = async || (send(with(known())).await.status == 200).then_some(());
        eventually(&format!("{path} is on"), is_back).await;
    }
    // A token is dead that was issued before its project was switched off, and one from after is not.
    let told = async || shop.introspect(&shop.token("").await).await["active"].as_bool().filter(|&active| active);
    eventually("new tokens are active", told).await;
    assert_eq!(shop.introspect(&token).await, inactive());
}

#[tokio::test]
async fn a_token_without_an_audience_is_for_no_app() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let project = &tenant.bootstrap.project_id;
    let app = json!({ "projectId": project, "name": "Console", "api": {} });
    let app = done(&admin, &format!("{API}/apps"), app).await;
    let secret = app.body["clientSecret"].as_str().expect("it is shown").to_owned();
    let user = &tenant.bootstrap.service_user;
    for (scope, is_active) in [(SCOPE, true), ("openid", false)] {
        let form = [("grant_type", "client_credentials"), ("scope", scope)];
        let request = admin.anonymous(Method::POST, "/oauth/v2/token");
        let request = request.basic_auth(&user.client_id, Some(&user.client_secret)).form(&form);
        let token = send(request).await.body["access_token"].as_str().expect("there is one").to_owned();
        let request = admin.anonymous(Method::POST, INTROSPECT).basic_auth(app.id(), Some(&secret));
        let told = send(request.form(&[("token", &token)])).await;
        assert_eq!(told.body["active"], is_active, "{scope}: {}", told.body);
    }
}

#[tokio::test]
async fn only_what_is_right_in_every_claim_is_active() {
    let shop = Shop::open(json!({})).await;
    let secrets = Secrets::of(&shop.tenant).await;
    let [header, claims] = parts(&shop.token("").await);
    let kid = header["kid"].as_str().map(str::to_owned);
    let header = Header { typ: Some("at+jwt".into()), kid, ..Header::new(Algorithm::ES256) };
    let now = base::clock::now().as_second();
    let forged = |header: &Header, changes: Value| {
        let mut claims = claims.clone();
        claims.as_object_mut().expect("they are one").extend(changes.as_object().expect("they are one").clone());
        secrets.sign(header, &claims)
    };
    // What a target of the operator may have added replaces nothing that the platform says.
    let added = json!({ "tier": 3, "active": false, "username": "admin@acme.example", "token_type": "x" });
    let told = shop.introspect(&forged(&header, added)).await;
    assert_eq!((&told["active"], &told["tier"], &told["token_type"]), (&json!(true), &json!(3), &json!("Bearer")));
    assert!(told["username"].as_str().is_some_and(|name| name.starts_with("robot@")), "{told}");
    for (case, changes) in [
        ("expired", json!({ "exp": now - 1 })),
        ("not yet valid", json!({ "nbf": now + 30 })),
        ("issued later", json!({ "iat": now + 30 })),
        ("another issuer", json!({ "iss": "https://elsewhere.example" })),
        ("another audience", json!({ "aud": ["1"] })),
        ("an unknown user", json!({ "sub": "1" })),
    ] {
        assert_eq!(shop.introspect(&forged(&header, changes)).await, inactive(), "{case}");
    }
    let id_token = Header { typ: Some("JWT".into()), ..header.clone() };
    let other_key = Header { kid: Some("1".into()), ..header };
    for (case, header) in [("another type", id_token), ("another key", other_key)] {
        assert_eq!(shop.introspect(&forged(&header, json!({}))).await, inactive(), "{case}");
    }
}
