//! The way back to an app on a device. It opens beside the browser, where a page stays that nobody has asked for: so that page says that
//! it is done, and has a link for browsers that do not open the app by themselves.

use askama::Template;
use axum::response::Response;
use domain::redirect_uri::Parts;
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
    /// For how long the link is there: a code that comes once more takes the tokens away.
    seconds: u64,
}

/// Leads the browser to where the app is answered.
pub(super) fn lead(visit: &Visit, url: &str) -> Response {
    if !stays_open(visit, url) {
        return visit.visitor.leave(url);
    }
    let (frame, shell) = Shell::new(visit, visit.words.get("done.title").to_owned());
    // The request is over: there is no page of it in another language.
    let shell = Shell { languages: vec![], ..shell };
    let back = visit.words.with("done.back", &[("app", &visit.app.app.name)]);
    let page =
        Page { frame, shell, message: visit.words.get("done.message"), url, back, seconds: code::LIFETIME.as_secs() };
    let mut response = visit.visitor.page(StatusCode::OK, &page);
    response.headers_mut().extend(HeaderValue::from_str(&format!("0; url={url}")).ok().map(|to| (REFRESH, to)));
    response
}

/// Whether the browser stays where it is when the app is answered, and the app wants that to be said.
fn stays_open(visit: &Visit, url: &str) -> bool {
    let is_custom = Parts::of(url).is_some_and(|url| url.is_custom());
    is_custom && visit.app.app.config.oidc().is_some_and(|settings| !settings.skip_native_app_success_page)
}
