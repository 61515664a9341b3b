//! What stands around every page of operators: the menu, who is signed in, and pages that say that something is wrong.

use askama::Template;
use axum::response::Response;
use http::StatusCode;
use page::{
    answer::{Policy, page},
    component::Frame,
    site::Site,
};

use super::{
    FILES, LOG_IN,
    level::OperatorLevel,
    text::{When, time_of_day},
};

/// Where failed events are.
pub(super) const FAILED_EVENTS: &str = "/ui/operate/failed";
/// The menu: paths and names.
const MENU: [(&str, &str); 5] = [
    ("/ui/operate", "Overview"),
    ("/ui/operate/nodes", "Nodes"),
    ("/ui/operate/projections", "Projections"),
    (FAILED_EVENTS, "Failed events"),
    ("/ui/operate/log", "Log"),
];

/// The parameter by which somebody else logs in.
pub(super) const ANOTHER: &str = "another";

/// What stands around a page.
#[derive(Debug, Clone)]
pub(super) struct Shell {
    /// The menu.
    pub(super) menu: Vec<(&'static str, &'static str)>,
    /// Whether the pages are about all instances.
    pub(super) is_of_all: bool,
    /// The path of the menu that the page belongs to.
    pub(super) active: &'static str,
    /// Who is signed in.
    pub(super) user: String,
    /// Until when.
    pub(super) until: When,
    /// The token of the page's forms.
    pub(super) token: String,
    /// What the page is as of.
    pub(super) now: String,
    /// What to tell first.
    pub(super) notice: Option<Notice>,
}

/// What came of what was asked for.
#[derive(Debug, Clone)]
pub(super) struct Notice {
    /// In a sentence or two.
    pub(super) text: String,
    /// Whether it is what was wanted.
    pub(super) is_good: bool,
    /// Where there is more of it, and how that is called.
    pub(super) more: Option<(String, String)>,
}

/// A page of somebody who is not signed in, or that something is wrong with.
#[derive(Template)]
#[template(path = "told.html")]
pub(super) struct NoticePage {
    frame: Frame,
    title: String,
    text: Vec<String>,
    /// Where people log in, and what else there is to do.
    log_in: Option<String>,
    /// A command line that helps.
    command: Option<&'static str>,
    back: Option<(&'static str, &'static str)>,
}

/// The files of a page that follows this stream, if it follows one.
pub(super) fn frame(live: Option<String>) -> Frame {
    let script = live.is_some().then(|| FILES.script.path.clone());
    Frame { script, live, ..Frame::english(&FILES.stylesheet.path, &FILES.icon.path) }
}

/// What such a page may do.
pub(super) fn policy(frame: &Frame, site: &Site) -> String {
    Policy { scripts: frame.script.iter().cloned().collect(), connects: frame.live.is_some(), leaves: false }.text(site)
}

impl NoticePage {
    /// Says that something is wrong, and what to do.
    pub(super) fn new(title: &str, text: &[&str]) -> Self {
        let text = text.iter().map(|line| (*line).to_owned()).collect();
        Self { frame: frame(None), title: title.to_owned(), text, log_in: None, command: None, back: None }
    }

    /// Says how to sign in: by logging in, or with a link.
    pub(super) fn signed_out(title: &str, text: &str) -> Self {
        Self { log_in: Some(LOG_IN.to_owned()), command: Some("platform operate"), ..Self::new(title, &[text]) }
    }

    /// Has somebody else log in.
    pub(super) fn another(self) -> Self {
        Self { log_in: Some(format!("{LOG_IN}?{ANOTHER}=1")), ..self }
    }

    /// With a link to another page.
    pub(super) fn back(self, path: &'static str, name: &'static str) -> Self {
        Self { back: Some((path, name)), ..self }
    }

    /// The page, on a site.
    pub(super) fn answer(&self, status: StatusCode, site: &Site) -> Response {
        page(status, self, &policy(&self.frame, site))
    }
}

impl Shell {
    /// Around a page of this part of the menu, for who sees so far.
    pub(super) fn new(
        level: OperatorLevel,
        active: &'static str,
        (user, until): (String, When),
        token: String,
    ) -> Self {
        let is_of_all = level == OperatorLevel::System;
        let menu = MENU.into_iter().filter(|(path, _)| is_of_all || *path == FAILED_EVENTS).collect();
        Self { menu, is_of_all, active, user, until, token, now: time_of_day(), notice: None }
    }
}
