//! A browser with scripts: headless Chromium, driven by the W3C protocol (`WebDriver`, chapter 6) with plain HTTP.

pub mod appearance;

use std::{fs, path::PathBuf, process::Stdio, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use reqwest::Method;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    process::{Child, Command},
    time::timeout,
};

use self::appearance::{APPEARANCES, Appearance, PHONE};
use crate::{eventually, ports::free_port, tools};

/// The key that moves the focus to the next element; with [`SHIFT`], to the previous one.
pub const TAB: char = '\u{e004}';
/// The key that presses a button or follows a link.
pub const ENTER: char = '\u{e007}';
/// The key that is held together with others.
pub const SHIFT: char = '\u{e008}';

/// A window of Chromium.
#[derive(Debug)]
pub struct Chromium {
    http: reqwest::Client,
    session: String,
    _driver: Driver,
}

/// The driver of a window: chromedriver with the processes of the browser, and the folder that these write to.
#[derive(Debug)]
struct Driver {
    process: Child,
    _folder: TempDir,
}

impl Driver {
    fn start(program: PathBuf, port: u16) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let mut command = Command::new(program);
        command.arg(format!("--port={port}")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.env("TMPDIR", folder.path()).process_group(0).spawn().expect("it can be started");
        Self { process, _folder: folder }
    }
}

impl Drop for Driver {
    /// Ends the browser, too, which would go on without its driver.
    fn drop(&mut self) {
        let pid = self.process.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let _ = pid.map(|pid| kill_process_group(pid, Signal::KILL));
    }
}

/// How long a page may take until it shows a text.
const SAID_WITHIN: Duration = Duration::from_secs(30);
/// The greatest height of a screenshot, in pixels.
const HIGHEST: u64 = 8000;
/// How many times a key is pressed at most until an element has the focus.
const MOST_STOPS: usize = 60;

impl Chromium {
    /// Opens a window; nothing where Chromium is not installed.
    pub async fn open() -> Option<Self> {
        let (driver, _) = (tools::on_path("chromedriver")?, tools::on_path("chromium")?);
        let port = free_port();
        let driver = Driver::start(driver, port);
        let (http, base) = (
            reqwest::Client::builder().no_proxy().build().expect("it can be made"),
            format!("http://127.0.0.1:{port}"),
        );
        let is_there = async || http.get(format!("{base}/status")).send().await.ok().map(drop);
        eventually("chromedriver", is_there).await;
        let arguments =
            ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage"];
        let options = json!({ "args": arguments });
        // Tests make certificates of their own.
        let wanted = json!({ "acceptInsecureCerts": true, "goog:chromeOptions": options,
            "goog:loggingPrefs": { "browser": "ALL" } });
        let body = json!({ "capabilities": { "alwaysMatch": wanted } });
        let opened = http.post(format!("{base}/session")).json(&body).send().await.expect("chromedriver answers");
        let opened: Value = opened.json().await.expect("it answers in JSON");
        let id = opened["value"]["sessionId"].as_str().unwrap_or_else(|| panic!("no session: {opened}"));
        Some(Self { session: format!("{base}/session/{id}"), http, _driver: driver })
    }

    /// Opens a window, and returns it with axe, which checks accessibility; prints a notice where either is not
    /// installed.
    pub async fn with_axe() -> Option<(Self, String)> {
        let Some(chromium) = Self::open().await else {
            tools::skip_unless_root("Chromium");
            return None;
        };
        let Some(axe) = tools::installed("axe") else {
            tools::skip("axe");
            return None;
        };
        let axe = fs::read_to_string(axe.join("node_modules/axe-core/axe.min.js")).expect("it is there");
        Some((chromium, axe))
    }

    async fn ask(&self, method: Method, path: &str, body: Option<Value>) -> Result<Value, Value> {
        let request = self.http.request(method, format!("{}{path}", self.session));
        let request = body.iter().fold(request, reqwest::RequestBuilder::json);
        let answer = request.send().await.expect("chromedriver answers");
        let is_done = answer.status().is_success();
        let mut answer: Value = answer.json().await.expect("it answers in JSON");
        if is_done { Ok(answer["value"].take()) } else { Err(answer["value"].take()) }
    }

    async fn done(&self, path: &str, body: Value) -> Value {
        let done = self.ask(Method::POST, path, Some(body)).await;
        done.unwrap_or_else(|refused| panic!("{path}: {refused}"))
    }

    /// Opens a page.
    pub async fn visit(&self, url: &str) {
        self.done("/url", json!({ "url": url })).await;
    }

    /// Returns the URL of the page.
    pub async fn url(&self) -> String {
        let url = self.ask(Method::GET, "/url", None).await.expect("it is somewhere");
        url.as_str().unwrap_or_default().to_owned()
    }

    /// Returns the source of the page.
    pub async fn text(&self) -> String {
        let source = self.ask(Method::GET, "/source", None).await.expect("there is a page");
        source.as_str().unwrap_or_default().to_owned()
    }

    async fn element(&self, selector: &str) -> Option<String> {
        let body = json!({ "using": "css selector", "value": selector });
        let found = self.ask(Method::POST, "/element", Some(body)).await.ok()?;
        found.as_object()?.values().next()?.as_str().map(str::to_owned)
    }

    /// Clicks the first element that a selector matches.
    pub async fn click(&self, selector: &str) {
        let element = self.element(selector).await.unwrap_or_else(|| panic!("there is no {selector}"));
        self.done(&format!("/element/{element}/click"), json!({})).await;
    }

    /// Types into the first element that a selector matches.
    pub async fn fill(&self, selector: &str, text: &str) {
        let element = self.element(selector).await.unwrap_or_else(|| panic!("there is no {selector}"));
        self.done(&format!("/element/{element}/value"), json!({ "text": text })).await;
    }

