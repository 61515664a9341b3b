//! Tokens from the authorization endpoint, without a code, and answers by form, by the numbers of the cases of the
//! design. The modules of the certification are in `conformance`.

use base::secret::sha256;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use reqwest::StatusCode;
use serde_json::{Value, json};
use tests::{browser::Browser, tenant::instance_beside};

use super::{
    flow::{App, CALLBACK, Flow, Parameters, answered, location},
    pages::{back, browser, id_token_claims, on_pages},
};

/// Returns the settings of an app with all response types.
fn settings() -> Value {
    let mut settings = App::public();
    settings["responseTypes"] =
        json!(["OIDC_RESPONSE_TYPE_CODE", "OIDC_RESPONSE_TYPE_ID_TOKEN", "OIDC_RESPONSE_TYPE_ID_TOKEN_TOKEN"]);
    settings["grantTypes"] = json!(["OIDC_GRANT_TYPE_AUTHORIZATION_CODE", "OIDC_GRANT_TYPE_IMPLICIT"]);
    settings
}

/// The parameters of a request for tokens, without those for codes.
const TOKENS: [(&str, &str); 3] =
    [("response_type", "id_token token"), ("code_challenge", ""), ("code_challenge_method", "")];

/// Returns the claims of the ID token in an answer.
fn claims(told: &Parameters) -> Value {
    id_token_claims(&json!({ "id_token": told["id_token"] }))
}

async fn logged_in(flow: &Flow) -> Browser {
    let mut browser = browser(&flow.tenant);
    back(&flow.logs_in(&mut browser, &flow.person.1, &[]).await);
    browser
}

#[tokio::test]
async fn an_access_token_comes_in_the_fragment_with_its_hash_in_the_id_token() {
    let flow = Flow::with(on_pages(&settings())).await;
    let mut browser = logged_in(&flow).await;
    // 3: in any order.
    for response_type in ["id_token token", "token id_token"] {
        let shown = flow.sent_by(&mut browser, &[&TOKENS[..], &[("response_type", response_type)]].concat()).await;
        assert!(shown.location().starts_with(&format!("{CALLBACK}#access_token=")), "{}", shown.location());
        let told = back(&shown);
        let stands = (&*told["token_type"], &*told["state"], &*told["iss"]);
        assert_eq!(stands, ("Bearer", "a b&c", &*flow.tenant.bootstrap.issuer));
        assert!(told["expires_in"].parse::<u64>().is_ok_and(|lasts| lasts > 60) && !told.contains_key("code"));
        let claims = claims(&told);
        let half = URL_SAFE_NO_PAD.encode(&sha256(told["access_token"].as_bytes())[..16]);
        assert_eq!((&claims["nonce"], &claims["at_hash"]), (&json!("n-0S6_WzA2Mj"), &json!(half)));
        assert_eq!(claims.get("email"), None, "that is in userinfo");
        let userinfo = flow.userinfo(&told["access_token"]).await;
        assert_eq!((userinfo.status, &userinfo.body["sub"]), (StatusCode::OK, &json!(flow.person.0)));
    }
}

#[tokio::test]
async fn an_id_token_alone_has_the_claims_of_the_scopes() {
    let flow = Flow::with(on_pages(&settings())).await;
    let mut browser = logged_in(&flow).await;
    let asked = [&TOKENS[..], &[("response_type", "id_token"), ("scope", "openid email offline_access")]].concat();
    let shown = flow.sent_by(&mut browser, &asked).await;
    assert!(shown.location().starts_with(&format!("{CALLBACK}#id_token=")), "{}", shown.location());
    let told = back(&shown);
    let names: Vec<&str> = told.keys().map(String::as_str).collect();
    assert_eq!(names, ["id_token", "iss", "state"]);
    let claims = claims(&told);
    assert_eq!(claims["email"], format!("{}@example.com", flow.person.1), "there is nothing else to ask with");
    assert_eq!((claims.get("at_hash"), &claims["nonce"]), (None, &json!("n-0S6_WzA2Mj")));
}

#[tokio::test]
async fn what_tokens_at_the_login_need_is_insisted_on() {
    let mut settings = on_pages(&settings());
    settings["redirectUris"] = json!([CALLBACK, "http://shop.example/callback", "com.shop.app:/callback"]);
    settings["devMode"] = json!(true);
    let flow = Flow::with(settings.clone()).await;
    settings["appType"] = json!("OIDC_APP_TYPE_NATIVE");
    let native = App::create(&flow.admin, &flow.project, settings).await;
    let to_device =
        [("redirect_uri", "com.shop.app:/callback"), ("response_mode", "form_post"), ("client_id", &native.id)];
    let told = location(&flow.sent(&flow.authorize_parameters(&to_device)).await);
    assert!(told.starts_with("com.shop.app:/callback?error=invalid_request"), "no form reaches an app: {told}");
    for (case, others, error) in [
        ("21: no nonce", vec![("nonce", "")], "invalid_request"),
        ("41: in a query", vec![("response_mode", "query")], "invalid_request"),
        ("http", vec![("redirect_uri", "http://shop.example/callback")], "invalid_request"),
        ("hybrid", vec![("response_type", "code id_token")], "unsupported_response_type"),
        ("2: a token alone", vec![("response_type", "token")], "unsupported_response_type"),
        ("twice", vec![("response_type", "id_token id_token")], "unsupported_response_type"),
    ] {
        let url = location(&flow.sent(&flow.authorize_parameters(&[&TOKENS[..], &others].concat())).await);
        assert_eq!(answered(&url)["error"], error, "{case}");
        assert!(url.contains("/callback#error="), "{case}: {url}");
    }
    let only_codes = App::create(&flow.admin, &flow.project, on_pages(&App::public())).await;
    let asked = [&TOKENS[..], &[("client_id", only_codes.id.as_str())]].concat();
    assert_eq!(
        answered(&location(&flow.sent(&flow.authorize_parameters(&asked)).await))["error"],
        "unauthorized_client",
        "4"
    );
}

