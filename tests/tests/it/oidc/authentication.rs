//! Client authentication, by a secret or by an assertion. The numbers are those of the cases of the design; case 95 is
//! about keys that apps publish themselves, which is not supported: no key is fetched.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::STANDARD};
use reqwest::Method;
use serde_json::json;
use tests::{
    client::{Answer, Client, created, done, post, send},
    clock::Clock,
    eventually,
    platform::Platform,
};

use super::{
    flow::API,
    shop::{Shop, user},
    signer::{self, BEARER, BY_ASSERTION, Signer},
    token::assert_error,
};

const TOKEN: &str = "/oauth/v2/token";
const FORM: [(&str, &str); 2] = [("grant_type", "client_credentials"), ("scope", "openid")];

/// Percent-encodes each byte of a text.
fn coded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}

#[tokio::test]
async fn a_header_is_read_as_the_rfc_says_and_answered_by_one() {
    let shop = Shop::open(json!({})).await;
    let (id, secret) = (&shop.user.client_id, &shop.user.client_secret);
    let ask = async |header: String| {
        let request = shop.admin.anonymous(Method::POST, TOKEN).header("authorization", header);
        send(request.form(&FORM)).await
    };
    let basic = |scheme: &str, user: &str| format!("{scheme} {}", STANDARD.encode(user));
    let right = format!("{id}:{secret}");
    for (case, header) in [
        ("86: as it is", basic("Basic", &right)),
        ("86: a scheme in small letters", basic("basic", &right)),
        ("86: a scheme in large letters", basic("BASIC", &right)),
        ("86: coded as in a form", basic("Basic", &format!("{}:{}", coded(id), coded(secret)))),
    ] {
        let answer = ask(header).await;
        assert_eq!(answer.status, 200, "{case}: {}", answer.body);
        assert_eq!(answer.body.get("refresh_token"), None, "101: {}", answer.body);
    }
    for (case, header) in [
        ("86: a colon behind the secret", basic("Basic", &format!("{right}:"))),
        ("86: a coded colon", basic("Basic", &coded(&right))),
        ("86: a space, coded as a plus", basic("Basic", &format!("{id}+:{secret}"))),
        ("86: half a code", basic("Basic", &format!("{id}%2:{secret}"))),
        ("86: a code of no text", basic("Basic", &format!("{id}%ff:{secret}"))),
        ("86: not whole", "Basic".to_owned()),
        ("86: nobody", basic("Basic", ":")),
        ("101: another secret", basic("Basic", &format!("{id}:{id}"))),
    ] {
        let answer = ask(header).await;
        assert_error(case, &answer, 401, "invalid_client");
        let told = answer.headers["www-authenticate"].to_str().expect("it is text");
        assert!(told.starts_with("Basic"), "91: {told}");
    }
    let wrong = [("client_id", id.as_str()), ("client_secret", "wrong")];
    let answer = send(shop.admin.anonymous(Method::POST, TOKEN).form(&[&FORM[..], &wrong].concat())).await;
    assert_error("91: in the form", &answer, 401, "invalid_client");
    // RFC 6749 asks for a challenge only where a header was sent, and HTTP with every 401 (RFC 9110, section 15.5.2).
    assert!(answer.headers.contains_key("www-authenticate"), "91");
}

#[tokio::test]
async fn who_gets_no_tokens_for_itself_is_told_so() {
    let shop = Shop::open(json!({})).await;
    let ask = async |id: &str, secret: Option<&str>| {
        send(shop.admin.anonymous(Method::POST, TOKEN).basic_auth(id, secret).form(&FORM)).await
    };
    let is_refused = |case: &str, answer: &Answer| {
        let error = answer.body["error"].as_str().unwrap_or_default().to_owned();
        let is_it = ["invalid_client", "unauthorized_client"].contains(&error.as_str());
        assert!(is_it && answer.body.get("access_token").is_none(), "{case}: {} {}", answer.status, answer.body);
    };
    is_refused("101: an app", &ask(&shop.app.0, Some(&shop.app.1)).await);
    let public = json!({ "projectId": shop.project, "name": "Public", "oidc": {
        "redirectUris": ["https://shop.example/"], "authMethodType": "OIDC_AUTH_METHOD_TYPE_NONE" } });
    let public = done(&shop.admin, &format!("{API}/apps"), public).await.id();
    for secret in [None, Some(""), Some("x")] {
        is_refused("89: an app without a secret", &ask(&public, secret).await);
    }
    let named = [("client_id", shop.app.0.as_str())];
    let posing = send(shop.admin.anonymous(Method::POST, TOKEN).form(&[&FORM[..], &named].concat())).await;
    is_refused("89: an app with a secret that shows none", &posing);
    let locked = user(&shop.admin, "locked", "").await;
    assert_eq!(ask(&locked.client_id, Some(&locked.client_secret)).await.status, 200);
    let lock = post(&shop.admin, &format!("{API}/users/{}/_lock", locked.user_id), json!({})).await;
    assert_eq!(lock.status, 200, "{}", lock.body);
    let refused = ask(&locked.client_id, Some(&locked.client_secret)).await;
    is_refused("101: a user that is locked, at once", &refused);
}

