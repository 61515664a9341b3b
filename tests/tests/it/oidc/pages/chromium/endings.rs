//! The pages at the end of a login: the form for the app, the page that stays beside a native app, and the refusal.

use serde_json::{Value, json};
use tests::{
    chromium::Chromium,
    client::done,
    endpoint::{Called, Endpoint, Reply},
    tenant::new_name,
};

use super::{
    super::super::flow::{API, App},
    Flow, SUBMIT, callback, flow, logs_in, on_pages, sent_to,
};

/// The redirect URI of a native app.
const DEVICE: &str = "com.example.shop:/cb";

/// Makes the app of a flow one with these settings.
async fn replace_app(flow: &mut Flow, settings: &Value) {
    let mut oidc = on_pages(&App::public());
    for (name, value) in settings.as_object().into_iter().flatten() {
        oidc[name] = value.clone();
    }
    flow.app = App::create(&flow.admin, &flow.project, oidc).await;
}

/// Returns the code that a form has sent.
fn code(called: &Called) -> String {
    let form: Vec<(String, String)> = serde_urlencoded::from_bytes(&called.body).expect("it is a form");
    let code = form.into_iter().find(|(name, _)| name == "code");
    code.unwrap_or_else(|| panic!("there is a code: {called:?}")).1
}

#[tokio::test]
async fn the_form_for_an_app_is_usable_where_the_browser_stays_on_it() {
    let Some((chromium, axe)) = Chromium::with_axe().await else { return };
    let mut flow = flow().await;
    // A browser stays on the page when the app has no content to show.
    let app = Endpoint::replying(Reply::status(204)).await;
    replace_app(&mut flow, &json!({ "devMode": true, "redirectUris": [app.url] })).await;
    let asked = [("redirect_uri", app.url.as_str()), ("response_mode", "form_post")];
    chromium.visit(&sent_to(&flow, &asked)).await;
    chromium.wait_for_text("Sign in to Shop").await;
    logs_in(&chromium, &flow.person.1).await;
    let sent = app.called(1).await;
    let first = code(&sent[0]);
    chromium.assert_usable(&axe, "login-answer").await;
    chromium.click(SUBMIT).await;
    let sent = app.called(2).await;
    assert_eq!(code(&sent[1]), first, "the button sends the same");

    chromium.runs_scripts(false).await;
    chromium.visit(&sent_to(&flow, &asked)).await;
    chromium.wait_for_text("name=\"code\"").await;
    assert_eq!(app.calls().len(), 2, "no script has sent it");
    chromium.click(SUBMIT).await;
    assert_ne!(code(&app.called(3).await[2]), first);
    let complaints = chromium.complaints().await;
    assert!(!complaints.iter().any(|line| line.contains("Content Security Policy")), "{complaints:#?}");
}

#[tokio::test]
async fn the_page_that_stays_beside_a_native_app_is_usable() {
    let Some((chromium, axe)) = Chromium::with_axe().await else { return };
    let mut flow = flow().await;
    replace_app(&mut flow, &json!({ "appType": "OIDC_APP_TYPE_NATIVE", "redirectUris": [DEVICE] })).await;
    chromium.visit(&sent_to(&flow, &[("redirect_uri", DEVICE)])).await;
    chromium.wait_for_text("Sign in to Shop").await;
    logs_in(&chromium, &flow.person.1).await;
    chromium.wait_for_text("You can close this window.").await;
    chromium.assert_usable(&axe, "login-done").await;
    let link = chromium.run("return document.querySelector('main .other a').getAttribute('href')").await;
    assert!(link.as_str().is_some_and(|link| link.starts_with(&format!("{DEVICE}?code="))), "{link}");
}

#[tokio::test]
async fn the_page_for_somebody_who_may_not_use_the_app_is_usable_and_leads_back() {
    let Some((chromium, axe)) = Chromium::with_axe().await else { return };
    let flow = flow().await;
    let other = done(&flow.admin, &format!("{API}/organizations"), json!({ "name": new_name() })).await.id();
    let scope = format!("openid urn:platform:iam:org:id:{other}");
    chromium.visit(&sent_to(&flow, &[("scope", &scope)])).await;
    chromium.wait_for_text("Sign in to Shop").await;
    logs_in(&chromium, &flow.person.1).await;
    chromium.wait_for_text("This account cannot use Shop").await;
    chromium.assert_usable(&axe, "login-refused").await;
    chromium.click(SUBMIT).await;
    chromium.wait_for_text("API").await;
    let url = chromium.url().await;
    assert!(url.starts_with(&format!("{}?error=access_denied", callback(&flow))), "{url}");
}
