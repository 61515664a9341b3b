//! Keys of service users and of apps: what is signed with them, and what of it counts. The numbers are those of the cases that the
//! design lists.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use futures::future::join_all;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use reqwest::Method;
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, SCOPE, created, done, send},
    eventually,
    instance::Instance,
    tenant::{Tenant, instance_beside, new_name},
};

use super::{
    shop::{API, Shop},
    token::assert_error,
};

const BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const BY_ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
const FAR: &str = "2099-01-01T00:00:00Z";

/// Somebody who signs.
#[derive(Clone)]
struct Signer {
    issuer: String,
    /// The app or the user.
    holder: String,
    /// The id of the key, and its private half in PEM.
    kid: String,
    pem: String,
    algorithm: Algorithm,
}

impl Signer {
    /// A new key of what is at a path of the API, such as `users/1`.
    async fn new(tenant: &Tenant, path: &str, r#type: &str) -> Self {
        let wanted = json!({ "keyType": format!("KEY_TYPE_{type}"), "expirationDate": FAR });
        Self::of(tenant, path, wanted).await
    }

    async fn of(tenant: &Tenant, path: &str, wanted: Value) -> Self {
        let made = done(&tenant.client().await, &format!("{API}/{path}/keys"), wanted).await;
        let pem = made.body["privateKey"]["pem"].as_str().unwrap_or_else(|| panic!("it is shown: {}", made.body));
        let jwk: Value = made.body["privateKey"]["jwk"]
            .as_str()
            .and_then(|jwk| serde_json::from_str(jwk).ok())
            .expect("it is shown");
        assert_eq!(jwk["kid"], json!(made.id()));
        let algorithm = match jwk["kty"].as_str() {
            Some("RSA") => Algorithm::RS256,
            Some("EC") => Algorithm::ES256,
            _ => Algorithm::EdDSA,
        };
        let holder = path.rsplit('/').next().expect("it has an id").to_owned();
        let issuer = tenant.bootstrap.issuer.clone();
        Self { issuer, holder, kid: made.id(), pem: pem.to_owned(), algorithm }
    }

    fn key(&self) -> EncodingKey {
        let pem = self.pem.as_bytes();
        match self.algorithm {
            Algorithm::ES256 => EncodingKey::from_ec_pem(pem),
            Algorithm::EdDSA => EncodingKey::from_ed_pem(pem),
            _ => EncodingKey::from_rsa_pem(pem),
        }
        .expect("it is a key")
    }

    fn header(&self) -> Header {
        Header { kid: Some(self.kid.clone()), ..Header::new(self.algorithm) }
    }

    fn claims(&self) -> Value {
        let now = base::clock::now().as_second();
        let (holder, jti) = (&self.holder, new_name());
        json!({ "iss": holder, "sub": holder, "aud": self.issuer, "iat": now, "exp": now + 60, "jti": jti })
    }

    fn sign(&self, header: &Header, claims: &Value) -> String {
        encode(header, claims, &self.key()).expect("it can be signed")
    }

    /// An assertion that is right.
    fn assertion(&self) -> String {
        self.sign(&self.header(), &self.claims())
    }

    /// One that differs in some claims; those that are null are left out.
    fn with(&self, claims: &Value) -> String {
        let mut all = self.claims();
        let members = all.as_object_mut().expect("it is one");
        for (name, value) in claims.as_object().expect("it is one") {
            if value.is_null() {
                members.remove(name)
            } else {
                members.insert(name.clone(), value.clone())
            };
        }
        self.sign(&self.header(), &all)
    }

    /// One with a header and claims of these texts.
    fn signed_texts(&self, header: &str, claims: &str) -> String {
        let message = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part)).join(".");
        let signature = jsonwebtoken::crypto::sign(message.as_bytes(), &self.key(), self.algorithm);
        format!("{message}.{}", signature.expect("it can be signed"))
    }
}

async fn ask(instance: &Instance, path: &str, form: &[(&str, &str)]) -> Answer {
    let client = Client::with_token(&instance.bootstrap.issuer, String::new());
    send(client.anonymous(Method::POST, path).form(form)).await
}

/// The answer to who exchanges an assertion for a token.
async fn exchanged(instance: &Instance, assertion: &str) -> Answer {
    ask(instance, "/oauth/v2/token", &[("grant_type", BEARER), ("scope", SCOPE), ("assertion", assertion)]).await
}

/// The answer to who authenticates with one.
async fn authenticated(instance: &Instance, assertion: &str) -> Answer {
    let form = [("grant_type", "client_credentials"), ("scope", SCOPE), ("client_assertion_type", BY_ASSERTION)];
    ask(instance, "/oauth/v2/token", &[&form[..], &[("client_assertion", assertion)]].concat()).await
}

/// The path of a new service user without a secret.
async fn user(tenant: &Tenant, name: &str) -> String {
    let user = json!({ "username": name, "service": {} });
    format!("users/{}", done(&tenant.client().await, &format!("{API}/users"), user).await.id())
}

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
            let own = send(client.request(Method::POST, "/resources/v3alpha/memberships/_search_mine")).await;
            assert_ne!(own.status, 401, "{}", own.body);
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
    let named = Signer { holder: "robot".to_owned(), ..Signer::new(&tenant, &path, "EC").await };
    assert_eq!(exchanged(&tenant, &named.assertion()).await.status, 200);
}

