//! The apps of docs/login.md, registered and started as described: somebody logs in to each, and out again.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use reqwest::{StatusCode, header::SET_COOKIE};
use tests::{
    browser::{Browser, Page},
    eventually,
    ports::free_port,
    tenant::{Shared, new_name},
    tools,
};
use tokio::process::{Child, Command};

use crate::api::examples::{blocks, shell};

const DOCUMENT: &str = include_str!("../../../../../docs/login.md");
const PYTHON: &str = include_str!("../../../../../docs/apps/app.py");
const JAVASCRIPT: &str = include_str!("../../../../../docs/apps/app.mjs");

/// The address of the app, the person, and the password in the document.
const DOCUMENTED: (&str, &str, &str) = ("127.0.0.1:3000", "katherine", "nine-lives-of-a-tabby-cat");

/// The link to the login on the app's page, and the field for the name on the platform's.
const NOBODY: &str = "href=\"/login\"";
pub(super) const ASKS: &str = "name=\"username\"";

/// A running app, and the browser of its user.
pub(super) struct Visit {
    _app: Child,
    pub(super) home: String,
    issuer: String,
    pub(super) person: String,
    /// The browser at the app, and at the platform, which share no cookies.
    pub(super) app: Browser,
    platform: Browser,
}

impl Visit {
    /// Registers an app as the document does, and starts it.
    pub(super) async fn start(mut command: Command) -> Self {
        let shared = Shared::find().await;
        let (port, person) = (free_port().to_string(), new_name());
        let address = format!("127.0.0.1:{port}");
        let environment = registered(&shared, &address, &person);
        command.envs(environment).env("PORT", &port).env("NO_PROXY", "*").env("no_proxy", "*");
        let mut child = command.kill_on_drop(true).spawn().expect("it starts");
        let home = format!("http://{address}/");
        let (app, platform) = (Browser::new(&home), Browser::new(&shared.bootstrap.issuer));
        eventually("the app listens", || {
            assert_eq!(child.try_wait().expect("a child can be asked"), None, "the app has ended");
            let mut browser = app.clone();
            async move { browser.try_get("/").await.ok() }
        })
        .await;
        Self { _app: child, home, issuer: shared.bootstrap.issuer.clone(), person, app, platform }
    }

    /// Opens a page of the app, and follows redirects.
    pub(super) async fn opens(&mut self, path: &str) -> Page {
        let shown = self.app.get(path).await;
        self.follow(shown, true).await
    }

    /// Sends the form of a page of the platform, and follows redirects.
    async fn answers(&mut self, shown: &Page, fields: &[(&str, &str)]) -> Page {
        let sent = self.platform.post(&shown.action(), &shown.form(fields)).await;
        self.follow(sent, false).await
    }

    /// Follows redirects between the app and the platform, until there is a page, or a code for the app.
    async fn follow(&mut self, mut shown: Page, mut is_at_app: bool) -> Page {
        for _ in 0..10 {
            let location = shown.location().to_owned();
            if location.is_empty() || location.starts_with(&format!("{}callback?", self.home)) {
                return shown;
            }
            let at_app = location.strip_prefix(self.home.trim_end_matches('/'));
            let at_platform = location.strip_prefix(&self.issuer);
            is_at_app = at_app.is_some() || at_platform.is_none() && is_at_app;
            let path = at_app.or(at_platform).unwrap_or(&location);
            assert!(path.starts_with('/'), "it leads away: {location}");
            shown = if is_at_app { self.app.get(path).await } else { self.platform.get(path).await };
        }
        panic!("it leads round and round: {}", shown.location());
    }

    /// Begins a login with name and password, and returns the redirect at its end, which is not opened yet.
    pub(super) async fn logs_in(&mut self) -> String {
        let shown = self.opens("/login").await;
        assert!(shown.text.contains(ASKS), "it asks for the name: {} {}", shown.status, shown.text);
        let (name, (.., password)) = (self.person.clone(), DOCUMENTED);
        let shown = self.answers(&shown, &[("username", &name)]).await;
        let shown = self.answers(&shown, &[("username", &name), ("password", password)]).await;
        self.callback(&shown)
    }

    /// Returns the path at the app that the browser is redirected to with a code.
    fn callback(&self, shown: &Page) -> String {
        let path = shown.location().strip_prefix(self.home.trim_end_matches('/'));
        path.unwrap_or_else(|| panic!("it leads back: {} {}", shown.status, shown.text)).to_owned()
    }

    /// Fails unless the app refuses an answer, and nobody is logged in after it.
    async fn assert_refused(&self, callback: &str) {
        let mut browser = self.app.clone();
        let refused = browser.get(callback).await;
        assert_eq!(refused.status, StatusCode::BAD_REQUEST, "{}", refused.text);
        assert!(refused.text.starts_with("The login failed: "), "{}", refused.text);
        assert!(browser.get("/").await.text.contains(NOBODY), "nobody is logged in");
    }

    /// Fails unless the app shows who is logged in, and none of it as HTML. Returns the page.
    async fn assert_shown(&mut self) -> Page {
        let shown = self.opens("/").await;
        let expected = format!("Katherine Johnson &amp; &lt;b&gt; ({}@example.com)", self.person);
        let text = shown.text.replace("&#38;", "&amp;").replace("&#60;", "&lt;").replace("&#62;", "&gt;");
        assert!(text.contains(&expected), "{expected} is missing: {}", shown.text);
        shown
    }
}

