//! An HTTP server in the test process, for targets: it records its calls, and answers as the test wants.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::State,
    response::Response,
};
use http::{HeaderMap, StatusCode};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle, time::sleep};

use crate::{
    client::{Answer, Client, EXECUTIONS, TARGETS, send},
    eventually,
};

/// An endpoint, which ends when it is dropped.
#[derive(Debug)]
pub struct Endpoint {
    /// The URL of the endpoint.
    pub url: String,
    state: Arc<Inner>,
    serving: JoinHandle<()>,
}

#[derive(Debug)]
struct Inner {
    calls: Mutex<Vec<Called>>,
    /// How many calls were in progress at most, and are now.
    under_way: Mutex<(usize, usize)>,
    reply: Mutex<Reply>,
}

/// One call of the endpoint.
#[derive(Debug, Clone)]
pub struct Called {
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

/// The answer of an endpoint.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// Further headers.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Bytes,
    /// The delay before the answer.
    pub delay: Duration,
    /// Whether the body comes byte by byte, ten a second.
    pub drips: bool,
}

impl Reply {
    /// Returns an answer with a status and without a body.
    pub fn status(status: u16) -> Self {
        Self { status, headers: vec![], body: Bytes::new(), delay: Duration::ZERO, drips: false }
    }

    /// Returns a successful answer with this body.
    pub fn json(body: &Value) -> Self {
        Self { body: body.to_string().into(), ..Self::status(200) }
    }

    /// Returns the answer with a delay.
    pub fn after(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }
}

impl Called {
    /// Returns the body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Returns a header as text.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

impl Endpoint {
    /// Starts an endpoint that answers with success.
    pub async fn start() -> Self {
        Self::replying(Reply::status(200)).await
    }

    /// Starts an endpoint with this answer.
    pub async fn replying(reply: Reply) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there are free ports");
        let url = format!("http://{}/hook", listener.local_addr().expect("it listens"));
        let state = Arc::new(Inner { calls: Mutex::default(), under_way: Mutex::default(), reply: Mutex::new(reply) });
        let router = Router::new().fallback(answer).with_state(state.clone());
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.expect("it serves") });
        Self { url, state, serving }
    }

    /// Changes the answer.
    pub fn reply(&self, reply: Reply) {
        *self.state.reply.lock().unwrap_or_else(PoisonError::into_inner) = reply;
    }

    /// Returns the calls so far.
    pub fn calls(&self) -> Vec<Called> {
        self.state.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Removes and returns the calls so far.
    pub fn take(&self) -> Vec<Called> {
        std::mem::take(&mut *self.state.calls.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns how many calls were in progress at the same time, at most.
    pub fn most_at_once(&self) -> usize {
        self.state.under_way.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    /// Waits for a number of calls, and returns the calls.
    pub async fn called(&self, times: usize) -> Vec<Called> {
        eventually(&format!("{times} calls of {}", self.url), || {
            let calls = self.calls();
            std::future::ready((calls.len() >= times).then_some(calls))
        })
        .await
    }

    /// Creates a target with this endpoint, with members in addition to name and type; returns its id and signing key.
    pub async fn target(&self, client: &Client, kind: &str, members: &Value) -> (String, String) {
        let mut target = json!({ "name": "endpoint", kind: { "url": self.url } });
        for (name, value) in members.as_object().into_iter().flatten() {
            target[name] = value.clone();
        }
        let created = send(client.request(Method::POST, TARGETS).json(&target)).await;
        assert_eq!(created.status, StatusCode::CREATED, "{}", created.body);
        (created.id(), created.body["signingKey"].as_str().expect("it is shown").to_owned())
    }
}

/// Sets the targets of a condition.
pub async fn execute(client: &Client, condition: Value, targets: &[&str]) -> Answer {
    let mut execution = json!({ "targets": targets });
    execution["condition"] = condition;
    let put = send(client.request(Method::POST, EXECUTIONS).json(&execution)).await;
    assert!(put.status.is_success(), "{}", put.body);
    put
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn answer(State(state): State<Arc<Inner>>, headers: HeaderMap, body: Bytes) -> Response {
    state.calls.lock().unwrap_or_else(PoisonError::into_inner).push(Called { headers, body });
    let enter = |more: isize| {
        let mut under_way = state.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        under_way.1 = under_way.1.saturating_add_signed(more);
        under_way.0 = under_way.0.max(under_way.1);
    };
    enter(1);
    let reply = state.reply.lock().unwrap_or_else(PoisonError::into_inner).clone();
    sleep(reply.delay).await;
    enter(-1);
    let mut response = Response::builder().status(reply.status);
    for (name, value) in reply.headers {
        response = response.header(name, value);
    }
    let body = if reply.drips { dripping(reply.body) } else { Body::from(reply.body) };
    response.body(body).expect("the test gives valid headers")
}

fn dripping(body: Bytes) -> Body {
    Body::from_stream(futures::stream::unfold(body, async |mut rest| {
        sleep(Duration::from_millis(100)).await;
        let next = (!rest.is_empty()).then(|| rest.split_to(1))?;
        Some((Ok::<_, std::io::Error>(next), rest))
    }))
}