    /// Runs a script of the test on the page, and returns its result.
    pub async fn run(&self, script: &str) -> Value {
        self.done("/execute/sync", json!({ "script": script, "args": [] })).await
    }

    /// Runs an asynchronous script, which calls its last argument with the result.
    pub async fn run_long(&self, script: &str) -> Value {
        self.done("/execute/async", json!({ "script": script, "args": [] })).await
    }

    /// Returns the cookies that the page is requested with, those that scripts cannot read, too.
    pub async fn cookies(&self) -> Value {
        self.ask(Method::GET, "/cookie", None).await.expect("there is a page")
    }

    async fn devtools(&self, command: &str, parameters: Value) -> Value {
        self.done("/goog/cdp/execute", json!({ "cmd": command, "params": parameters })).await
    }

    /// Sets the appearance of the page.
    pub async fn set_appearance(&self, appearance: Appearance) {
        for (command, parameters) in appearance.commands() {
            self.devtools(command, parameters).await;
        }
    }

    /// Presses keys together, and lets them go.
    pub async fn press(&self, keys: &[char]) {
        let of = |kind: &'static str| move |key: &char| json!({ "type": kind, "value": key });
        let all: Vec<_> = keys.iter().map(of("keyDown")).chain(keys.iter().rev().map(of("keyUp"))).collect();
        self.done("/actions", json!({ "actions": [{ "type": "key", "id": "keyboard", "actions": all }] })).await;
    }

    /// Presses keys until an element that a selector matches has the focus; every element on the way must show that it
    /// has it.
    pub async fn press_until(&self, keys: &[char], selector: &str) {
        let script = format!(
            "const at = document.activeElement, style = getComputedStyle(at), box = at.getBoundingClientRect();
            return {{
                found: at.matches({}), tag: at.outerHTML.split('>')[0],
                ring: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2,
                inside: box.width > 0 && box.right > 0 && box.left < innerWidth && box.bottom > 0 && box.top < innerHeight,
            }};",
            json!(selector)
        );
        for _ in 0..MOST_STOPS {
            self.press(keys).await;
            let stop = self.run(&script).await;
            assert!(stop["ring"] == true && stop["inside"] == true, "nobody sees that it has the focus: {stop}");
            if stop["found"] == true {
                return;
            }
        }
        panic!("no key leads to {selector} at {}", self.url().await);
    }

    /// Sets whether pages run scripts.
    pub async fn runs_scripts(&self, are_run: bool) {
        self.devtools("Emulation.setScriptExecutionDisabled", json!({ "value": !are_run })).await;
    }

    /// Returns the messages on the browser's console since the last call.
    pub async fn complaints(&self) -> Vec<String> {
        let lines = self.done("/se/log", json!({ "type": "browser" })).await;
        let lines = lines.as_array().cloned().unwrap_or_default();
        lines.iter().filter_map(|line| line["message"].as_str().map(str::to_owned)).collect()
    }

    /// Stores a screenshot of the full page in the folder that `PLATFORM_PICTURES` names, for people.
    async fn keep_picture(&self, name: &str, appearance: Appearance) {
        let Some(folder) = std::env::var_os("PLATFORM_PICTURES").map(PathBuf::from) else { return };
        let is_large = appearance.text != PHONE.text;
        if is_large {
            // Beyond the window, text would have the default size in the screenshot.
            let height = self.run("return document.documentElement.scrollHeight").await.as_u64().unwrap_or_default();
            let height = u32::try_from(height.min(HIGHEST)).unwrap_or_default().max(appearance.height);
            self.devtools("Emulation.setDeviceMetricsOverride", appearance.size(height)).await;
        }
        let whole = json!({ "format": "png", "captureBeyondViewport": !is_large });
        let picture = self.devtools("Page.captureScreenshot", whole).await;
        self.set_appearance(appearance).await;
        let picture = STANDARD.decode(picture["data"].as_str().unwrap_or_default()).expect("it is base64");
        fs::write(folder.join(format!("{name}.png")), picture).expect("the folder can be written");
    }

    /// Returns the violations that axe finds on the page.
    async fn faults(&self, axe: &str, rules: &str) -> Vec<String> {
        if self.run("return typeof axe").await == "undefined" {
            self.run(axe).await;
        }
        let script = format!(
            "const done = arguments[arguments.length - 1];
            axe.run({{ resultTypes: ['violations'], ...{rules} }}).then((found) => done(found.violations.map((fault) =>
                fault.id + ': ' + fault.nodes.map((node) => node.html + ' ' + node.failureSummary).join('; '))));"
        );
        let found = self.run_long(&script).await;
        found.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// Fails where axe finds a violation on the page in any appearance, or where the page does not fit the window.
    pub async fn assert_usable(&self, axe: &str, name: &str) {
        for appearance in APPEARANCES {
            let name = format!("{name}-{}", appearance.name);
            self.set_appearance(appearance).await;
            self.keep_picture(&name, appearance).await;
            if let Some(rules) = appearance.rules {
                let found = self.faults(axe, rules).await;
                assert!(found.is_empty(), "{name} {}: {found:#?}", self.url().await);
            }
            // The window of a phone grows with its content.
            let width = self.run("return document.documentElement.scrollWidth").await;
            assert_eq!(width, appearance.width, "{name} does not fit: {}", self.url().await);
        }
    }

    /// Waits until the page contains a text.
    pub async fn wait_for_text(&self, what: &str) {
        let said = eventually(what, async || self.text().await.contains(what).then_some(()));
        if timeout(SAID_WITHIN, said).await.is_err() {
            let (url, text) = (self.url().await, self.text().await);
            panic!("waited in vain for {what}: {url} {text}");
        }
    }
}
