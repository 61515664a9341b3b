//! Logout by apps: which session ends, and where the browser goes on. Modules of the OpenID Foundation's conformance
//! suite, cases 129 to 139, have their names; the other numbers are those of the cases of the design.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    browser::Browser,
    client::{Answer, done, send},
    eventually,
    secrets::Secrets,
    tenant::instance_beside,
};

use super::{
    flow::{API, App, Flow, access_token, location, refresh_token},
    hint::header,
    pages::{back, browser, on_pages, title},
    token::{assert_error, parts},
};

const END: &str = "/oidc/v1/end_session";
const BYE: &str = "https://shop.example/bye";
const REDIRECT: &str = "post_logout_redirect_uri";

async fn start() -> Flow {
    let mut settings = App::public();
    settings["postLogoutRedirectUris"] = json!([BYE, "https://shop.example/bye?kept=1"]);
    settings["responseTypes"] = json!(["OIDC_RESPONSE_TYPE_CODE"]);
    settings["grantTypes"] = json!(["OIDC_GRANT_TYPE_AUTHORIZATION_CODE", "OIDC_GRANT_TYPE_REFRESH_TOKEN"]);
    Flow::with(settings).await
}

fn id_token(tokens: &Value) -> &str {
    tokens["id_token"].as_str().unwrap_or_else(|| panic!("there is one: {tokens}"))
}

async fn ending(flow: &Flow, parameters: &[(&str, &str)]) -> Answer {
    send(flow.admin.anonymous(Method::GET, END).query(parameters)).await
}

/// Waits until an access token is not valid any more.
async fn is_over(flow: &Flow, tokens: &Value) {
    eventually("the token is over", async || {
        (flow.userinfo(access_token(tokens)).await.status == StatusCode::UNAUTHORIZED).then_some(())
    })
    .await;
}

/// Fails unless a page has this title, and does not redirect.
async fn assert_page(flow: &Flow, case: &str, parameters: &[(&str, &str)], (status, title): (u16, &str)) {
    let request = flow.admin.anonymous(Method::GET, END).query(parameters);
    let answer = request.send().await.expect("it is answered");
    assert_eq!(answer.status().as_u16(), status, "{case}");
    assert!(!answer.headers().contains_key("location"), "{case}: {answer:?}");
    assert_eq!(answer.headers()["cache-control"], "no-store", "{case}");
    let page = answer.text().await.expect("it is text");
    assert!(page.contains(title), "{case}: {page}");
}

async fn assert_nobody(flow: &Flow, case: &str, parameters: &[(&str, &str)]) {
    assert_page(flow, case, parameters, (400, "Nobody was signed out")).await;
}

#[tokio::test]
async fn oidcc_rp_initiated_logout_discovery_endpoint_verification() {
    let flow = Flow::start().await;
    let document = send(flow.admin.anonymous(Method::GET, "/.well-known/openid-configuration")).await.body;
    let issuer = &flow.tenant.bootstrap.issuer;
    assert_eq!(document["end_session_endpoint"], json!(format!("{issuer}{END}")));
}

#[tokio::test]
async fn oidcc_rp_initiated_logout() {
    let flow = start().await;
    let (tokens, _) = flow.tokens(&[("scope", "openid offline_access")]).await;
    let (other, _) = flow.tokens(&[]).await;
    let asked = [("id_token_hint", id_token(&tokens)), (REDIRECT, BYE), ("state", "a b&c")];
    let answer = ending(&flow, &asked).await;
    assert_eq!(
        (answer.status, location(&answer).as_str()),
        (StatusCode::FOUND, "https://shop.example/bye?state=a+b%26c")
    );
    is_over(&flow, &tokens).await;
    assert_error("80", &send(flow.refreshing(refresh_token(&tokens), &[])).await, 400, "invalid_grant");
    assert_eq!(flow.userinfo(access_token(&other)).await.status, StatusCode::OK, "144: another session goes on");
    let again = ending(&flow, &asked).await;
    assert_eq!(again.status, StatusCode::FOUND, "whoever is signed out can sign out: {again:?}");
    let form = [("id_token_hint", id_token(&other)), (REDIRECT, BYE), ("client_id", flow.app.id.as_str())];
    let answer = send(flow.admin.anonymous(Method::POST, END).form(&form)).await;
    assert_eq!((answer.status, location(&answer).as_str()), (StatusCode::SEE_OTHER, BYE));
    is_over(&flow, &other).await;
}