/// Runs the commands of the document that register an app and a person, with another address and name, and returns the
/// environment of the app. The person's data would be HTML, if the app did not escape it.
fn registered(shared: &Shared, address: &str, person: &str) -> Vec<(&'static str, String)> {
    let (before, rest) = DOCUMENT.split_once("## An app in five minutes\n").expect("the section is there");
    let (section, _) = rest.split_once("\n## ").expect("another section follows");
    let script = [blocks(before, "sh"), blocks(section, "sh")].concat().join("\n");
    let script = script.replace(DOCUMENTED.0, address).replace(DOCUMENTED.1, person);
    let script = script.replace("Johnson", "Johnson & <b>");
    let told = shell(shared, &format!("{script}\nprintf '\\n%s' \"$ISSUER\" \"$CLIENT_ID\" \"$CLIENT_SECRET\""));
    let mut last = told.lines().rev().map(str::to_owned);
    let names = ["CLIENT_SECRET", "CLIENT_ID", "ISSUER"];
    let environment: Vec<_> = names.into_iter().filter_map(|name| Some((name, last.next()?))).collect();
    assert!(environment.iter().all(|(_, value)| !value.is_empty()), "it is registered: {told}");
    environment
}

/// Returns the command that runs an app in an empty folder with its imports.
fn command(tools: &Path, folder: &Path, (tool, file): (&str, &str), program: &str) -> Command {
    symlink(tools.join("node_modules"), folder.join("node_modules")).expect("the folder can be written");
    fs::write(folder.join(file), program).expect("the folder can be written");
    let mut command = Command::new(tools.join("bin").join(tool));
    command.arg(file).current_dir(folder).env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

fn generators(file: &str) -> Option<PathBuf> {
    let found = tools::installed("generators");
    if found.is_none() {
        tools::skip(file);
    }
    found
}

/// Logs somebody in to an app and out again, and fails where anybody is let in who should not be.
async fn assert_logs_in_and_out(command: Command) {
    let mut visit = Visit::start(command).await;
    assert!(visit.opens("/").await.text.contains(NOBODY), "nobody is logged in yet");

    let callback = visit.logs_in().await;
    let (_, state) = callback.split_once("state=").expect("the app has sent one");
    let state = state.split('&').next().unwrap_or_default();
    visit.assert_refused(&callback.replace(state, "of-another-login")).await;
    visit.assert_refused(&callback.replace("state=", "status=")).await;
    let mine = std::mem::replace(&mut visit.app, Browser::new(&visit.home));
    visit.assert_refused(&callback).await;
    visit.app = mine;

    let back = visit.app.get(&callback).await;
    let cookies: Vec<_> = back.headers.get_all(SET_COOKIE).iter().filter_map(|line| line.to_str().ok()).collect();
    assert!(!cookies.is_empty(), "a session begins: {} {}", back.status, back.text);
    for cookie in cookies.iter().map(|cookie| cookie.to_ascii_lowercase()) {
        assert!(cookie.contains("; httponly") && cookie.contains("; samesite=lax"), "{cookie}");
    }
    visit.assert_shown().await;

    // As long as the person is logged in at the platform, another browser session of the app asks for nothing.
    visit.app = Browser::new(&visit.home);
    let shown = visit.opens("/login").await;
    let callback = visit.callback(&shown);
    visit.opens(&callback).await;
    let shown = visit.assert_shown().await;

    // A form of another site comes without the cookie, and ends nothing.
    let foreign = Browser::new(&visit.home).post(&shown.action(), &shown.form(&[])).await;
    let is_left = |line: &reqwest::header::HeaderValue| !line.to_str().is_ok_and(|line| line.starts_with("session="));
    assert!(foreign.headers.get_all(SET_COOKIE).iter().all(is_left), "{:?}", foreign.headers);
    assert!(["/", visit.home.as_str()].contains(&foreign.location()), "{} {}", foreign.status, foreign.text);
    visit.assert_shown().await;

    let before = visit.app.clone();
    let out = visit.app.post(&shown.action(), &shown.form(&[])).await;
    let shown = visit.follow(out, true).await;
    assert!(shown.text.contains(NOBODY), "the browser is back at the app: {} {}", shown.status, shown.text);
    let asked = visit.opens("/login").await;
    assert!(asked.text.contains(ASKS), "the next login asks again: {} {}", asked.status, asked.text);
    let old = Visit { app: before, ..visit }.opens("/").await;
    assert!(old.text.contains(NOBODY), "what the browser had is worth nothing any more: {}", old.text);
}

#[tokio::test]
async fn people_log_in_to_the_app_in_python() {
    let Some(tools) = generators("app.py") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    assert_logs_in_and_out(command(&tools, folder.path(), ("python", "app.py"), PYTHON)).await;
}

#[tokio::test]
async fn people_log_in_to_the_app_in_javascript() {
    let Some(tools) = generators("app.mjs") else { return };
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    assert_logs_in_and_out(command(&tools, folder.path(), ("node", "app.mjs"), JAVASCRIPT)).await;
}

#[tokio::test]
async fn people_log_in_to_the_app_in_rust() {
    assert_logs_in_and_out(Command::new(env!("CARGO_BIN_EXE_app"))).await;
}