#[tokio::test]
async fn an_assertion_that_is_not_right_in_everything_gets_nothing() {
    let tenant = Tenant::start().await;
    let (path, other) = (user(&tenant, "robot").await, user(&tenant, "other").await);
    let signer = Signer::new(&tenant, &path, "EC").await;
    let rsa = Signer::new(&tenant, &path, "RSA").await;
    let of_other = Signer::new(&tenant, &other, "EC").await;
    let now = base::clock::now().as_second();
    let (header, claims) = (signer.header(), signer.claims());
    let good = serde_json::to_string(&claims).expect("it is JSON");
    let alg = |header: Header, alg| Header { alg, ..header };
    let endpoint = format!("{}/oauth/v2/token", signer.issuer);
    let unsigned = [r#"{"alg":"none"}"#, good.as_str()].map(|part| URL_SAFE_NO_PAD.encode(part)).join(".") + ".";
    let by_secret = encode(&alg(header.clone(), Algorithm::HS256), &claims, &EncodingKey::from_secret(b"-----BEGIN"));
    let kid = &signer.kid;
    // 93, 97, 98, and what is said of the classes S6.
    let wrong = [
        ("garbage", "garbage".to_owned()),
        ("two parts", "a.b".to_owned()),
        ("alg none", unsigned),
        ("a secret", by_secret.expect("it can be signed")),
        ("an unknown key", signer.sign(&Header { kid: Some("1".into()), ..header.clone() }, &claims)),
        ("no kid", signer.sign(&Header { kid: None, ..header.clone() }, &claims)),
        ("a kid that is SQL", signer.sign(&Header { kid: Some("' or 1=1 --\0".into()), ..header.clone() }, &claims)),
        ("the key of another", Signer { kid: of_other.kid.clone(), ..signer.clone() }.assertion()),
        ("signed by another", Signer { pem: of_other.pem.clone(), ..signer.clone() }.assertion()),
        ("for another", Signer { holder: of_other.holder.clone(), ..signer.clone() }.assertion()),
        ("the algorithm of another type", Signer { kid: signer.kid.clone(), ..rsa.clone() }.assertion()),
        ("another user", signer.with(&json!({ "sub": "1" }))),
        ("another issuer", signer.with(&json!({ "iss": of_other.holder }))),
        ("no issuer", signer.with(&json!({ "iss": null }))),
        ("no subject", signer.with(&json!({ "sub": null }))),
        ("no audience", signer.with(&json!({ "aud": null }))),
        ("the token endpoint", signer.with(&json!({ "aud": endpoint }))),
        ("a list", signer.with(&json!({ "aud": [signer.issuer] }))),
        ("another audience", signer.with(&json!({ "aud": format!("{}/", signer.issuer) }))),
        ("no end", signer.with(&json!({ "exp": null }))),
        ("an end that has been", signer.with(&json!({ "exp": now - 1 }))),
        ("an end far away", signer.with(&json!({ "exp": now + 3700 }))),
        ("an end with a fraction", signer.with(&json!({ "exp": (f64::from(i32::MAX)) + 0.5 }))),
        ("an end that is text", signer.with(&json!({ "exp": (now + 60).to_string() }))),
        ("of the future", signer.with(&json!({ "iat": now + 90 }))),
        ("not yet", signer.with(&json!({ "nbf": now + 90 }))),
        ("old", signer.with(&json!({ "iat": now - 3700 }))),
        ("an access token", signer.sign(&Header { typ: Some("at+jwt".into()), ..header.clone() }, &claims)),
        (
            "critical",
            signer.signed_texts(&format!(r#"{{"alg":"ES256","kid":"{kid}","crit":["b64"],"b64":true}}"#), &good),
        ),
        ("no object", signer.signed_texts("[]", &good)),
        (
            "a member twice",
            signer.signed_texts(&format!(r#"{{"alg":"ES256","kid":"{kid}"}}"#), &good.replacen('{', r#"{"exp":1,"#, 1)),
        ),
        ("very long", signer.with(&json!({ "more": "x".repeat(8192) }))),
    ];
    for (case, assertion) in &wrong {
        assert_error(case, &exchanged(&tenant, assertion).await, 400, "invalid_grant");
        assert_error(case, &authenticated(&tenant, assertion).await, 401, "invalid_client");
    }
    let zeros = signer.assertion();
    let zeros = format!("{}.{}", zeros.rsplit_once('.').expect("it has parts").0, URL_SAFE_NO_PAD.encode([0; 64]));
    assert_error("a signature of zeros", &exchanged(&tenant, &zeros).await, 400, "invalid_grant");
    // 102: what clients authenticate with has an id.
    let without = signer.with(&json!({ "jti": null }));
    assert_error("no jti", &authenticated(&tenant, &without).await, 401, "invalid_client");
    assert_eq!(exchanged(&tenant, &without).await.status, 200);
    // 93: clocks differ a little.
    for right in [json!({ "iat": now + 8 }), json!({ "iat": null, "nbf": now + 8 }), json!({ "iat": null })] {
        assert_eq!(exchanged(&tenant, &signer.with(&right)).await.status, 200, "{right}");
    }
    for (typ, is_client) in [("client-authentication+jwt", true), ("authorization-grant+jwt", false)] {
        let assertion =
            |typ: &str| signer.sign(&Header { typ: Some(typ.to_owned()), ..header.clone() }, &signer.claims());
        assert_eq!(authenticated(&tenant, &assertion(typ)).await.status == 200, is_client, "{typ}");
        assert_eq!(exchanged(&tenant, &assertion(typ)).await.status == 200, !is_client, "{typ}");
    }
    // 99: scopes are as with secrets.
    let form = [("grant_type", BEARER), ("assertion", &signer.assertion())];
    assert_error("no scope", &ask(&tenant, "/oauth/v2/token", &form).await, 400, "invalid_scope");
    assert_error("nothing", &ask(&tenant, "/oauth/v2/token", &form[..1]).await, 400, "invalid_request");
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
