//! The way back to a native app. The app opens beside the browser, which would stay on a stale page: instead, a page
//! confirms that the login is done, and has a link for browsers that do not open the app by themselves.

use askama::Template;
use axum::response::Response;
use domain::redirect_uri::UriParts;
use http::{HeaderValue, StatusCode, header::REFRESH};
use page::component::Frame;

use super::{shell::Shell, visit::Visit};
use crate::code;

#[derive(Template)]
#[template(path = "done.html")]
struct Page<'a> {
    frame: Frame,
    shell: Shell<'a>,
    message: &'a str,
    url: &'a str,
    back: String,
    /// For how many seconds the link is shown: a code that is sent again revokes the tokens.
    seconds: u64,
}

/// Sends the browser to the redirect URI.
pub(super) fn lead(visit: &Visit, url: &str) -> Response {
    if !stays_open(visit, url) {
        return visit.visitor.leave(url);
    }
    let (frame, shell) = Shell::new(visit, visit.words.get("done.title").to_owned());
    // The request is over, so the page cannot be shown in another language.
    let shell = Shell { languages: vec![], ..shell };
    let back = visit.words.with("done.back", &[("app", &visit.app.app.name)]);
    let page =
        Page { frame, shell, message: visit.words.get("done.message"), url, back, seconds: code::LIFETIME.as_secs() };
    let mut response = visit.visitor.page(StatusCode::OK, &page);
    response.headers_mut().extend(HeaderValue::from_str(&format!("0; url={url}")).ok().map(|to| (REFRESH, to)));
    response
}

/// Whether the browser stays open when the app is answered, and the app wants that page.
fn stays_open(visit: &Visit, url: &str) -> bool {
    let is_custom = UriParts::of(url).is_some_and(|url| url.is_custom());
    is_custom && visit.app.app.config.oidc().is_some_and(|settings| !settings.skip_native_app_success_page)
}
