//! Request objects, which the app signs.

use jsonwebtoken::Header;
use reqwest::Method;
use serde_json::{Value, json};
use tests::client::{Client, send};

use super::{
    flow::{API, App, CALLBACK, Flow, answered, location},
    signer::Signer,
};

const TYPE: &str = "oauth-authz-req+jwt";

/// Returns a request object of an app with these members in addition to the common ones.
fn signed(signer: &Signer, typ: Option<&str>, members: &Value) -> String {
    let now = base::clock::now().as_second();
    let mut all = json!({ "iss": signer.holder, "aud": signer.issuer, "iat": now, "exp": now + 300 });
    for (name, value) in members.as_object().expect("it is one") {
        all[name.as_str()] = value.clone();
    }
    all.as_object_mut().expect("it is one").retain(|_, value| !value.is_null());
    signer.sign(&Header { typ: typ.map(str::to_owned), ..signer.header() }, &all)
}

/// Reads a pending authorization request.
async fn read(flow: &Flow, request: &str) -> Value {
    send(flow.admin.request(Method::GET, &format!("{API}/auth_requests/{request}"))).await.body["authRequest"].clone()
}

async fn key(flow: &Flow, app: &str, r#type: &str) -> Signer {
    Signer::new(&flow.tenant, &format!("apps/{app}"), r#type).await
}

#[tokio::test]
async fn an_app_asks_by_what_it_has_signed() {
    let flow = Flow::start().await;
    let sender = Client::with_token(&flow.tenant.bootstrap.issuer, String::new());
    for r#type in ["RSA", "EC", "ED25519"] {
        let signer = key(&flow, &flow.app.id, r#type).await;
        // What is in the object counts, and what is not is taken from beside it.
        let inside = json!({ "scope": "openid email", "login_hint": "ada", "max_age": 60, "state": "inside" });
        let object = signed(&signer, None, &inside);
        let told = answered(&location(
            &flow.sent(&flow.authorize_parameters(&[("request", &object), ("prompt", "none")])).await,
        ));
        assert_eq!((&*told["error"], &*told["state"]), ("login_required", "inside"), "{type}");
        let request = flow.waiting(&[("request", &object), ("state", "outside"), ("login_hint", "eve")]).await;
        let shown = read(&flow, &request).await;
        assert_eq!((&shown["loginHint"], &shown["maxAge"]), (&json!("ada"), &json!("60s")), "{type}: {shown}");
        assert_eq!(shown["scopes"], json!(["openid", "email"]), "{type}: {shown}");
    }
    let signer = key(&flow, &flow.app.id, "EC").await;
    let foreign = signed(&signer, None, &json!({ "redirect_uri": "https://evil.example/cb" }));
    assert_eq!(
        flow.sent(&flow.authorize_parameters(&[("request", &foreign)])).await.status,
        400,
        "what is inside counts"
    );
    let own = signed(&signer, None, &json!({ "redirect_uri": CALLBACK, "scope": "" }));
    let url = location(
        &flow.sent(&flow.authorize_parameters(&[("request", &own), ("redirect_uri", "https://evil.example")])).await,
    );
    assert!(url.starts_with(&format!("{CALLBACK}?error=invalid_scope")), "empty inside is empty: {url}");
    let by_reference = [("request", own.as_str()), ("request_uri", "https://a.example")];
    let url = location(&flow.sent(&flow.authorize_parameters(&by_reference)).await);
    assert!(url.contains("error=request_uri_not_supported"), "{url}");

    // Of the type of RFC 9101 nothing else counts, not even a redirect URI.
    let asked = flow.authorize_parameters(&[]);
    let mut inside: Value = asked.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    inside["prompt"] = json!("none");
    let object = signed(&signer, Some(TYPE), &inside);
    let pairs = [("client_id", flow.app.id.as_str()), ("request", &object), ("prompt", "login"), ("max_age", "x")];
    let told = answered(&location(&send(sender.anonymous(Method::POST, "/oauth/v2/authorize").form(&pairs)).await));
    assert_eq!((told["error"].as_str(), told["state"].as_str()), ("login_required", "a b&c"), "{told:?}");
    let without = signed(&signer, Some(TYPE), &json!({ "scope": "openid" }));
    let shown = flow.sent(&flow.authorize_parameters(&[("request", &without)])).await;
    assert_eq!(shown.status, 400, "the redirect URI is not in the object: {shown:?}");
}

#[tokio::test]
async fn an_object_that_the_app_has_not_signed_for_this_is_refused() {
    let flow = Flow::start().await;
    let signer = key(&flow, &flow.app.id, "EC").await;
    let other = App::create(&flow.admin, &flow.project, json!({})).await;
    let foreign = key(&flow, &other.id, "EC").await;
    let stranger = Signer { kid: signer.kid.clone(), ..foreign.clone() };
    let now = base::clock::now().as_second();
    let of = |members: Value| signed(&signer, None, &members);
    let posing = Signer { holder: flow.app.id.clone(), ..foreign.clone() };
    for (case, object) in [
        ("a key of another app", signed(&posing, None, &json!({}))),
        ("another app", signed(&foreign, None, &json!({}))),
        ("another key under its name", signed(&stranger, None, &json!({ "iss": flow.app.id }))),
        ("no key", signer.sign(&Header { kid: None, ..signer.header() }, &json!({}))),
        ("an access token's type", signed(&signer, Some("at+jwt"), &json!({}))),
        ("what authenticates a client", signer.assertion()),
        ("another issuer", of(json!({ "iss": "1" }))),
        ("another audience", of(json!({ "aud": "https://other.example" }))),
        ("no audience", of(json!({ "aud": null }))),
        ("expired", of(json!({ "exp": now - 1 }))),
        ("never expires", of(json!({ "exp": null }))),
        ("too long", of(json!({ "exp": now + 4000 }))),
        ("not yet", of(json!({ "nbf": now + 100 }))),
        ("an object in it", of(json!({ "request": "x" }))),
        ("a reference in it", of(json!({ "request_uri": "https://a.example" }))),
        ("another client", of(json!({ "client_id": other.id }))),
        ("another response type", of(json!({ "response_type": "id_token" }))),
        ("a list", of(json!({ "scope": ["openid"] }))),
    ] {
        let url = location(&flow.sent(&flow.authorize_parameters(&[("request", &object)])).await);
        assert!(url.starts_with(&format!("{CALLBACK}?error=invalid_request_object")), "{case}: {url}");
    }
    let header = json!({ "alg": "none", "kid": signer.kid }).to_string();
    let unsigned = signer.signed_texts(&header, &json!({ "iss": flow.app.id }).to_string());
    let symmetric = signer.signed_texts(&header.replace("none", "HS256"), "{}");
    for (case, object, error) in
        [("unsigned", unsigned, "request_not_supported"), ("symmetric", symmetric, "invalid_request_object")]
    {
        let url = location(&flow.sent(&flow.authorize_parameters(&[("request", &object)])).await);
        assert!(url.starts_with(&format!("{CALLBACK}?error={error}")), "{case}: {url}");
    }
    // Where it cannot be told where the app is answered, the person is told.
    let expired = of(json!({ "exp": now - 1 }));
    for elsewhere in ["https://evil.example/cb", ""] {
        let shown = flow.sent(&flow.authorize_parameters(&[("request", &expired), ("redirect_uri", elsewhere)])).await;
        assert_eq!(shown.status, 400, "{elsewhere}");
    }

    flow.waiting(&[("request", &of(json!({})))]).await;
    let path = format!("{API}/apps/{}/keys/{}", flow.app.id, signer.kid);
    let gone = send(flow.admin.request(Method::DELETE, &path)).await;
    assert_eq!(gone.status, 200, "{}", gone.body);
    let url = location(&flow.sent(&flow.authorize_parameters(&[("request", &of(json!({})))])).await);
    assert!(url.contains("error=invalid_request_object"), "a key that was deleted: {url}");
}
