//! Message pages, which show a person an outcome, mostly an error. They repeat nothing of the request.

use askama::Template;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use page::{
    answer::{Policy, page, secure},
    component::Frame,
    site::Site,
};

use crate::{files::FILES, words::Words};

/// A message page, by the keys of title and text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Notice {
    status: StatusCode,
    title: &'static str,
    text: &'static str,
}

#[derive(Template)]
#[template(path = "notice.html")]
struct Page<'a> {
    frame: Frame,
    title: &'a str,
    text: &'a str,
}

impl Notice {
    pub(crate) const AWAY: Self =
        Self { status: StatusCode::SERVICE_UNAVAILABLE, title: "told.away.title", text: "told.away" };
    pub(crate) const EXPIRED: Self =
        Self { status: StatusCode::NOT_FOUND, title: "told.expired.title", text: "told.expired" };
    pub(crate) const FOREIGN: Self =
        Self { status: StatusCode::FORBIDDEN, title: "told.bad.title", text: "told.foreign" };
    pub(crate) const UNREADABLE: Self = Self::bad("told.unreadable");
    pub(crate) const NO_APP: Self = Self::bad("told.no_app");
    pub(crate) const NO_COOKIE: Self = Self::bad("told.no_cookie");
    pub(crate) const NO_PAGES: Self = Self::bad("told.no_pages");
    pub(crate) const NOT_ADMITTED: Self = Self::bad("told.not_admitted");
    pub(crate) const NO_PASSWORD: Self = Self::bad("told.no_password");
    pub(crate) const NO_REGISTRATION: Self = Self::bad("told.no_registration");
    pub(crate) const NO_REDIRECT_URI: Self = Self::bad("told.no_redirect_uri");

    pub(crate) const SIGNED_OUT: Self =
        Self { status: StatusCode::OK, title: "told.signed_out.title", text: "told.signed_out" };
    pub(crate) const PASSWORD_CHANGED: Self =
        Self { status: StatusCode::OK, title: "told.password_changed.title", text: "told.password_changed" };
    pub(crate) const MAYBE_SIGNED_OUT: Self = Self {
        status: StatusCode::SERVICE_UNAVAILABLE,
        title: "told.maybe_signed_out.title",
        text: "told.maybe_signed_out",
    };
    pub(crate) const UNREADABLE_LOGOUT: Self = Self::logout_refused("told.unreadable");
    pub(crate) const NO_LOGOUT_URI: Self = Self::logout_refused("told.no_redirect_uri");
    pub(crate) const BAD_HINT: Self = Self::logout_refused("told.bad_hint");
    pub(crate) const ANOTHER_APP: Self = Self::logout_refused("told.another_app");

    const fn logout_refused(text: &'static str) -> Self {
        Self { status: StatusCode::BAD_REQUEST, title: "told.nobody.title", text }
    }

    const fn bad(text: &'static str) -> Self {
        Self { status: StatusCode::BAD_REQUEST, title: "told.bad.title", text }
    }

    /// Renders the page; as plain text where no pages are served.
    pub(crate) fn answer(self, site: Option<&Site>, words: &Words) -> Response {
        let (status, title, text) = (self.status, words.get(self.title), words.get(self.text));
        let Some(site) = site else {
            let mut response = (status, format!("{title}. {text}\n")).into_response();
            secure(&mut response);
            return response;
        };
        let frame = Frame {
            lang: words.language.code,
            dir: words.language.dir,
            skip: words.get("page.skip").to_owned(),
            ..Frame::english(&FILES.stylesheet.path, &FILES.icon.path)
        };
        page(status, &Page { frame, title, text }, &Policy::default().text(site))
    }
}