#[tokio::test]
async fn forms_and_methods_are_as_at_the_authorization_endpoint() {
    let flow = start().await;
    let (tokens, _) = flow.tokens(&[]).await;
    let hint = [("id_token_hint", id_token(&tokens))];
    for method in [Method::HEAD, Method::PUT, Method::DELETE] {
        let refused = send(flow.admin.anonymous(method.clone(), END).query(&hint)).await;
        assert_eq!(refused.status, StatusCode::METHOD_NOT_ALLOWED, "{method}");
        assert_eq!(refused.headers["allow"], "GET, POST", "{method}");
    }
    let post = || flow.admin.anonymous(Method::POST, END);
    for (case, request) in [
        ("JSON", post().json(&json!({ "id_token_hint": id_token(&tokens) }))),
        ("twice", post().form(&[hint[0], hint[0]])),
        ("a long state", post().form(&[hint[0], ("state", &"a".repeat(2049)), (REDIRECT, BYE)])),
    ] {
        let answer = request.send().await.expect("it is answered");
        assert_eq!((answer.status().as_u16(), answer.headers().get("location")), (400, None), "{case}");
        let policy = answer.headers()["content-security-policy"].to_str().expect("it is text");
        assert!(policy.contains("frame-ancestors 'none'") && policy.contains("form-action 'self'"), "{case}: {policy}");
    }
    assert_eq!(flow.userinfo(access_token(&tokens)).await.status, StatusCode::OK, "nothing has ended");
}

#[tokio::test]
async fn to_a_device_any_port_leads_and_to_an_app_that_is_off_nothing() {
    let mut settings = App::public();
    settings["appType"] = json!("OIDC_APP_TYPE_NATIVE");
    settings["postLogoutRedirectUris"] = json!(["http://127.0.0.1/bye"]);
    let flow = Flow::with(settings).await;
    let (first, _) = flow.tokens(&[]).await;
    let (second, _) = flow.tokens(&[]).await;
    let asked = [("id_token_hint", id_token(&first)), (REDIRECT, "http://127.0.0.1:4711/bye")];
    assert_eq!(location(&ending(&flow, &asked).await), "http://127.0.0.1:4711/bye");
    is_over(&flow, &first).await;
    done(&flow.admin, &format!("{API}/apps/{}/_deactivate", flow.app.id), json!({})).await;
    is_over(&flow, &second).await;
    let asked = [("id_token_hint", id_token(&second)), (REDIRECT, "http://127.0.0.1:4711/bye")];
    assert_page(&flow, "the app is off", &asked, (200, "You are signed out")).await;
}

#[tokio::test]
async fn oidcc_rp_initiated_logout_no_state() {
    let flow = start().await;
    for uri in [BYE, "https://shop.example/bye?kept=1"] {
        let (tokens, _) = flow.tokens(&[]).await;
        let answer = ending(&flow, &[("id_token_hint", id_token(&tokens)), (REDIRECT, uri)]).await;
        assert_eq!(location(&answer), uri);
        is_over(&flow, &tokens).await;
    }
}

#[tokio::test]
async fn oidcc_rp_initiated_logout_no_post_logout_redirect_uri() {
    let flow = start().await;
    let (tokens, _) = flow.tokens(&[]).await;
    let asked = [("id_token_hint", id_token(&tokens)), ("state", "a")];
    assert_page(&flow, "133", &asked, (200, "You are signed out")).await;
    is_over(&flow, &tokens).await;
}

#[tokio::test]
async fn oidcc_rp_initiated_logout_bad_post_logout_redirect_uri() {
    let flow = start().await;
    let (tokens, _) = flow.tokens(&[]).await;
    for uri in
        ["https://evil.example/bye", "https://shop.example/callback", "javascript:alert(1)", "//shop.example/bye"]
    {
        assert_nobody(&flow, uri, &[("id_token_hint", id_token(&tokens)), (REDIRECT, uri)]).await;
    }
    assert_eq!(flow.userinfo(access_token(&tokens)).await.status, StatusCode::OK, "nothing has ended");
}

#[tokio::test]
async fn oidcc_rp_initiated_logout_query_added_to_post_logout_redirect_uri() {
    let flow = start().await;
    let (tokens, _) = flow.tokens(&[]).await;
    let uri = "https://shop.example/bye?added=1";
    assert_nobody(&flow, "135", &[("id_token_hint", id_token(&tokens)), (REDIRECT, uri)]).await;
}

