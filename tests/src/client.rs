//! A client that speaks HTTP and JSON, with the token of a service user.

use std::{net::SocketAddr, time::Duration};

use reqwest::{Body, Method, RequestBuilder, Response, StatusCode, Url, header::HeaderMap, redirect::Policy};
use serde::Deserialize;
use serde_json::{Value, json};

/// The scopes that the platform's API requires.
pub const SCOPE: &str = "openid urn:platform:iam:org:project:id:platform:aud";

/// A service user.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceUser {
    /// The id of the user.
    pub user_id: String,
    /// The client id.
    pub client_id: String,
    /// The client secret.
    pub client_secret: String,
}

/// A client of the platform's API.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    base: String,
    /// The access token.
    pub token: String,
}

/// An answer with its body.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body; `null` where it is no JSON.
    pub body: Value,
}

impl Client {
    /// Gets a token and makes a client that sends it.
    pub async fn log_in(base: &str, user: &ServiceUser) -> Self {
        Self::try_log_in(base, user).await.unwrap_or_else(|answer| panic!("no token: {answer:?}"))
    }

    /// Gets a token and makes a client that sends it, or returns the answer that refuses the token.
    pub async fn try_log_in(base: &str, user: &ServiceUser) -> Result<Self, Answer> {
        let client = Self::with_token(base, String::new());
        let form = [("grant_type", "client_credentials"), ("scope", SCOPE)];
        let request = client.anonymous(Method::POST, "/oauth/v2/token");
        let request = request.basic_auth(&user.client_id, Some(&user.client_secret));
        let answer = Answer::of(request.form(&form).send().await.expect("the token endpoint answers")).await;
        let token = answer.body["access_token"].as_str().map(str::to_owned);
        token.map(|token| client.with(token)).ok_or(answer)
    }

    /// Returns a client that sends this token.
    pub fn with_token(base: &str, token: String) -> Self {
        // A connection that the server is about to close for idleness is not used again.
        let builder = http(base).pool_idle_timeout(Duration::from_secs(5)).redirect(Policy::none());
        let http = builder.timeout(Duration::from_mins(1)).build().expect("a client");
        Self { http, base: base.to_owned(), token }
    }

    /// Returns the client for a node at another address.
    pub fn at(&self, base: &str) -> Self {
        Self { base: base.to_owned(), ..self.clone() }
    }

    /// Returns the client with another token.
    pub fn with(&self, token: String) -> Self {
        Self { token, ..self.clone() }
    }

    /// Returns the client with connections of its own, which it needs on another runtime.
    pub fn reconnected(&self) -> Self {
        Self::with_token(&self.base, self.token.clone())
    }

    /// Returns a request with the token, to be sent with [`send`].
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base)).bearer_auth(&self.token)
    }

    /// Returns a request without the token.
    pub fn anonymous(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("{}{path}", self.base))
    }

    /// Creates a target and returns its id, or nothing where the platform has not acknowledged it.
    pub async fn create_target(&self, name: &str) -> Option<String> {
        let request = self.request(Method::POST, TARGETS).json(&target(name));
        let answer = Answer::of(request.send().await.ok()?).await;
        (answer.status == StatusCode::CREATED).then(|| answer.id())
    }

    /// Gets a target as of a consistency token or later.
    pub async fn get_target(&self, id: &str, consistency: Option<&str>) -> Answer {
        let request = self.request(Method::GET, &format!("{TARGETS}/{id}"));
        send(match consistency {
            Some(token) => request.header("consistency-token", token).header("consistency-wait", "10s"),
            None => request,
        })
        .await
    }
}

/// Returns a client for requests to this base. Hosts of tests are names of this machine, which not every resolver
/// knows, and nobody has issued their certificates.
pub fn http(base: &str) -> reqwest::ClientBuilder {
    let url: Url = base.parse().expect("a base is a URL");
    let builder = reqwest::Client::builder().no_proxy().tls_danger_accept_invalid_certs(true);
    match url.host_str() {
        Some(host) if host.ends_with(LOCAL) => builder.resolve(host, SocketAddr::from(([127, 0, 0, 1], 0))),
        _ => builder,
    }
}

/// Returns the address that a base resolves to.
pub fn address(base: &str) -> String {
    let url: Url = base.parse().expect("a base is a URL");
    let (host, port) = (url.host_str().unwrap_or_default(), url.port_or_known_default().unwrap_or_default());
    let host = if host.ends_with(LOCAL) { "127.0.0.1" } else { host };
    format!("{host}:{port}")
}

/// The suffix of names of this machine.
const LOCAL: &str = ".localhost";

/// The path of targets.
pub const TARGETS: &str = "/resources/v3alpha/targets";

/// The path of executions.
pub const EXECUTIONS: &str = "/resources/v3alpha/executions";

/// Returns the body that creates a target.
pub fn target(name: &str) -> Value {
    json!({ "name": name, "restWebhook": { "url": "https://example.com/hook" } })
}