#[tokio::test]
async fn login_pages_of_somebody_else_end_such_requests_too() {
    let flow = Flow::with(settings()).await;
    let (told, _) = flow.log_in(&TOKENS).await;
    assert_eq!(flow.userinfo(&told["access_token"]).await.status, StatusCode::OK);
    let request = flow.waiting(&TOKENS).await;
    let (_, session) = flow.session().await;
    let all = futures::future::join_all((0..4).map(|_| flow.finished(&request, &session))).await;
    let got = all.iter().filter(|answer| answer.status == StatusCode::OK).count();
    assert_eq!(got, 1, "48: {:?}", all.iter().map(|answer| &answer.body).collect::<Vec<_>>());
}

#[tokio::test]
async fn an_answer_by_form_is_shown_once_to_one_browser_and_is_no_markup() {
    let flow = Flow::with(on_pages(&settings())).await;
    let mut browser = logged_in(&flow).await;
    let by_form = ("response_mode", "form_post");
    // 43: shown once, under a policy, with a button for whoever runs no scripts.
    for others in [vec![by_form], [&TOKENS[..], &[by_form]].concat()] {
        let sent = browser.get(&flow.sends(&others)).await;
        let sent =
            browser.get(sent.location().strip_prefix(flow.tenant.bootstrap.issuer.as_str()).expect("our own")).await;
        let page = sent.location().to_owned();
        let shown = flow.follow(&mut browser, sent).await;
        let path = page.strip_prefix(flow.tenant.bootstrap.issuer.as_str()).expect("our own");
        assert_eq!(browser.get(path).await.status, StatusCode::NOT_FOUND, "it is shown once");
        assert_eq!((shown.status, shown.action()), (StatusCode::OK, CALLBACK.to_owned()), "{}", shown.text);
        let policy = shown.headers["content-security-policy"].to_str().expect("it is text");
        assert!(policy.contains("/ui/login/static/answer.") && !policy.contains("form-action"), "{policy}");
        let told: Parameters = shown.hidden().into_iter().collect();
        assert_eq!((&*told["state"], &*told["iss"]), ("a b&c", &*flow.tenant.bootstrap.issuer));
        match told.get("code") {
            Some(code) => drop(flow.redeemed(code).await),
            None => assert_eq!(flow.userinfo(&told["access_token"]).await.status, StatusCode::OK),
        }
    }
    let none = flow.sent_by(&mut super::pages::browser(&flow.tenant), &[by_form, ("prompt", "none")]).await;
    let told: Parameters = none.hidden().into_iter().collect();
    assert_eq!((none.action(), &*told["error"]), (CALLBACK.to_owned(), "login_required"), "errors too: {}", none.text);
    let wrong = flow.sent_by(&mut browser, &[by_form, ("scope", "profile")]).await;
    assert_eq!(wrong.hidden().into_iter().collect::<Parameters>()["error"], "invalid_scope");
    let forged = browser.get("/ui/login/answer?answer=AAAA").await;
    assert_eq!(forged.status, StatusCode::NOT_FOUND);

    let hostile = "\"'><script>alert(1)</script>&amp;";
    let shown = flow.sent_by(&mut browser, &[by_form, ("state", hostile)]).await;
    assert_eq!(shown.hidden().into_iter().collect::<Parameters>()["state"], hostile, "43: what is sent comes back");
    assert!(!shown.text.contains("<script>alert"), "43: and is no markup: {}", shown.text);
    let sent = browser.get(&flow.sends(&[by_form])).await;
    let sent = browser.get(sent.location().strip_prefix(flow.tenant.bootstrap.issuer.as_str()).expect("our own")).await;
    let page = sent.location().strip_prefix(flow.tenant.bootstrap.issuer.as_str()).expect("our own");
    let beside = instance_beside(&flow.tenant).await;
    let elsewhere = super::pages::browser(&beside).get(page).await;
    assert_eq!(elsewhere.status, StatusCode::NOT_FOUND, "S2: another instance shows nothing of it");
    assert_eq!(browser.get(page).await.action(), CALLBACK, "and it is still to be shown here");
}
