//! The authorization endpoint: what an app may request, and who gets which error. The numbers are those of the cases of
//! the design.

use futures::future::join_all;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::client::{Answer, created, done, send};

use super::{
    flow::{API, App, CALLBACK, Flow, answered, location, parameters},
    token::parts,
};

fn assert_shown(case: &str, answer: &Answer) {
    assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{case}: {answer:?}");
    assert!(answer.headers.get("location").is_none(), "{case}: it leads nowhere");
    assert_eq!(answer.headers["content-type"], "text/html; charset=utf-8", "{case}");
    assert_eq!(answer.headers["cache-control"], "no-store", "{case}");
    assert_eq!(answer.headers["x-frame-options"], "DENY", "{case}");
    let policy = answer.headers["content-security-policy"].to_str().expect("it is text");
    assert!(policy.contains("frame-ancestors 'none'"), "{case}: {policy}");
}

/// Fails unless the app gets an error, with its state and the issuer.
fn assert_told(flow: &Flow, case: &str, answer: &Answer, error: &str) {
    let url = location(answer);
    assert!(url.starts_with(CALLBACK), "{case}: {url}");
    let told = answered(&url);
    assert_eq!(told.get("error").map(String::as_str), Some(error), "{case}: {told:?}");
    assert_eq!(told.get("state").map(String::as_str), Some("a b&c"), "{case}");
    assert_eq!(told.get("iss"), Some(&flow.tenant.bootstrap.issuer), "{case}");
    assert!(told.contains_key("error_description") && !told.contains_key("code"), "{case}: {told:?}");
}

#[tokio::test]
async fn what_is_wrong_with_a_request_the_app_is_told() {
    let flow = Flow::start().await;
    let (short, long, odd) = ("a".repeat(42), "a".repeat(129), format!("{}=", "a".repeat(43)));
    let nonce = "n".repeat(513);
    let scopes = format!("openid urn:platform:iam:org:project:role:{}", "a".repeat(6000));
    let invalid = "invalid_request";
    for (case, others, error) in [
        ("1: no response type", vec![("response_type", "")], invalid),
        ("2: an unknown one", vec![("response_type", "token")], "unsupported_response_type"),
        ("4: one that it may not have", vec![("response_type", "token id_token")], "unauthorized_client"),
        ("16: no scope", vec![("scope", "")], "invalid_scope"),
        ("16: scope without openid", vec![("scope", "profile")], "invalid_scope"),
        ("18: control characters", vec![("scope", "openid a\u{7f}")], "invalid_scope"),
        ("22: a long nonce", vec![("nonce", &nonce)], invalid),
        ("23: a challenge without method", vec![("code_challenge_method", "")], invalid),
        ("24: plain", vec![("code_challenge_method", "plain")], invalid),
        ("25: too short", vec![("code_challenge", &short)], invalid),
        ("25: too long", vec![("code_challenge", &long)], invalid),
        ("25: another character", vec![("code_challenge", &odd)], invalid),
        ("26: a method without challenge", vec![("code_challenge", "")], invalid),
        ("27: public without challenge", vec![("code_challenge", ""), ("code_challenge_method", "")], invalid),
        ("28: none and something else", vec![("prompt", "none login")], invalid),
        ("29: an unknown prompt", vec![("prompt", "nicely")], invalid),
        ("30: nobody is logged in", vec![("prompt", "none")], "login_required"),
        ("34: no number", vec![("max_age", "NaN")], invalid),
        ("34: negative", vec![("max_age", "-1")], invalid),
        ("34: too large", vec![("max_age", "99999999999")], invalid),
        ("35: a hint that is none", vec![("id_token_hint", "a.b.c")], invalid),
        ("39: claims", vec![("claims", "[1")], invalid),
        ("40: an object", vec![("request", "a.b.c")], "invalid_request_object"),
        ("40: a reference", vec![("request_uri", "https://a.example")], "request_uri_not_supported"),
        ("registration", vec![("registration", "{}")], "registration_not_supported"),
        ("42: an unknown mode", vec![("response_mode", "pigeon")], invalid),
        ("51: by domain", vec![("scope", "openid urn:platform:iam:org:domain:primary:a.example")], "invalid_scope"),
        ("long scopes", vec![("scope", &scopes)], invalid),
        (
            "two organizations",
            vec![("scope", "openid urn:platform:iam:org:id:1 urn:platform:iam:org:id:2")],
            "invalid_scope",
        ),
    ] {
        assert_told(&flow, case, &flow.sent(&flow.authorize_parameters(&others)).await, error);
    }
    let without = App::create(&flow.admin, &flow.project, json!({ "loginUri": "" })).await;
    let own = location(&flow.sent(&flow.authorize_parameters(&[("client_id", &without.id)])).await);
    assert!(own.starts_with(&format!("{}/ui/login?authRequest=", flow.tenant.bootstrap.issuer)), "our own: {own}");
    let long = "s".repeat(2049);
    let told = answered(&location(&flow.sent(&flow.authorize_parameters(&[("state", &long)])).await));
    assert_eq!((told["error"].as_str(), told.get("state")), (invalid, None), "a long state does not come back");
    let stateless = answered(&location(&flow.sent(&flow.authorize_parameters(&[("state", ""), ("scope", "")])).await));
    assert_eq!(stateless.get("state"), None, "20");
    let url = location(&flow.sent(&flow.authorize_parameters(&[("response_mode", "fragment"), ("scope", "")])).await);
    assert!(url.starts_with(&format!("{CALLBACK}#error=invalid_scope")), "44: {url}");
}

