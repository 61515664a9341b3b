//! Requests in turns with their baselines: bare handlers, in a process of their own, that do the same cryptography and
//! nothing else.

use std::{process::Stdio, sync::Arc};

use futures::{FutureExt, future::BoxFuture};
use reqwest::{Method, RequestBuilder};
use rustix::process::Pid;
use tests::platform::Platform;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use crate::{cpu, load};

const CLIENTS: usize = 16;
const ROUNDS: usize = 3;
const SECONDS: u64 = 2;

/// An operation that a client repeats, which returns whether the answer was right.
pub(crate) type Operation = Arc<dyn Fn(usize) -> BoxFuture<'static, bool> + Send + Sync>;

/// A row of measurements.
pub(crate) struct Row {
    /// The printed name.
    pub(crate) name: &'static str,
    /// The operation on the platform.
    pub(crate) ours: Operation,
    /// The operation on the bare handlers.
    pub(crate) bare: Operation,
}

/// The bare handlers.
pub(crate) struct Floor {
    process: Child,
    pid: Pid,
    /// Their URL.
    pub(crate) url: String,
}

impl Floor {
    /// Starts the bare handlers, with the NATS server of a platform for those that write.
    pub(crate) async fn start(platform: &Platform) -> Self {
        let binary = std::env::current_exe().expect("it knows where it is");
        let mut bare = Command::new(binary);
        let (url, token) = platform.nats();
        bare.args(["bare", &url, &token]).stdout(Stdio::piped()).kill_on_drop(true);
        let mut process = bare.spawn().expect("it starts");
        let stdout = process.stdout.take().expect("it is piped");
        let mut lines = BufReader::new(stdout).lines();
        let address = lines.next_line().await.expect("it starts").expect("it says where it is");
        let pid = process.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw).expect("it runs");
        Self { process, pid, url: format!("http://{address}") }
    }
}

/// Measures each row in turns with its baseline, and prints the median of the ratios.
pub(crate) async fn print(platform: &mut Platform, mut floor: Floor, (title, rows): (&str, Vec<Row>)) {
    println!("\n{title}, {CLIENTS} clients, {ROUNDS} rounds in turns");
    println!("{:<36} {:>7} {:>8} {:>12} {:>7}", "", "per s", "ms CPU", "bare ms CPU", "ratio");
    for Row { name, ours, bare } in rows {
        let mut rounds = vec![];
        for _ in 0..ROUNDS {
            let (own, rate) = one((name, &ours), platform.process().pid()).await;
            let (floor, _) = one((name, &bare), floor.pid).await;
            rounds.push((own / floor, own, floor, rate));
        }
        rounds.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (ratio, own, floor, rate) = rounds[ROUNDS / 2];
        println!("{name:<36} {rate:>7.0} {own:>8.4} {floor:>12.4} {ratio:>7.2}");
    }
    println!("(to reach: 2)");
    let _ = floor.process.kill().await;
}

async fn one((name, operation): (&str, &Operation), pid: Pid) -> (f64, f64) {
    assert!(operation(0).await, "{name}: it is answered right");
    let (before, operation) = (cpu::of(pid), operation.clone());
    let outcome = load::run(CLIENTS, SECONDS, move |client| operation(client)).await;
    assert_eq!(outcome.failed, 0, "{name}: it fails under load");
    (outcome.ms_each(cpu::of(pid).saturating_sub(before)), outcome.rate())
}

/// A request that is repeated.
#[derive(Clone)]
pub(crate) struct Call {
    /// The HTTP method.
    pub(crate) method: Method,
    /// The URL.
    pub(crate) url: String,
    /// The form; empty for a read.
    pub(crate) form: Vec<(&'static str, String)>,
    /// A part of every right answer.
    pub(crate) has: &'static str,
    /// A client id and its secret, where they are sent in a header.
    pub(crate) basic: Option<(String, String)>,
    /// The access token that is sent in a header.
    pub(crate) bearer: Option<String>,
}

impl Call {
    /// Returns a request that sends a form.
    pub(crate) fn post(url: String, form: Vec<(&'static str, String)>, has: &'static str) -> Self {
        Self { method: Method::POST, url, form, has, basic: None, bearer: None }
    }

    /// Returns a request that reads.
    pub(crate) fn get(url: String, has: &'static str) -> Self {
        Self { method: Method::GET, ..Self::post(url, vec![], has) }
    }

    /// Returns the request for a client.
    pub(crate) fn request(&self, http: &reqwest::Client) -> RequestBuilder {
        let request = http.request(self.method.clone(), &self.url);
        let request = if self.form.is_empty() { request } else { request.form(&self.form) };
        let request = self.bearer.iter().fold(request, RequestBuilder::bearer_auth);
        self.basic.iter().fold(request, |request, (id, secret)| request.basic_auth(id, Some(secret)))
    }

    /// Returns the operation that sends the request.
    pub(crate) fn operation(self) -> Operation {
        let (http, call) = (client(), Arc::new(self));
        Arc::new(move |_| {
            let (request, call) = (call.request(&http), call.clone());
            async move {
                let Ok(answer) = request.send().await else { return false };
                answer.status() == 200 && answer.text().await.is_ok_and(|body| body.contains(call.has))
            }
            .boxed()
        })
    }
}

/// Returns a client that follows no redirects.
pub(crate) fn client() -> reqwest::Client {
    let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
    client.build().expect("a client")
}
