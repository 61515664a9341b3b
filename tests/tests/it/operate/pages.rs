//! The pages of operators, without a browser: access, contents, and forms.

mod chromium;
mod entry;
mod generations;
pub(crate) mod live;
mod mending;
mod nodes;
mod revealing;
mod standstill;

use reqwest::StatusCode;
use tests::browser::{Browser, Page};

/// Checks the headers of a page.
pub(crate) fn assert_closed(shown: &Page) {
    shown.assert_guarded();
    let policy = shown.headers["content-security-policy"].to_str().expect("it is text");
    assert!(policy.contains("form-action 'self'"), "{policy}");
}

/// Opens a page in the browser, and checks its headers.
pub(crate) async fn open(browser: &mut Browser, path: &str) -> Page {
    let shown = browser.get(path).await;
    assert_eq!(shown.status, StatusCode::OK, "{path}: {}", shown.text);
    assert_closed(&shown);
    shown
}