#[tokio::test]
async fn what_is_right_is_taken_whatever_else_is_sent() {
    let flow = Flow::start().await;
    for (case, others) in [
        ("7: empty is omitted", vec![("max_age", "")]),
        ("17: unknown scopes", vec![("scope", "openid coffee offline_access")]),
        ("38: acr", vec![("acr_values", "1 2")]),
        ("39: claims", vec![("claims", r#"{"userinfo":{"name":{"essential":true}}}"#)]),
        ("unknown parameters", vec![("extra", "1"), ("display", "popup"), ("claims_locales", "se")]),
        ("34: a large age", vec![("max_age", "10000")]),
    ] {
        assert!(!flow.waiting(&others).await.is_empty(), "{case}");
    }
    let state = "ü+%/".repeat(400);
    let hints =
        [("login_hint", "buffy+1@id.example"), ("ui_locales", "se  de"), ("prompt", "login create"), ("max_age", "60")];
    let request = flow.waiting(&[&hints[..], &[("state", &state), ("scope", "openid coffee profile")]].concat()).await;
    let path = format!("{API}/auth_requests/{request}");
    let read = send(flow.admin.request(Method::GET, &path)).await;
    let shown = &read.body["authRequest"];
    for (member, value) in [
        ("id", json!(request)),
        ("clientId", json!(flow.app.id)),
        ("appName", json!("Shop")),
        ("projectId", json!(flow.project)),
        ("redirectUri", json!(CALLBACK)),
        ("scopes", json!(["openid", "profile"])),
        ("prompts", json!(["login", "create"])),
        ("uiLocales", json!(["se", "de"])),
        ("loginHint", json!("buffy+1@id.example")),
        ("maxAge", json!("60s")),
        ("hintUserId", Value::Null),
    ] {
        assert_eq!(shown[member], value, "{member}: {}", read.body);
    }
    let (_, token) = flow.session().await;
    let answer = flow.finished(&request, &token).await;
    assert_eq!(answered(answer.body["callbackUrl"].as_str().unwrap())["state"], state, "19: it comes back as it was");
    send(flow.admin.request(Method::GET, &path)).await.assert_refused("48: finished", 404, "RESOURCE_NOT_FOUND");
    flow.finished(&request, &token).await.assert_refused("48: finished", 404, "RESOURCE_NOT_FOUND");
}

#[tokio::test]
async fn a_person_is_shown_what_no_app_can_be_told() {
    let flow = Flow::start().await;
    let api = json!({ "projectId": flow.project, "name": "Checks", "api": {} });
    let api = done(&flow.admin, &format!("{API}/apps"), api).await.id();
    for (case, others) in [
        ("5: no client", vec![("client_id", "")]),
        ("5: an unknown one", vec![("client_id", "1")]),
        ("5: an API", vec![("client_id", &api)]),
        ("8: no redirect URI", vec![("redirect_uri", "")]),
        ("10: a slash", vec![("redirect_uri", "https://shop.example/callback/")]),
        ("10: a query", vec![("redirect_uri", "https://shop.example/callback?a=1")]),
        ("10: a port", vec![("redirect_uri", "https://shop.example:443/callback")]),
        ("10: case", vec![("redirect_uri", "https://shop.example/Callback")]),
        ("10: encoded", vec![("redirect_uri", "https://shop.example/%63allback")]),
        ("10: a fragment", vec![("redirect_uri", "https://shop.example/callback#")]),
        ("10: a script", vec![("redirect_uri", "JavaScript:alert(1)")]),
        ("10: another host", vec![("redirect_uri", "https://shop.example@evil.example/callback")]),
        ("10: a tab", vec![("redirect_uri", "https://shop.example/\tcallback")]),
    ] {
        assert_shown(case, &flow.sent(&flow.authorize_parameters(&others)).await);
    }
    for name in ["state", "redirect_uri", "scope", "client_id"] {
        let twice = [flow.authorize_parameters(&[]), parameters(&[(name, "again")])].concat();
        assert_shown(&format!("6: {name} twice"), &flow.sent(&twice).await);
    }
    for (kind, id) in [("apps", &flow.app.id), ("projects", &flow.project)] {
        done(&flow.admin, &format!("{API}/{kind}/{id}/_deactivate"), json!({})).await;
        assert_shown(kind, &flow.sent(&flow.authorize_parameters(&[])).await);
        flow.switch_on(&format!("{API}/{kind}/{id}")).await;
    }
}

#[tokio::test]
async fn a_redirect_uri_is_as_lenient_as_its_app() {
    let flow = Flow::start().await;
    let native = json!({
        "appType": "OIDC_APP_TYPE_NATIVE", "authMethodType": "OIDC_AUTH_METHOD_TYPE_NONE",
        "redirectUris": ["http://127.0.0.1/cb", "http://[::1]/cb", "com.example.shop:/cb"],
    });
    let develops = json!({ "devMode": true, "redirectUris": ["https://*.shop.example/cb"] });
    // 13: apps of each type, all with the same URIs.
    let uris = json!(["http://shop.example/cb", "http://127.0.0.1:4711/cb", "com.example.shop:/cb"]);
    let typed = |r#type: &str, method: &str, dev_mode: bool| {
        json!({
            "appType": format!("OIDC_APP_TYPE_{type}"), "authMethodType": format!("OIDC_AUTH_METHOD_TYPE_{method}"),
            "devMode": dev_mode, "redirectUris": uris,
        })
    };
    let all = [
        native,
        develops,
        typed("WEB", "NONE", false),
        typed("WEB", "BASIC", false),
        typed("USER_AGENT", "NONE", false),
        typed("USER_AGENT", "NONE", true),
        typed("NATIVE", "NONE", false),
    ];
    let all = all.map(|settings| App::create(&flow.admin, &flow.project, settings));
    let all = join_all(all).await;
    let [native, develops, public, confidential, agent, agent_in_development, device] = &all[..] else {
        panic!("there are seven")
    };
    for (app, uri, is_registered) in [
        (native, "http://127.0.0.1:4711/cb", true),
        (native, "http://[::1]:4711/cb", true),
        (native, "com.example.shop:/cb", true),
        (native, "http://localhost:4711/cb", false),
        (native, "http://127.0.0.1:4711/cb2", false),
        (native, "http://127.0.0.1:4711@evil.example/cb", false),
        (develops, "https://a.shop.example/cb", true),
        (develops, "https://evil.example/.shop.example/cb", false),
        (public, "http://shop.example/cb", false),
        (public, "http://127.0.0.1:4711/cb", false),
        (public, "com.example.shop:/cb", false),
        (confidential, "http://shop.example/cb", true),
        (confidential, "com.example.shop:/cb", false),
        (agent, "http://127.0.0.1:4711/cb", false),
        (agent, "com.example.shop:/cb", false),
        (agent_in_development, "http://shop.example/cb", true),
        (device, "http://shop.example/cb", false),
        (device, "http://127.0.0.1:4711/cb", true),
        (device, "com.example.shop:/cb", true),
    ] {
        let answer = flow.sent(&flow.authorize_parameters(&[("client_id", &app.id), ("redirect_uri", uri)])).await;
        if is_registered {
            assert!(location(&answer).contains("authRequest="), "11: {uri}");
        } else {
            assert_shown(uri, &answer);
        }
    }
}

#[tokio::test]
async fn names_and_addresses_of_one_machine_are_different_ones() {
    let flow = Flow::start().await;
    for registered in ["http://localhost/cb", "http://127.0.0.1/cb", "http://[::1]/cb"] {
        let settings = json!({
            "appType": "OIDC_APP_TYPE_NATIVE", "authMethodType": "OIDC_AUTH_METHOD_TYPE_NONE", "redirectUris": [registered],
        });
        let app = App::create(&flow.admin, &flow.project, settings).await;
        for uri in ["http://localhost:4711/cb", "http://127.0.0.1:4711/cb", "http://[::1]:4711/cb"] {
            let answer = flow.sent(&flow.authorize_parameters(&[("client_id", &app.id), ("redirect_uri", uri)])).await;
            if uri.replace(":4711", "") == registered {
                assert!(location(&answer).contains("authRequest="), "12: {uri}");
            } else {
                assert_shown(&format!("11 and 12: {registered} is not {uri}"), &answer);
            }
        }
    }
}

#[tokio::test]
async fn it_takes_get_and_post_and_leads_to_the_issuer() {
    let flow = Flow::start().await;
    let path = "/oauth/v2/authorize";
    let posted = send(flow.admin.anonymous(Method::POST, path).form(&flow.authorize_parameters(&[]))).await;
    assert_eq!(posted.status, StatusCode::SEE_OTHER, "45 and 55");
    assert!(location(&posted).contains("authRequest="));
    for method in [Method::HEAD, Method::PUT, Method::DELETE] {
        let answer = send(flow.admin.anonymous(method.clone(), path)).await;
        assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED, "52: {method}");
    }
    let host = format!("{}.localhost", tests::tenant::new_name());
    let operator = flow.tenant.operator().await;
    let context = format!("ctx.instanceId={}", flow.tenant.bootstrap.instance_id);
    let domain = json!({ "domain": host, "isVerified": true });
    let added = send(operator.request(Method::POST, &format!("{API}/domains?{context}")).json(&domain)).await;
    assert!(added.status.is_success(), "{}", added.body);
    let other = tests::client::Client::with_token(&format!("http://{host}:{}", port(&flow)), String::new());
    let answer = tests::eventually("the host is known", async || {
        let answer = send(other.anonymous(Method::GET, path).query(&flow.authorize_parameters(&[]))).await;
        (answer.status == StatusCode::FOUND).then_some(answer)
    });
    let url = location(&answer.await);
    assert!(url.starts_with(&format!("{}{path}?", flow.tenant.bootstrap.issuer)), "{url}");
    assert_eq!(answered(&url), flow.authorize_parameters(&[]).into_iter().collect());
}

fn port(flow: &Flow) -> u16 {
    flow.tenant.bootstrap.issuer.rsplit(':').next().and_then(|port| port.parse().ok()).expect("it has a port")
}

#[tokio::test]
async fn a_hint_says_who_it_must_be() {
    let flow = Flow::start().await;
    let (tokens, _) = flow.tokens(&[]).await;
    let hint = tokens["id_token"].as_str().unwrap();
    let other = App::create(&flow.admin, &flow.project, App::public()).await;
    let refused = flow.sent(&flow.authorize_parameters(&[("id_token_hint", hint), ("client_id", &other.id)])).await;
    assert_told(&flow, "35: of another client", &refused, "invalid_request");
    let [header, claims] = parts(hint);
    assert_eq!((&header["typ"], &claims["sub"]), (&json!("JWT"), &json!(flow.person.0)));
    let request = flow.waiting(&[("id_token_hint", hint)]).await;
    let read = send(flow.admin.request(Method::GET, &format!("{API}/auth_requests/{request}"))).await;
    assert_eq!(read.body["authRequest"]["hintUserId"], json!(flow.person.0));
    let (_, token) = flow.session().await;
    let person = super::flow::person(&flow.admin).await;
    let checks = json!({ "user": { "userId": person.0 }, "password": { "password": super::flow::PASSWORD } });
    let elses = created(&flow.admin, &format!("{API}/sessions"), json!({ "checks": checks })).await;
    let elses = flow.finished(&request, elses.body["sessionToken"].as_str().unwrap()).await;
    elses.assert_refused("35: somebody else", 400, "PRECONDITION_FAILED");
    assert_eq!(flow.finished(&request, &token).await.status, 200);
}