#[tokio::test]
async fn oidcc_rp_initiated_logout_no_id_token_hint_and_only_state_and_no_params() {
    let flow = start().await;
    let (tokens, _) = flow.tokens(&[]).await;
    for asked in [
        &[][..],
        &[("state", "a")],
        &[(REDIRECT, BYE)],
        &[(REDIRECT, BYE), ("client_id", flow.app.id.as_str()), ("state", "a")],
    ] {
        let answer = ending(&flow, asked).await;
        assert_eq!(answer.status, StatusCode::FOUND, "143: {answer:?}");
        let page = answer.headers["location"].to_str().expect("it is text");
        assert!(
            page.starts_with(&format!("{}/ui/logout?", flow.tenant.bootstrap.issuer)),
            "the person is asked: {page}"
        );
        let asked: Vec<_> = asked.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        assert_eq!(super::flow::answered(page).into_iter().collect::<Vec<_>>().len(), asked.len(), "{page}");
    }
    let unregistered = [(REDIRECT, "https://evil.example/bye"), ("client_id", flow.app.id.as_str())];
    assert_nobody(&flow, "143", &unregistered).await;
    assert_eq!(flow.userinfo(access_token(&tokens)).await.status, StatusCode::OK, "nobody was signed out");
}

#[tokio::test]
async fn oidcc_rp_initiated_logout_bad_and_modified_id_token_hint() {
    let flow = start().await;
    let (elsewhere, other) = (start().await, App::create(&flow.admin, &flow.project, App::public()).await);
    let (tokens, session) = flow.tokens(&[]).await;
    let (foreign, _) = elsewhere.tokens(&[]).await;
    let (ours, theirs) = (Secrets::of(&flow.tenant).await, Secrets::of(&elsewhere.tenant).await);
    let [_, claims] = parts(id_token(&tokens));
    let with = |change: Value| {
        let mut claims = claims.clone();
        claims.as_object_mut().expect("it is one").extend(change.as_object().expect("it is one").clone());
        claims
    };
    let (right, forged) = (header(&flow).await, header(&elsewhere).await);
    let [head, body, signature]: [&str; 3] =
        id_token(&tokens).split('.').collect::<Vec<_>>().try_into().expect("a token has three parts");
    let unsigned = format!("eyJhbGciOiJub25lIiwidHlwIjoiSldUIn0.{body}.");
    let changed = format!("{head}.{body}.{}{}", if signature.starts_with('A') { "B" } else { "A" }, &signature[1..]);
    for (case, hint) in [
        ("137: alg none", unsigned),
        ("137: another signature", changed),
        ("138: of another instance", id_token(&foreign).to_owned()),
        ("138: signed by another instance", theirs.sign(&right, &claims)),
        ("138: by its own key", theirs.sign(&forged, &claims)),
        ("138: of another issuer", ours.sign(&right, &with(json!({ "iss": elsewhere.tenant.bootstrap.issuer })))),
        ("138: an access token", access_token(&tokens).to_owned()),
        ("138: without a session", ours.sign(&right, &with(json!({ "sid": null })))),
        ("138: no token", "x".to_owned()),
    ] {
        assert_nobody(&flow, case, &[("id_token_hint", &hint), (REDIRECT, BYE)]).await;
    }
    let named = [("id_token_hint", id_token(&tokens)), ("client_id", other.id.as_str())];
    assert_nobody(&flow, "140", &named).await;
    let twice = [("id_token_hint", id_token(&tokens)), ("state", "a"), ("state", "a")];
    assert_nobody(&flow, "twice", &twice).await;
    assert_eq!(flow.userinfo(access_token(&tokens)).await.status, StatusCode::OK, "nothing has ended");

    let of_somebody = ours.sign(&right, &with(json!({ "sub": "7", "sid": session })));
    assert_page(&flow, "142", &[("id_token_hint", &of_somebody)], (200, "You are signed out")).await;
    assert_eq!(flow.userinfo(access_token(&tokens)).await.status, StatusCode::OK, "142: not the user's session");
    let expired = ours.sign(&right, &with(json!({ "exp": 1, "iat": 0 })));
    assert_page(&flow, "141", &[("id_token_hint", &expired)], (200, "You are signed out")).await;
    is_over(&flow, &tokens).await;
}

/// Starts an app on the platform's own pages with registered logout URIs.
async fn on_own_pages() -> Flow {
    let mut settings = App::public();
    settings["postLogoutRedirectUris"] = json!([BYE]);
    Flow::with(on_pages(&settings)).await
}

/// Logs the person in, and gets tokens.
async fn tokens_in(flow: &Flow, browser: &mut Browser) -> Value {
    let code = back(&flow.logs_in(browser, &flow.person.1, &[]).await)["code"].clone();
    flow.redeemed(&code).await
}

fn asks(tokens: &Value) -> [(&str, &str); 3] {
    [("id_token_hint", id_token(tokens)), (REDIRECT, BYE), ("state", "7")]
}

