//! The login pages of the platform, by a browser without scripts: what they ask, where they lead, and what they refuse.

mod accounts;
mod appearance;
mod chromium;
mod contact;
mod device;
mod forged;
pub(crate) mod home;
pub(crate) mod operate;
mod own_password;
mod register;
mod secure;
mod sequence;
mod user_agent;

use std::ops::Deref;

use reqwest::StatusCode;
use serde_json::{Value, json};
use tests::{
    browser::{Browser, Page},
    client::Client,
    instance::Instance,
};

use super::flow::{App, Flow, PASSWORD, Parameters, answered};

/// The name of the cookie of a browser, without the part for the port.
const COOKIE: &str = "login";

/// Starts an app whose people log in on the platform's own pages.
pub(super) async fn start() -> Flow {
    Flow::with(on_pages(&App::public())).await
}

/// Returns settings by which people log in on the platform's own pages.
pub(crate) fn on_pages(settings: &Value) -> Value {
    let mut settings = settings.clone();
    settings["loginUri"] = json!("");
    settings
}

/// Returns a browser of an instance.
pub(super) fn browser(instance: &Instance) -> Browser {
    Browser::new(&instance.bootstrap.issuer)
}

impl<T: Deref<Target = Instance>> Flow<T> {
    /// Returns the path that the app sends a browser to.
    pub(super) fn sends(&self, others: &[(&str, &str)]) -> String {
        let query = serde_urlencoded::to_string(self.authorize_parameters(others)).expect("it is a query");
        format!("/oauth/v2/authorize?{query}")
    }

    /// Sends a browser, and follows redirects.
    pub(super) async fn sent_by(&self, browser: &mut Browser, others: &[(&str, &str)]) -> Page {
        let shown = browser.get(&self.sends(others)).await;
        self.follow(browser, shown).await
    }

    /// Follows redirects until a page asks something, or the browser is back at the app.
    pub(super) async fn follow(&self, browser: &mut Browser, mut shown: Page) -> Page {
        let issuer = &self.tenant.bootstrap.issuer;
        for _ in 0..5 {
            let location = shown.location().to_owned();
            let path = location.strip_prefix(issuer.as_str()).unwrap_or(&location);
            if !path.starts_with('/') {
                if location.is_empty() {
                    shown.assert_guarded();
                }
                assert_eq!(shown.headers["cache-control"], "no-store", "54: {location}");
                return shown;
            }
            shown = browser.get(path).await;
        }
        panic!("it leads round and round: {}", shown.location());
    }

    /// Sends the form of a page, and follows redirects.
    pub(super) async fn send(&self, browser: &mut Browser, shown: &Page, fields: &[(&str, &str)]) -> Page {
        let sent = browser.post(&shown.action(), &shown.form(fields)).await;
        self.follow(browser, sent).await
    }

    /// Sends a browser, and logs somebody in with name and password.
    pub(super) async fn logs_in(&self, browser: &mut Browser, name: &str, others: &[(&str, &str)]) -> Page {
        let shown = self.sent_by(browser, others).await;
        assert!(shown.text.contains("name=\"username\""), "it asks for the name: {} {}", shown.location(), shown.text);
        self.enters(browser, &shown, name).await
    }

    /// Enters name and password on the page that asks for the name.
    pub(super) async fn enters(&self, browser: &mut Browser, shown: &Page, name: &str) -> Page {
        let shown = self.send(browser, shown, &[("username", name)]).await;
        assert!(shown.text.contains("name=\"password\""), "it asks for the password: {}", shown.text);
        self.enters_password(browser, &shown, name).await
    }

    /// Enters the password on the page that asks for it.
    pub(super) async fn enters_password(&self, browser: &mut Browser, shown: &Page, name: &str) -> Page {
        self.send(browser, shown, &[("username", name), ("password", PASSWORD)]).await
    }
}

/// Returns the answer to the app, where the browser is back there.
pub(super) fn back(shown: &Page) -> Parameters {
    assert!(shown.location().starts_with(super::flow::CALLBACK), "{} {}", shown.status, shown.text);
    assert_eq!(shown.status, StatusCode::SEE_OTHER);
    assert_eq!(shown.headers["cache-control"], "no-store");
    answered(shown.location())
}

/// Returns the claims of an ID token.
pub(super) fn id_token_claims(tokens: &Value) -> Value {
    let payload = tokens["id_token"].as_str().and_then(|token| token.split('.').nth(1)).expect("there is an ID token");
    let payload = base64::Engine::decode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, payload);
    serde_json::from_slice(&payload.expect("it is base64url")).expect("it is JSON")
}

/// Returns the title of a page.
pub(crate) fn title(shown: &Page) -> &str {
    let rest = shown.text.split_once("<title>").map_or("", |(_, rest)| rest);
    rest.split("</title>").next().unwrap_or_default()
}

/// Sets settings of an instance.
pub(super) async fn set(admin: &Client, path: &str, body: Value) {
    let answer = tests::client::send(admin.request(reqwest::Method::PATCH, path).json(&body)).await;
    assert_eq!(answer.status, StatusCode::OK, "{path}: {}", answer.body);
}
