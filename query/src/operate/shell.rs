//! The frame of every page of operators: the menu, who is signed in, and pages that report problems.

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
    text::{ShownTime, time_of_day},
};

/// The path of the list of failed events.
pub(super) const FAILED_EVENTS: &str = "/ui/operate/failed";
/// The menu: paths and names.
const MENU: [(&str, &str); 5] = [
    ("/ui/operate", "Overview"),
    ("/ui/operate/nodes", "Nodes"),
    ("/ui/operate/projections", "Projections"),
    (FAILED_EVENTS, "Failed events"),
    ("/ui/operate/log", "Log"),
];

/// The parameter for logging in as somebody else.
pub(super) const ANOTHER: &str = "another";

/// The frame around the content of a page.
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
    /// When the session ends.
    pub(super) until: ShownTime,
    /// The token of the page's forms.
    pub(super) token: String,
    /// The time as of which the page is.
    pub(super) now: String,
    /// A notice at the top of the page.
    pub(super) notice: Option<Notice>,
}

/// The outcome of an action.
#[derive(Debug, Clone)]
pub(super) struct Notice {
    /// The text, in a sentence or two.
    pub(super) text: String,
    /// Whether the action succeeded.
    pub(super) is_good: bool,
    /// The path of a page with more, and the text of the link.
    pub(super) more: Option<(String, String)>,
}

/// A page for somebody who is not signed in, or about a problem.
#[derive(Template)]
#[template(path = "notice.html")]
pub(super) struct NoticePage {
    frame: Frame,
    title: String,
    text: Vec<String>,
    /// The path for logging in, if people can.
    log_in: Option<String>,
    /// A command line that helps.
    command: Option<&'static str>,
    back: Option<(&'static str, &'static str)>,
}

/// The head of a page, with the stream that it follows, if any.
pub(super) fn frame(live: Option<String>) -> Frame {
    let script = live.is_some().then(|| FILES.script.path.clone());
    Frame { script, live, ..Frame::english(&FILES.stylesheet.path, &FILES.icon.path) }
}

/// The content security policy of such a page.
pub(super) fn policy(frame: &Frame, site: &Site) -> String {
    Policy { scripts: frame.script.iter().cloned().collect(), connects: frame.live.is_some(), leaves: false }.text(site)
}

impl NoticePage {
    /// Describes a problem, and what to do.
    pub(super) fn new(title: &str, text: &[&str]) -> Self {
        let text = text.iter().map(|line| (*line).to_owned()).collect();
        Self { frame: frame(None), title: title.to_owned(), text, log_in: None, command: None, back: None }
    }

    /// Explains how to sign in: by logging in, or with a link.
    pub(super) fn signed_out(title: &str, text: &str) -> Self {
        Self { log_in: Some(LOG_IN.to_owned()), command: Some("platform operate"), ..Self::new(title, &[text]) }
    }

    /// Lets somebody else log in.
    pub(super) fn another(self) -> Self {
        Self { log_in: Some(format!("{LOG_IN}?{ANOTHER}=1")), ..self }
    }

    /// Adds a link to another page.
    pub(super) fn back(self, path: &'static str, name: &'static str) -> Self {
        Self { back: Some((path, name)), ..self }
    }

    /// Renders the page for a site.
    pub(super) fn answer(&self, status: StatusCode, site: &Site) -> Response {
        page(status, self, &policy(&self.frame, site))
    }
}

impl Shell {
    /// The frame of a page in this part of the menu, for a visitor at this level.
    pub(super) fn new(
        level: OperatorLevel,
        active: &'static str,
        user: String,
        until: ShownTime,
        token: String,
    ) -> Self {
        let is_of_all = level == OperatorLevel::System;
        let menu = MENU.into_iter().filter(|(path, _)| is_of_all || *path == FAILED_EVENTS).collect();
        Self { menu, is_of_all, active, user, until, token, now: time_of_day(), notice: None }
    }
}
