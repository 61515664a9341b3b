//! Pages that tell a person how something ended, most of them that something is wrong: nothing that was sent is repeated.

use std::sync::LazyLock;

use askama::Template;
use axum::{
    Router,
    response::{IntoResponse, Response},
};
use http::StatusCode;
use page::{
    answer::{Policy, page, secure},
    asset::{self, Asset},
    component::{Frame, ICON},
    site::Site,
    theme,
};

/// Where the files of the pages are.
const FOLDER: &str = "/ui/login/static/";

/// The files of the pages.
struct Files {
    stylesheet: Asset,
    icon: Asset,
}

static FILES: LazyLock<Files> = LazyLock::new(|| Files {
    stylesheet: Asset::new(FOLDER, "page.css", theme::built_in()),
    icon: Asset::new(FOLDER, "icon.svg", ICON),
});

/// Serves the files.
pub(crate) fn files() -> Router {
    asset::routes(&[FILES.stylesheet.clone(), FILES.icon.clone()])
}

/// What a person is told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Told {
    status: StatusCode,
    title: &'static str,
    text: &'static str,
}

#[derive(Template)]
#[template(path = "told.html")]
struct Page {
    frame: Frame,
    title: &'static str,
    text: &'static str,
}

const UNREADABLE: &str =
    "The app sent something that cannot be read, is too long, or was said twice. Tell its operator.";
const UNREGISTERED: &str = "The app sent an address that is not registered. Tell its operator.";

impl Told {
    pub(crate) const AWAY: Self = Self {
        status: StatusCode::SERVICE_UNAVAILABLE,
        title: "You cannot sign in at the moment",
        text: "The platform does not answer in full. Go back to the app and try again in a minute.",
    };
    pub(crate) const UNREADABLE: Self = Self::bad(UNREADABLE);
    pub(crate) const NO_APP: Self =
        Self::bad("The app that sent you here is not known, or is switched off. Tell its operator.");
    pub(crate) const NO_REDIRECT_URI: Self = Self::bad(UNREGISTERED);

    pub(crate) const SIGNED_OUT: Self =
        Self { status: StatusCode::OK, title: "You are signed out", text: "You can close this window." };
    pub(crate) const MAYBE_SIGNED_OUT: Self = Self {
        status: StatusCode::SERVICE_UNAVAILABLE,
        title: "You may still be signed in",
        text: "The platform does not answer in full. Sign out once more in a minute.",
    };
    pub(crate) const UNREADABLE_LOGOUT: Self = Self::nobody(UNREADABLE);
    pub(crate) const NO_LOGOUT_URI: Self = Self::nobody(UNREGISTERED);
    pub(crate) const NO_HINT: Self =
        Self::nobody("The app did not say who signs out. Sign out in the app, or tell its operator.");
    pub(crate) const BAD_HINT: Self =
        Self::nobody("The app sent an ID token that is not from here, or is too old. Tell its operator.");
    pub(crate) const ANOTHER_APP: Self =
        Self::nobody("The app sent an ID token that was issued to another app. Tell its operator.");

    const fn nobody(text: &'static str) -> Self {
        Self { status: StatusCode::BAD_REQUEST, title: "Nobody was signed out", text }
    }

    const fn bad(text: &'static str) -> Self {
        Self { status: StatusCode::BAD_REQUEST, title: "This sign-in cannot go on", text }
    }

    /// The page; as plain text where no pages are served.
    pub(crate) fn answer(self, site: Option<&Site>) -> Response {
        let Self { status, title, text } = self;
        let Some(site) = site else {
            let mut response = (status, format!("{title}. {text}\n")).into_response();
            secure(&mut response);
            return response;
        };
        let frame = Frame {
            stylesheet: FILES.stylesheet.path.clone(),
            icon: FILES.icon.path.clone(),
            script: None,
            live: None,
        };
        page(status, &Page { frame, title, text }, &Policy::default().text(site))
    }
}