#[tokio::test]
async fn a_client_that_signs_does_so_once_and_does_nothing_else() {
    let shop = Shop::open(json!({})).await;
    let signer = Signer::new(&shop.tenant, &signer::user(&shop.tenant, "signs").await, "EC").await;
    let ask = async |more: &[(&str, &str)], header: Option<(&str, &str)>| {
        let request = shop.admin.anonymous(Method::POST, TOKEN).form(&[&FORM[..], more].concat());
        send(header.into_iter().fold(request, |request, (id, secret)| request.basic_auth(id, Some(secret)))).await
    };
    let (assertion, other) = (signer.assertion(), signer.assertion());
    let (id, kind, text) =
        (&*signer.holder, ("client_assertion_type", BY_ASSERTION), ("client_assertion", &*assertion));
    for (case, more, header) in [
        ("85: a header beside it", vec![kind, text], Some((id, "secret"))),
        ("85: a secret beside it", vec![kind, text, ("client_secret", "secret")], None),
        ("87: another client", vec![kind, text, ("client_id", &*shop.user.user_id)], None),
        ("94: no type", vec![text], None),
        ("94: no assertion", vec![kind], None),
        ("94: another type", vec![("client_assertion_type", BEARER), text], None),
        ("94: the type twice", vec![kind, kind, text], None),
        ("94: another type beside it", vec![kind, ("client_assertion_type", BEARER), text], None),
        ("94: two assertions", vec![kind, text, ("client_assertion", &*other)], None),
    ] {
        assert_error(case, &ask(&more, header).await, 400, "invalid_request");
    }
    // 101: whoever has keys only shows no secret, whichever.
    for secret in ["", "secret", &assertion] {
        assert_error("101", &ask(&[], Some((id, secret))).await, 401, "invalid_client");
        let form = [("client_id", id), ("client_secret", secret)];
        assert_error("101: in the form", &ask(&form, None).await, 401, "invalid_client");
    }
    let fresh = signer.assertion();
    let answer = ask(&[kind, ("client_assertion", &fresh), ("client_id", id)], None).await;
    assert_eq!((answer.status.as_u16(), answer.body.get("refresh_token")), (200, None), "101: {}", answer.body);
}

/// Introspects a token as an app with a secret.
async fn introspect(admin: &Client, app: &str, (secret, token): (&str, &str)) -> Answer {
    let request = admin.anonymous(Method::POST, "/oauth/v2/introspect").basic_auth(app, Some(secret));
    send(request.form(&[("token", token)])).await
}

/// 90
#[tokio::test]
async fn an_old_secret_of_an_app_counts_beside_the_new_one_until_its_time_is_over() {
    const HOUR: Duration = Duration::from_hours(1);
    let clock = Clock::new();
    let platform = Platform::start_with(&[], &[clock.environment()]).await;
    let admin = platform.client().await;
    let project = created(&admin, &format!("{API}/projects"), json!({ "name": "Shop" })).await.id();
    let app = json!({ "projectId": project, "name": "Checks", "api": {} });
    let made = done(&admin, &format!("{API}/apps"), app).await;
    let (app, path) = (made.id(), format!("{API}/apps/{}/_generate_secret", made.id()));
    let secret = |answer: &Answer| answer.body["clientSecret"].as_str().expect("it is shown").to_owned();
    let robot = user(&admin, "robot", "").await;
    let scope = format!("openid urn:platform:iam:org:project:id:{project}:aud");
    let asked = admin.anonymous(Method::POST, TOKEN).basic_auth(&robot.client_id, Some(&robot.client_secret));
    let given = send(asked.form(&[("grant_type", "client_credentials"), ("scope", &scope)])).await;
    let token = given.body["access_token"].as_str().expect("there is one");
    let counts = async |case: &str, secret: &str| {
        let answer = introspect(&admin, &app, (secret, token)).await;
        let (status, sub) = (answer.status.as_u16(), &answer.body["sub"]);
        assert_eq!((status, sub), (200, &json!(robot.user_id)), "{case}: {}", answer.body);
        assert_eq!(answer.body["active"], true, "{case}");
    };
    let ended = async |case: &str, secret: &str| {
        assert_error(case, &introspect(&admin, &app, (secret, token)).await, 401, "invalid_client");
    };

    let first = secret(&made);
    let kept = done(&admin, &format!("{path}?previousExpiration=3600s"), json!({})).await;
    assert!(kept.body["previousValidUntil"].is_string(), "{}", kept.body);
    let second = secret(&kept);
    for ahead in [Duration::ZERO, Duration::from_mins(58)] {
        clock.set_ahead(ahead);
        counts("the old one", &first).await;
        counts("the new one", &second).await;
        ended("another one", "another").await;
    }
    clock.set_ahead(HOUR);
    ended("the old one, when its time is over", &first).await;
    counts("the new one", &second).await;

    // Where nobody says for how long, it ends with the next one.
    let next = done(&admin, &path, json!({})).await;
    assert!(next.body["previousValidUntil"].is_null(), "{}", next.body);
    let is_over = async || (introspect(&admin, &app, (&second, token)).await.status == 401).then_some(());
    eventually("the one before ends", is_over).await;
    ended("and the first one too", &first).await;
    counts("the newest", &secret(&next)).await;
}
