//! The pages of operators, without a browser: who gets in, what is shown, and what forms do.

mod chromium;
mod entry;
mod generations;
mod mending;
mod nodes;
mod revealing;
mod standstill;

use reqwest::StatusCode;
use tests::browser::{Browser, Shown};

/// The headers of every page, whatever it shows.
pub(crate) fn assert_closed(shown: &Shown) {
    let header = |name: &str| shown.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let policy = header("content-security-policy");
    for part in [
        "default-src 'none'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "form-action 'self'",
        "trusted-types 'none'",
        "require-trusted-types-for 'script'",
    ] {
        assert!(policy.contains(part), "{policy}");
    }
    assert!(!policy.contains("unsafe") && !policy.contains('*') && !policy.contains("script-src 'self'"), "{policy}");
    for (name, wanted) in [
        ("cache-control", "no-store"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("x-frame-options", "DENY"),
        ("content-type", "text/html; charset=utf-8"),
        ("access-control-allow-origin", ""),
    ] {
        assert_eq!(header(name), wanted, "{name}");
    }
    assert!(!shown.text.contains("style=\"") && !shown.text.contains("onclick"), "{}", shown.text);
}

/// The same page, seen by the browser.
pub(crate) async fn seen(browser: &mut Browser, path: &str) -> Shown {
    let shown = browser.get(path).await;
    assert_eq!(shown.status, StatusCode::OK, "{path}: {}", shown.text);
    assert_closed(&shown);
    shown
}
