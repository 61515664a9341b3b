//! Keys of service users and of apps, and which assertions are valid. The numbers are those of the cases of the design.

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use futures::future::join_all;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use reqwest::Method;
use serde_json::json;
use tests::{
    client::{SCOPE, created, done, send},
    endpoint::{Endpoint, Reply},
    eventually,
    tenant::{Tenant, instance_beside},
};

use super::{
    shop::{API, Shop},
    signer::{BEARER, BY_ASSERTION, FAR, Signer, ask, authenticated, exchanged, user},
    token::assert_error,
};

#[tokio::test]
async fn a_service_user_signs_for_its_tokens_with_keys_of_all_types() {
    let tenant = Tenant::start().await;
    let path = user(&tenant, "robot").await;
    for r#type in ["RSA", "EC", "ED25519"] {
        let signer = Signer::new(&tenant, &path, r#type).await;
        for granted in
            [exchanged(&tenant, &signer.assertion()).await, authenticated(&tenant, &signer.assertion()).await]
        {
            assert_eq!(granted.status, 200, "{type}: {}", granted.body);
            assert_eq!((&granted.body["token_type"], &granted.body["scope"]), (&json!("Bearer"), &json!(SCOPE)));
            assert_eq!(granted.body.get("refresh_token"), None, "101");
            let token = granted.body["access_token"].as_str().expect("there is one");
            let client = tenant.client().await.with(token.to_owned());
            // What everybody may read who belongs to the instance.
            let own = send(client.request(Method::GET, "/settings/v3alpha/languages")).await;
            assert_eq!(own.status, 200, "{}", own.body);
            let other =
                send(client.with(format!("{token}x")).request(Method::GET, "/settings/v3alpha/languages")).await;
            assert_eq!(other.status, 401, "a token is looked at");
        }
        // The public half, brought along, is as good.
        let public =
            send(tenant.client().await.request(Method::GET, &format!("{API}/{path}/keys/{}", signer.kid))).await;
        let wanted = json!({ "publicKey": public.body["key"]["publicKey"], "expirationDate": FAR });
        let brought = done(&tenant.client().await, &format!("{API}/{path}/keys"), wanted).await;
        assert_eq!(brought.body.get("privateKey"), None, "{}", brought.body);
        let brought = Signer { kid: brought.id(), ..signer };
        assert_eq!(exchanged(&tenant, &brought.assertion()).await.status, 200, "{type}");
    }
    // The user name is as good as the id.
    let named = Signer { holder: "robot".to_owned(), ..Signer::new(&tenant, &path, "EC").await.naming("robot") };
    assert_eq!(exchanged(&tenant, &named.assertion()).await.status, 200);
}

#[tokio::test]
async fn keys_sign_with_all_algorithms_of_their_type_or_with_the_one_that_they_name() {
    let tenant = Tenant::start().await;
    let path = user(&tenant, "robot").await;
    // A curve that the platform makes no keys of, and the other algorithms of RSA.
    let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).expect("it is made");
    let wanted = json!({ "publicKey": pair.public_key_pem(), "expirationDate": FAR });
    let brought = done(&tenant.client().await, &format!("{API}/{path}/keys"), wanted).await.id();
    let ec = Signer::new(&tenant, &path, "EC").await;
    let brought = Signer { kid: brought, pem: pair.serialize_pem(), algorithm: Algorithm::ES384, ..ec };
    assert_eq!(exchanged(&tenant, &brought.assertion()).await.status, 200);
    let rsa = Signer::new(&tenant, &path, "RSA").await;
    for algorithm in [Algorithm::RS512, Algorithm::PS256] {
        let other = Signer { algorithm, ..rsa.clone() };
        assert_eq!(exchanged(&tenant, &other.assertion()).await.status, 200, "{algorithm:?}");
    }
    // One that says what it signs with signs with nothing else.
    let mut pinned = rsa.public.clone();
    pinned["alg"] = "PS256".into();
    let wanted = json!({ "publicKey": pinned.to_string(), "expirationDate": FAR });
    let pinned = done(&tenant.client().await, &format!("{API}/{path}/keys"), wanted).await.id();
    for (algorithm, status) in [(Algorithm::PS256, 200), (Algorithm::RS256, 400)] {
        let signer = Signer { kid: pinned.clone(), algorithm, ..rsa.clone() };
        assert_eq!(exchanged(&tenant, &signer.assertion()).await.status, status, "{algorithm:?}");
    }
}