fn path(tokens: &Value) -> String {
    format!("{END}?{}", serde_urlencoded::to_string(asks(tokens)).expect("it is a query"))
}

async fn assert_signed_out(flow: &Flow, browser: &mut Browser) {
    let told = back(&flow.sent_by(browser, &[("prompt", "none")]).await);
    assert_eq!(told["error"], "login_required", "nobody is signed in any more");
}

#[tokio::test]
async fn a_person_is_asked_where_the_hint_is_of_another_browser() {
    let flow = on_own_pages().await;
    let (mut own, mut other) = (browser(&flow.tenant), browser(&flow.tenant));
    let (mine, theirs) = (tokens_in(&flow, &mut own).await, tokens_in(&flow, &mut other).await);
    let beyond = Some(format!("{BYE}?state=7"));
    let asked = own.get(&path(&theirs)).await;
    assert!(!asked.location().contains("id_token_hint"), "it goes no further: {}", asked.location());
    let asked = flow.follow(&mut own, asked).await;
    assert_eq!((asked.status, title(&asked)), (StatusCode::OK, "Sign out?"), "142: {}", asked.text);
    for tokens in [&mine, &theirs] {
        assert_eq!(flow.userinfo(access_token(tokens)).await.status, StatusCode::OK, "nothing has ended");
    }
    let gone = flow.send(&mut own, &asked, &[]).await;
    assert_eq!(Some(gone.location().to_owned()), beyond, "{}", gone.text);
    is_over(&flow, &mine).await;
    is_over(&flow, &theirs).await;
    for browser in [&mut own, &mut other] {
        assert_signed_out(&flow, browser).await;
    }

    // A browser that is signed in to nothing any more is asked nothing, and neither is one that is signed in to what is named.
    let theirs = tokens_in(&flow, &mut browser(&flow.tenant)).await;
    let gone = own.get(&path(&theirs)).await;
    assert_eq!(Some(gone.location().to_owned()), beyond, "{}", gone.text);
    is_over(&flow, &theirs).await;
    let mine = tokens_in(&flow, &mut own).await;
    let gone = own.get(&path(&mine)).await;
    assert_eq!(Some(gone.location().to_owned()), beyond, "{}", gone.text);
    is_over(&flow, &mine).await;
    assert_signed_out(&flow, &mut own).await;
}

/// A form of an app comes without the cookies of the platform; the page that it redirects to gets them.
#[tokio::test]
async fn a_form_of_another_site_signs_out_whom_it_names_and_asks_about_others() {
    let flow = on_own_pages().await;
    let (mut own, mut other) = (browser(&flow.tenant), browser(&flow.tenant));
    let (mine, theirs) = (tokens_in(&flow, &mut own).await, tokens_in(&flow, &mut other).await);
    let led_to = async |tokens: &Value| {
        let mut form = browser(&flow.tenant);
        form.sent_from =
            vec![("sec-fetch-site", "cross-site".to_owned()), ("origin", "https://shop.example".to_owned())];
        let fields: Vec<_> =
            asks(tokens).iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let led = form.post(END, &fields).await;
        assert_eq!(led.status, StatusCode::SEE_OTHER, "{}", led.text);
        let path = led.location().strip_prefix(flow.tenant.bootstrap.issuer.as_str());
        path.unwrap_or_else(|| panic!("it is asked here first: {}", led.location())).to_owned()
    };
    let asked = own.get(&led_to(&theirs).await).await;
    assert_eq!((asked.status, title(&asked)), (StatusCode::OK, "Sign out?"), "142: {}", asked.text);
    let to_own = led_to(&mine).await;
    let beside = instance_beside(&flow.tenant).await;
    let elsewhere = browser(&beside).get(&to_own).await;
    assert_eq!(elsewhere.status, StatusCode::BAD_REQUEST, "S2: what is sealed is of one instance: {}", elsewhere.text);
    for changed in [format!("{to_own}x"), to_own.replace("hint=", "hint=x")] {
        assert_eq!(own.get(&changed).await.status, StatusCode::BAD_REQUEST, "{changed}");
    }
    assert_eq!(flow.userinfo(access_token(&mine)).await.status, StatusCode::OK, "nothing has ended");
    let gone = own.get(&to_own).await;
    assert_eq!(gone.location(), format!("{BYE}?state=7"), "{}", gone.text);
    is_over(&flow, &mine).await;
    assert_eq!(flow.userinfo(access_token(&theirs)).await.status, StatusCode::OK, "144: another browser's goes on");
    assert_signed_out(&flow, &mut own).await;
}
