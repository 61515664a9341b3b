//! A browser with scripts: headless Chromium, driven over the protocol of W3C for that (`WebDriver`, chapter 6) with plain HTTP.

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

use crate::{eventually, ports::free_port, tools};

/// A window of Chromium.
#[derive(Debug)]
pub struct Chromium {
    http: reqwest::Client,
    session: String,
    _driver: Driver,
}

/// What drives a window: chromedriver with the processes of the browser, and the folder that these write to.
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
    /// Ends the browser too, which goes on without its driver.
    fn drop(&mut self) {
        let pid = self.process.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let _ = pid.map(|pid| kill_process_group(pid, Signal::KILL));
    }
}

/// How a page is looked at: width, height, and whether colours are dark.
pub type Look = (u32, u32, bool);

/// How long a page may take until it says something.
const SAID_WITHIN: Duration = Duration::from_secs(30);
/// How pages are looked at.
const LOOKS: [Look; 3] = [(390, 844, false), (1280, 800, true), (320, 640, true)];

impl Chromium {
    /// Opens one; nothing where there is no Chromium.
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
        let wanted = json!({ "goog:chromeOptions": options, "goog:loggingPrefs": { "browser": "ALL" } });
        let body = json!({ "capabilities": { "alwaysMatch": wanted } });
        let opened = http.post(format!("{base}/session")).json(&body).send().await.expect("chromedriver answers");
        let opened: Value = opened.json().await.expect("it answers in JSON");
        let id = opened["value"]["sessionId"].as_str().unwrap_or_else(|| panic!("no session: {opened}"));
        Some(Self { session: format!("{base}/session/{id}"), http, _driver: driver })
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

    /// Where it is.
    pub async fn url(&self) -> String {
        let url = self.ask(Method::GET, "/url", None).await.expect("it is somewhere");
        url.as_str().unwrap_or_default().to_owned()
    }

    /// What the page says.
    pub async fn text(&self) -> String {
        let source = self.ask(Method::GET, "/source", None).await.expect("there is a page");
        source.as_str().unwrap_or_default().to_owned()
    }

    async fn element(&self, selector: &str) -> Option<String> {
        let body = json!({ "using": "css selector", "value": selector });
        let found = self.ask(Method::POST, "/element", Some(body)).await.ok()?;
        found.as_object()?.values().next()?.as_str().map(str::to_owned)
    }

    /// Clicks the first element of a selector.
    pub async fn click(&self, selector: &str) {
        let element = self.element(selector).await.unwrap_or_else(|| panic!("there is no {selector}"));
        self.done(&format!("/element/{element}/click"), json!({})).await;
    }

    /// Types into the first element of a selector.
    pub async fn fill(&self, selector: &str, text: &str) {
        let element = self.element(selector).await.unwrap_or_else(|| panic!("there is no {selector}"));
        self.done(&format!("/element/{element}/value"), json!({ "text": text })).await;
    }

    /// What a script of the test finds on the page.
    pub async fn run(&self, script: &str) -> Value {
        self.done("/execute/sync", json!({ "script": script, "args": [] })).await
    }

    /// The same for one that takes its time, and calls its last argument.
    pub async fn run_long(&self, script: &str) -> Value {
        self.done("/execute/async", json!({ "script": script, "args": [] })).await
    }

    async fn devtools(&self, command: &str, parameters: Value) -> Value {
        self.done("/goog/cdp/execute", json!({ "cmd": command, "params": parameters })).await
    }

    /// Looks at the page in another way.
    pub async fn look(&self, (width, height, is_dark): Look) {
        let scheme = json!({ "name": "prefers-color-scheme", "value": if is_dark { "dark" } else { "light" } });
        // Colours that change slowly would be measured on their way.
        let still = json!({ "name": "prefers-reduced-motion", "value": "reduce" });
        self.devtools("Emulation.setEmulatedMedia", json!({ "features": [scheme, still] })).await;
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500 });
        self.devtools("Emulation.setDeviceMetricsOverride", size).await;
    }

    /// Whether pages run scripts from now on.
    pub async fn runs_scripts(&self, are_run: bool) {
        self.devtools("Emulation.setScriptExecutionDisabled", json!({ "value": !are_run })).await;
    }

    /// What the browser has complained of since this was asked last.
    pub async fn complaints(&self) -> Vec<String> {
        let lines = self.done("/se/log", json!({ "type": "browser" })).await;
        let lines = lines.as_array().cloned().unwrap_or_default();
        lines.iter().filter_map(|line| line["message"].as_str().map(str::to_owned)).collect()
    }

    /// Keeps a picture of the whole page in the folder that `PLATFORM_PICTURES` names, for people.
    pub async fn keep_picture(&self, name: &str) {
        let Some(folder) = std::env::var_os("PLATFORM_PICTURES").map(PathBuf::from) else { return };
        let whole = json!({ "format": "png", "captureBeyondViewport": true });
        let picture = self.devtools("Page.captureScreenshot", whole).await;
        let picture = STANDARD.decode(picture["data"].as_str().unwrap_or_default()).expect("it is base64");
        fs::write(folder.join(format!("{name}.png")), picture).expect("the folder can be written");
    }

    /// What axe finds wrong on the page.
    async fn faults(&self, axe: &str) -> Vec<String> {
        self.run(axe).await;
        let script = "const done = arguments[arguments.length - 1];
            axe.run().then((found) => done(found.violations.map((fault) =>
                fault.id + ': ' + fault.nodes.map((node) => node.html + ' ' + node.failureSummary).join('; '))));";
        let found = self.run_long(script).await;
        found.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// Fails where axe finds something on the page, in light or dark, or where it does not fit into a narrow window.
    pub async fn assert_usable(&self, axe: &str, name: &str) {
        for (width, height, is_dark) in LOOKS {
            self.look((width, height, is_dark)).await;
            let found = self.faults(axe).await;
            assert!(found.is_empty(), "{name} {width} {}: {found:#?}", self.url().await);
            let is_cut = "return document.documentElement.scrollWidth > innerWidth";
            assert_eq!(self.run(is_cut).await, false, "{name} fits into {width}");
            self.keep_picture(&format!("{name}-{width}-{}", if is_dark { "dark" } else { "light" })).await;
        }
    }

    /// Waits for a page that says something.
    pub async fn says(&self, what: &str) {
        let said = eventually(what, async || self.text().await.contains(what).then_some(()));
        if timeout(SAID_WITHIN, said).await.is_err() {
            let (url, text) = (self.url().await, self.text().await);
            panic!("waited in vain for {what}: {url} {text}");
        }
    }
}
