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
    FILES,
    text::{When, time_of_day},
};

/// The menu: paths and names.
pub(super) const MENU: [(&str, &str); 5] = [
    ("/ui/operate", "Overview"),
    ("/ui/operate/nodes", "Nodes"),
    ("/ui/operate/projections", "Projections"),
    ("/ui/operate/failed", "Failed events"),
    ("/ui/operate/log", "Log"),
];

/// What stands around a page.
#[derive(Debug, Clone)]
pub(super) struct Shell {
    /// The menu.
    pub(super) menu: &'static [(&'static str, &'static str)],
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
}

/// A page of somebody who is not signed in, or that something is wrong with.
#[derive(Template)]
#[template(path = "told.html")]
pub(super) struct Told {
    frame: Frame,
    title: String,
    text: Vec<String>,
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

impl Told {
    /// Says that something is wrong, and what to do.
    pub(super) fn new(title: &str, text: &[&str]) -> Self {
        let text = text.iter().map(|line| (*line).to_owned()).collect();
        Self { frame: frame(None), title: title.to_owned(), text, command: None, back: None }
    }

    /// Says how to sign in.
    pub(super) fn signed_out(title: &str, text: &str) -> Self {
        let told = Self::new(
            title,
            &[text, "Run this where the data directory of the platform is, and open the link that it prints:"],
        );
        Self { command: Some("platform operate"), ..told }
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
    /// Around a page of this part of the menu.
    pub(super) fn new(active: &'static str, (user, until): (String, When), token: String) -> Self {
        Self { menu: &MENU, active, user, until, token, now: time_of_day(), notice: None }
    }
}