/// Returns assertions with a foreign key in their header, or its URL, which is never fetched.
pub(super) fn with_foreign_keys(signer: &Signer, of_other: &Signer, place: &str) -> Vec<(&'static str, String)> {
    let (good, kid) = (signer.claims().to_string(), &signer.kid);
    let pair = rcgen::KeyPair::from_pem(&of_other.pem).expect("it is a key");
    let certificate = rcgen::CertificateParams::default().self_signed(&pair).expect("it can be signed");
    let by_other = Signer { pem: of_other.pem.clone(), ..signer.clone() };
    let members = [
        ("jwk", of_other.public.clone()),
        ("jku", json!(place)),
        ("x5u", json!(place)),
        ("x5c", json!([STANDARD.encode(certificate.der())])),
    ];
    let all = members.into_iter().map(|(name, value)| {
        let mut header = json!({ "alg": "ES256", "kid": kid });
        header[name] = value;
        (name, by_other.signed_texts(&header.to_string(), &good))
    });
    all.collect()
}

/// Returns assertions that no valid key of their subject has signed, or with unsupported headers.
pub(super) fn unsigned(signer: &Signer, of_other: &Signer, rsa: &Signer) -> Vec<(&'static str, String)> {
    let (header, claims, kid) = (signer.header(), signer.claims(), &signer.kid);
    let good = claims.to_string();
    let none = [r#"{"alg":"none"}"#, good.as_str()].map(|part| URL_SAFE_NO_PAD.encode(part)).join(".") + ".";
    let symmetric = Header { alg: Algorithm::HS256, ..header.clone() };
    let by_secret = |secret: &[u8]| encode(&symmetric, &claims, &EncodingKey::from_secret(secret)).expect("it is made");
    let named = |kid: Option<&str>| signer.sign(&Header { kid: kid.map(str::to_owned), ..header.clone() }, &claims);
    let assertion = signer.assertion();
    let (message, signature) = assertion.rsplit_once('.').expect("it has parts");
    let (head, _) = message.split_once('.').expect("it has parts");
    vec![
        ("garbage", "garbage".to_owned()),
        ("two parts", "a.b".to_owned()),
        ("alg none", none),
        ("the public key as a secret", by_secret(signer.public.to_string().as_bytes())),
        ("its point as a secret", by_secret(&signer.point())),
        ("a signature of zeros", format!("{message}.{}", URL_SAFE_NO_PAD.encode([0; 64]))),
        ("a payload that is elsewhere", format!("{head}..{signature}")),
        ("an empty payload", signer.signed_texts(&format!(r#"{{"alg":"ES256","kid":"{kid}"}}"#), "")),
        ("the algorithm of another curve", signer.signed_texts(&format!(r#"{{"alg":"ES384","kid":"{kid}"}}"#), &good)),
        ("an unknown key", named(Some("1"))),
        ("no kid", named(None)),
        ("a kid that is SQL", named(Some("' or 1=1 --\0"))),
        ("the key of another", Signer { kid: of_other.kid.clone(), ..signer.clone() }.assertion()),
        ("signed by another", Signer { pem: of_other.pem.clone(), ..signer.clone() }.assertion()),
        (
            "for another",
            Signer { holder: of_other.holder.clone(), subject: of_other.subject.clone(), ..signer.clone() }.assertion(),
        ),
        ("the algorithm of another type", Signer { kid: kid.clone(), ..rsa.clone() }.assertion()),
        ("an access token", signer.sign(&Header { typ: Some("at+jwt".into()), ..header.clone() }, &claims)),
        (
            "a JWT within a JWT",
            signer.signed_texts(&format!(r#"{{"alg":"ES256","kid":"{kid}","cty":"JWT"}}"#), &assertion),
        ),
        (
            "critical",
            signer.signed_texts(&format!(r#"{{"alg":"ES256","kid":"{kid}","crit":["b64"],"b64":true}}"#), &good),
        ),
        ("no object", signer.signed_texts(&format!(r#"["ES256","{kid}",null,null]"#), &good)),
        (
            "not encoded",
            signer.signed_texts(&format!(r#"{{"alg":"ES256","kid":"{kid}","b64":false,"crit":["b64"]}}"#), &good),
        ),
        (
            "a member twice",
            signer.signed_texts(&format!(r#"{{"alg":"ES256","kid":"{kid}"}}"#), &good.replacen('{', r#"{"exp":1,"#, 1)),
        ),
    ]
}

/// Returns assertions with valid signatures and wrong claims.
pub(super) fn claiming_wrongly(signer: &Signer, other: &str) -> Vec<(&'static str, String)> {
    let now = base::clock::now().as_second();
    let endpoint = format!("{}/oauth/v2/token", signer.issuer);
    vec![
        ("another user", signer.with(&json!({ "sub": "1" }))),
        ("another issuer", signer.with(&json!({ "iss": other }))),
        ("no issuer", signer.with(&json!({ "iss": null }))),
        ("no subject", signer.with(&json!({ "sub": null }))),
        ("no audience", signer.with(&json!({ "aud": null }))),
        ("the token endpoint", signer.with(&json!({ "aud": endpoint }))),
        ("a list", signer.with(&json!({ "aud": [signer.issuer] }))),
        ("another audience", signer.with(&json!({ "aud": format!("{}/", signer.issuer) }))),
        ("no end", signer.with(&json!({ "exp": null }))),
        ("an end that has been", signer.with(&json!({ "exp": now - 1 }))),
        ("an end far away", signer.with(&json!({ "exp": now + 3700 }))),
        ("an end with a fraction", signer.with(&json!({ "exp": f64::from(i32::MAX) + 0.5 }))),
        ("an end that is text", signer.with(&json!({ "exp": (now + 60).to_string() }))),
        ("of the future", signer.with(&json!({ "iat": now + 90 }))),
        ("not yet", signer.with(&json!({ "nbf": now + 90 }))),
        ("old", signer.with(&json!({ "iat": now - 3700 }))),
        ("very long", signer.with(&json!({ "more": "x".repeat(8192) }))),
    ]
}

#[tokio::test]
async fn an_assertion_that_is_not_right_in_everything_gets_nothing() {
    let tenant = Tenant::start().await;
    let (path, other) = (user(&tenant, "robot").await, user(&tenant, "other").await);
    let (signer, rsa) = (Signer::new(&tenant, &path, "EC").await, Signer::new(&tenant, &path, "RSA").await);
    let of_other = Signer::new(&tenant, &other, "EC").await;
    // 93, 97, 98, and what is said of the classes S6.
    let elsewhere = Endpoint::replying(Reply::json(&json!({ "keys": [of_other.public] }))).await;
    let wrong = [
        unsigned(&signer, &of_other, &rsa),
        with_foreign_keys(&signer, &of_other, &elsewhere.url),
        claiming_wrongly(&signer, &of_other.holder),
    ];
    for (case, assertion) in &wrong.concat() {
        assert_error(case, &exchanged(&tenant, assertion).await, 400, "invalid_grant");
        assert_error(case, &authenticated(&tenant, assertion).await, 401, "invalid_client");
    }
    assert!(elsewhere.take().is_empty(), "S6, 95: nobody asks for keys where an assertion says");
    // 99: scopes are as with secrets.
    let form = [("grant_type", BEARER), ("assertion", &signer.assertion())];
    assert_error("no scope", &ask(&tenant, "/oauth/v2/token", &form).await, 400, "invalid_scope");
    assert_error("nothing", &ask(&tenant, "/oauth/v2/token", &form[..1]).await, 400, "invalid_request");
}

#[tokio::test]
async fn an_assertion_is_for_one_use_and_clocks_may_differ_a_little() {
    let tenant = Tenant::start().await;
    let signer = Signer::new(&tenant, &user(&tenant, "robot").await, "EC").await;
    // 102: what clients authenticate with has an id.
    let without = signer.with(&json!({ "jti": null }));
    assert_error("no jti", &authenticated(&tenant, &without).await, 401, "invalid_client");
    assert_eq!(exchanged(&tenant, &without).await.status, 200);
    // 93
    let now = base::clock::now().as_second();
    for right in [json!({ "iat": now + 8 }), json!({ "iat": null, "nbf": now + 8 }), json!({ "iat": null })] {
        assert_eq!(exchanged(&tenant, &signer.with(&right)).await.status, 200, "{right}");
    }
    for (typ, is_client) in [("client-authentication+jwt", true), ("authorization-grant+jwt", false)] {
        let header = Header { typ: Some(typ.to_owned()), ..signer.header() };
        let assertion = || signer.sign(&header, &signer.claims());
        assert_eq!(authenticated(&tenant, &assertion()).await.status == 200, is_client, "{typ}");
        assert_eq!(exchanged(&tenant, &assertion()).await.status == 200, !is_client, "{typ}");
    }
}

#[tokio::test]
async fn an_assertion_is_used_once_however_many_try_at_once() {
    let tenant = Tenant::start().await;
    let signer = Signer::new(&tenant, &user(&tenant, "robot").await, "ED25519").await;
    let (one, two) = (signer.assertion(), signer.assertion());
    let all = join_all((0..32).map(|_| exchanged(&tenant, &one))).await;
    assert_eq!(all.iter().filter(|answer| answer.status == 200).count(), 1, "{all:?}");
    assert!(all.iter().filter(|answer| answer.status != 200).all(|answer| answer.body["error"] == "invalid_grant"));
    let all = join_all((0..32).map(|_| authenticated(&tenant, &two))).await;
    assert_eq!(all.iter().filter(|answer| answer.status == 200).count(), 1, "{all:?}");
    assert_error("used as the other", &exchanged(&tenant, &two).await, 400, "invalid_grant");
}

#[tokio::test]
async fn a_key_counts_as_long_as_all_that_it_stands_on() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let change = async |method: Method, path: &str| {
        let answer = send(admin.request(method, &format!("{API}/{path}"))).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    };
    let refused = async |case: &str, signer: &Signer| {
        assert_error(case, &exchanged(&tenant, &signer.assertion()).await, 400, "invalid_grant");
        assert_error(case, &authenticated(&tenant, &signer.assertion()).await, 401, "invalid_client");
    };
    let path = user(&tenant, "robot").await;
    let deleted = Signer::new(&tenant, &path, "EC").await;
    let signer = Signer::new(&tenant, &path, "EC").await;
    for signer in [&deleted, &signer] {
        assert_eq!(exchanged(&tenant, &signer.assertion()).await.status, 200);
    }
    // 96, at once and on every node: nobody waits for a read model.
    change(Method::DELETE, &format!("{path}/keys/{}", deleted.kid)).await;
    refused("a deleted key", &deleted).await;
    assert_eq!(exchanged(&tenant, &signer.assertion()).await.status, 200, "the other one still counts");
    change(Method::POST, &format!("{path}/_deactivate")).await;
    refused("a user that is off", &signer).await;
    change(Method::POST, &format!("{path}/_reactivate")).await;
    eventually("it is on again", async || (exchanged(&tenant, &signer.assertion()).await.status == 200).then_some(()))
        .await;
    change(Method::POST, &format!("{path}/_lock")).await;
    refused("a locked user", &signer).await;
    change(Method::POST, &format!("{path}/_unlock")).await;
    change(Method::DELETE, &path).await;
    refused("a deleted user", &signer).await;
    let read = async || send(admin.request(Method::GET, &format!("{API}/{path}/keys/{}", signer.kid))).await;
    eventually("its keys go with it", async || (read().await.status == 404).then_some(())).await;

    let other = user(&tenant, "other").await;
    let ends = base::clock::now() + jiff::SignedDuration::from_secs(2);
    let wanted = json!({ "keyType": "KEY_TYPE_EC", "expirationDate": ends.to_string() });
    let expiring = Signer::of(&tenant, &other, wanted).await;
    eventually("a key that has expired", async || {
        (exchanged(&tenant, &expiring.assertion()).await.body["error"] == "invalid_grant").then_some(())
    })
    .await;
    assert!(base::clock::now() >= ends, "it counted until then");

    // Of another tenant: neither the user nor its key is there, whatever the audience.
    let elsewhere = instance_beside(&tenant).await;
    let signer = Signer::new(&tenant, &other, "EC").await;
    let there = Signer { issuer: elsewhere.bootstrap.issuer.clone(), ..signer.clone() };
    for signer in [&signer, &there] {
        let answer = exchanged(&elsewhere, &signer.assertion()).await;
        assert_error("another tenant", &answer, 400, "invalid_grant");
    }
    assert_error("the audience of another tenant", &exchanged(&tenant, &there.assertion()).await, 400, "invalid_grant");
}

#[tokio::test]
async fn an_app_that_signs_is_told_of_tokens_and_none_that_is_set_up_otherwise() {
    let shop = Shop::open(json!({})).await;
    let tenant = &shop.tenant;
    let token = shop.token("").await;
    let introspect = async |assertion: &str, more: &[(&str, &str)]| {
        let form =
            [("token", token.as_str()), ("client_assertion_type", BY_ASSERTION), ("client_assertion", assertion)];
        ask(tenant, "/oauth/v2/introspect", &[&form[..], more].concat()).await
    };
    let by_key = json!({ "authMethodType": "API_AUTH_METHOD_TYPE_PRIVATE_KEY_JWT" });
    let app = json!({ "projectId": shop.project, "name": "Signs", "api": by_key });
    let app = created(&shop.admin, &format!("{API}/apps"), app).await;
    assert_eq!(app.body.get("clientSecret"), None, "{}", app.body);
    let signer = Signer::new(tenant, &format!("apps/{}", app.id()), "ED25519").await;
    let told = introspect(&signer.assertion(), &[]).await;
    assert_eq!((told.status.as_u16(), &told.body["active"]), (200, &json!(true)), "{}", told.body);
    assert_eq!(introspect(&signer.assertion(), &[("client_id", &app.id())]).await.status, 200);

    // 85, 87, 94: one way, one client, one type.
    let another = introspect(&signer.assertion(), &[("client_id", "1")]).await;
    assert_error("another client_id", &another, 400, "invalid_request");
    let both = introspect(&signer.assertion(), &[("client_secret", "secret")]).await;
    assert_error("a secret beside it", &both, 400, "invalid_request");
    let form = [("token", token.as_str()), ("client_assertion_type", BY_ASSERTION)];
    assert_error("no assertion", &ask(tenant, "/oauth/v2/introspect", &form).await, 400, "invalid_request");
    let assertion = signer.assertion();
    for (case, kind) in [("no type", ""), ("another type", "urn:ietf:params:oauth:client-assertion-type:saml2-bearer")]
    {
        let form = [("token", token.as_str()), ("client_assertion", &assertion), ("client_assertion_type", kind)];
        assert_error(case, &ask(tenant, "/oauth/v2/introspect", &form).await, 400, "invalid_request");
    }
    let basic = shop.admin.anonymous(Method::POST, "/oauth/v2/introspect");
    let basic = basic.basic_auth(&shop.app.0, Some(&shop.app.1));
    let form =
        [("token", &token), ("client_assertion", &assertion), ("client_assertion_type", &BY_ASSERTION.to_owned())];
    assert_error("a header beside it", &send(basic.form(&form)).await, 400, "invalid_request");

    // 88: an app has one way to authenticate; and a key of an app is none of a user.
    let with_secret = Signer::new(tenant, &format!("apps/{}", shop.app.0), "ED25519").await;
    assert_error("a key beside a secret", &introspect(&with_secret.assertion(), &[]).await, 401, "invalid_client");
    assert_error("an app is no user", &exchanged(tenant, &signer.assertion()).await, 400, "invalid_grant");
    assert_error(
        "nor a client that gets tokens",
        &authenticated(tenant, &signer.assertion()).await,
        401,
        "invalid_client",
    );
    let of_user = Signer::new(tenant, &format!("users/{}", shop.user.user_id), "ED25519").await;
    assert_error("a user is no app", &introspect(&of_user.assertion(), &[]).await, 401, "invalid_client");
    shop.change(Method::POST, &format!("projects/{}/_deactivate", shop.project), None).await;
    assert_error("its project is off", &introspect(&signer.assertion(), &[]).await, 401, "invalid_client");
    shop.change(Method::POST, &format!("projects/{}/_reactivate", shop.project), None).await;
    shop.change(Method::POST, &format!("apps/{}/_deactivate", app.id()), None).await;
    assert_error("an app that is off", &introspect(&signer.assertion(), &[]).await, 401, "invalid_client");
}

#[tokio::test]
async fn the_token_endpoint_is_an_audience_where_that_is_allowed() {
    let tenant = Tenant::start().await;
    let path = user(&tenant, "robot").await;
    let signer = Signer::new(&tenant, &path, "EC").await;
    let for_endpoint = || signer.with(&json!({ "aud": format!("{}/oauth/v2/token", signer.issuer) }));
    assert_error("not allowed", &exchanged(&tenant, &for_endpoint()).await, 400, "invalid_grant");
    let allowed = json!({ "service": { "allowTokenEndpointAudience": true } });
    let admin = tenant.client().await;
    let patched = send(admin.request(Method::PATCH, &format!("{API}/{path}")).json(&allowed)).await;
    assert_eq!(patched.status, 200, "{}", patched.body);
    eventually("it is allowed", async || (exchanged(&tenant, &for_endpoint()).await.status == 200).then_some(())).await;
    assert_eq!(authenticated(&tenant, &for_endpoint()).await.status, 200);
    assert_eq!(exchanged(&tenant, &signer.assertion()).await.status, 200, "the issuer still is one");
    let header = admin.anonymous(Method::POST, "/oauth/v2/token").basic_auth("robot", Some("secret"));
    let form = [("grant_type", BEARER), ("scope", SCOPE), ("assertion", &signer.assertion())];
    assert_error("two ways", &send(header.form(&form)).await, 400, "invalid_request");
    let other = [&form[..], &[("client_id", "1")]].concat();
    assert_error("another client", &ask(&tenant, "/oauth/v2/token", &other).await, 400, "invalid_request");
}