/// Sends a request and reads the answer.
pub async fn send(request: RequestBuilder) -> Answer {
    Answer::of(request.send().await.expect("the platform answers")).await
}

/// Sends JSON.
pub async fn post(client: &Client, path: &str, body: Value) -> Answer {
    send(client.request(Method::POST, path).json(&body)).await
}

/// Creates something.
pub async fn created(client: &Client, path: &str, body: Value) -> Answer {
    let answer = post(client, path, body).await;
    assert_eq!(answer.status, StatusCode::CREATED, "{path}: {}", answer.body);
    answer
}

/// Sends text as JSON, which it may not be.
pub async fn post_text(client: &Client, path: &str, body: impl Into<Body>) -> Answer {
    send(client.request(Method::POST, path).header("content-type", "application/json").body(body)).await
}

/// Sends JSON, and waits until the read models have the effect.
pub async fn waited(client: &Client, path: &str, body: Value) -> Answer {
    send(client.request(Method::POST, path).header("prefer", "wait=10").json(&body)).await
}

/// Sends JSON, which must succeed, and waits until the read models have the effect.
pub async fn done(client: &Client, path: &str, body: Value) -> Answer {
    let answer = waited(client, path, body).await;
    assert!(answer.status.is_success(), "{path}: {}", answer.body);
    answer
}

/// Puts an object, which must succeed, and waits until the read models have it.
pub async fn put(client: &Client, path: &str, body: Value) -> Answer {
    let answer = send(client.request(Method::PUT, path).header("prefer", "wait=10").json(&body)).await;
    assert!(answer.status.is_success(), "{path}: {}", answer.body);
    answer
}

/// Creates a service user with a secret, in the organization that a query such as `?ctx.orgId=1` names.
pub async fn service_user(admin: &Client, (username, service): (&str, Value), context: &str) -> ServiceUser {
    let users = "/resources/v3alpha/users";
    let wanted = json!({ "username": username, "service": service });
    let user_id = done(admin, &format!("{users}{context}"), wanted).await.id();
    let secret = done(admin, &format!("{users}/{user_id}/_generate_secret"), json!({})).await;
    let client_secret = secret.body["clientSecret"].as_str().expect("it is shown").to_owned();
    ServiceUser { user_id, client_id: username.to_owned(), client_secret }
}

/// Sends a request that must be as fresh as an earlier answer.
pub async fn after(answer: &Answer, request: RequestBuilder) -> Answer {
    send(request.header("consistency-token", answer.consistency()).header("consistency-wait", "10s")).await
}

impl Answer {
    /// Reads an answer with its body.
    pub async fn of(response: Response) -> Self {
        let (status, headers) = (response.status(), response.headers().clone());
        let body = response.bytes().await.unwrap_or_default();
        Self { status, headers, body: serde_json::from_slice(&body).unwrap_or_default() }
    }

    /// Returns the id in the details.
    pub fn id(&self) -> String {
        self.body["details"]["id"].as_str().unwrap_or_else(|| panic!("no id: {self:?}")).to_owned()
    }

    /// Returns the sequence in the details.
    pub fn sequence(&self) -> u64 {
        let sequence = self.body["details"]["sequence"].as_str().and_then(|sequence| sequence.parse().ok());
        sequence.unwrap_or_else(|| panic!("no sequence: {self:?}"))
    }

    /// Returns the reason of an error.
    pub fn reason(&self) -> &str {
        self.body["details"][0]["reason"].as_str().unwrap_or_default()
    }

    /// Fails unless this is an error with this status and reason, in the form of all errors, and without internal
    /// details.
    pub fn assert_refused(&self, case: &str, status: u16, reason: &str) {
        assert_eq!((self.status.as_u16(), self.reason()), (status, reason), "{case}: {}", self.body);
        let text = self.body.to_string();
        assert!(self.body["code"].as_i64().is_some_and(|code| (1..=16).contains(&code)), "{case}: {text}");
        assert!(self.body["message"].as_str().is_some_and(|message| !message.is_empty()), "{case}: {text}");
        let info = &self.body["details"][0];
        assert_eq!(info["@type"], "type.googleapis.com/google.rpc.ErrorInfo", "{case}: {text}");
        assert_eq!(info["domain"], "platform", "{case}: {text}");
        let details = self.body["details"].as_array().expect("details are a list");
        let named = details.iter().find_map(|detail| detail["requestId"].as_str());
        let id = self.headers.get("x-request-id").and_then(|id| id.to_str().ok());
        assert!(id.is_some() && id == named, "{case}: the header says {id:?}: {text}");
        // The id is random, and may look like a word.
        let told = text.replace(id.unwrap_or_default(), "").to_ascii_lowercase();
        for inside in ["postgres", "select ", "nats", "panicked", ".rs", "/root", "struct "] {
            assert!(!told.contains(inside), "{case}: {text}");
        }
    }

    /// Returns the consistency token.
    pub fn consistency(&self) -> String {
        let token = self.headers.get("consistency-token").expect("every answer of a write or read has one");
        token.to_str().expect("it is text").to_owned()
    }
}
