//! Logins to a native app, which opens beside the browser.

use reqwest::StatusCode;
use serde_json::json;
use tests::{browser::Page, client::send};

use super::{
    super::flow::{App, Flow, answered},
    browser, on_pages, title,
};

/// The redirect URI of the app.
const DEVICE: &str = "com.example.shop:/cb";

/// Returns the URL that a browser opens by itself after a page is shown.
fn refreshes(shown: &Page) -> &str {
    let header = shown.headers.get("refresh").and_then(|value| value.to_str().ok());
    header.and_then(|value| value.strip_prefix("0; url=")).unwrap_or_default()
}

#[tokio::test]
async fn the_page_that_stays_in_the_browser_says_that_it_is_done() {
    let mut settings = on_pages(&App::public());
    settings["appType"] = json!("OIDC_APP_TYPE_NATIVE");
    settings["redirectUris"] = json!([DEVICE, "http://127.0.0.1/cb"]);
    let mut flow = Flow::with(settings.clone()).await;
    let mut browser = browser(&flow.tenant);
    let to_device = [("redirect_uri", DEVICE)];
    let shown = flow.logs_in(&mut browser, &flow.person.1, &to_device).await;
    assert_eq!((shown.status, title(&shown)), (StatusCode::OK, "You are signed in"), "{}", shown.text);
    assert!(
        shown.text.contains("You can close this window.") && shown.text.contains("Return to Shop"),
        "{}",
        shown.text
    );
    assert_eq!(shown.headers["cache-control"], "no-store");
    assert!(shown.text.contains("data-seconds=\"60\""), "for as long as a code is good: {}", shown.text);
    let url = refreshes(&shown).to_owned();
    assert!(shown.text.contains(&format!("href=\"{}\"", url.replace('&', "&#38;"))), "{url}: {}", shown.text);
    let redeemed = send(flow.redeeming(&answered(&url)["code"], &to_device)).await;
    assert_eq!(redeemed.status, StatusCode::OK, "{}", redeemed.body);

    let shown = flow.sent_by(&mut browser, &to_device).await;
    assert!(
        refreshes(&shown).starts_with(DEVICE),
        "nobody had to be asked, and the browser was opened: {}",
        shown.text
    );
    let shown = flow.sent_by(&mut browser, &[to_device[0], ("prompt", "none")]).await;
    assert!(shown.location().starts_with(DEVICE), "nobody is to see a page: {}", shown.text);
    let shown = flow.sent_by(&mut browser, &[to_device[0], ("response_mode", "form_post")]).await;
    assert!(refreshes(&shown).is_empty(), "a form leads there: {}", shown.text);
    let shown = flow.sent_by(&mut browser, &[("redirect_uri", "http://127.0.0.1:4711/cb")]).await;
    assert!(shown.location().starts_with("http://127.0.0.1:4711/cb?"), "the app has a page: {}", shown.text);
    settings["skipNativeAppSuccessPage"] = json!(true);
    flow.app = App::create(&flow.admin, &flow.project, settings).await;
    let shown = flow.sent_by(&mut browser, &to_device).await;
    assert!(shown.location().starts_with(DEVICE), "the app wants none: {}", shown.text);
}
