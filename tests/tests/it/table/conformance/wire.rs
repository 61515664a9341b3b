//! Calls over each transport, as its clients send them.

use std::sync::atomic::{AtomicUsize, Ordering};

use base64::{Engine, engine::general_purpose::STANDARD};
use prost::Message;
use proto::operation::{Facts, Operation};
use reqwest::{Client, Method, Response, Url};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tests::{client, grpc::Grpc, instance::Instance, parts::Parts, platform::Platform, secrets::Secrets};
use tonic::Status;

use super::outcome::{self, Outcome};

/// The transports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    Http1,
    Http2,
    Grpc,
    GrpcWeb,
    GrpcWebText,
}

impl Transport {
    pub(super) const ALL: [Self; 5] = [Self::Http1, Self::Http2, Self::Grpc, Self::GrpcWeb, Self::GrpcWebText];
}

/// A message that can be sent over every transport.
pub(super) trait Travels: Message + Serialize + DeserializeOwned + Default + 'static {}
impl<T: Message + Serialize + DeserializeOwned + Default + 'static> Travels for T {}

/// Headers, or metadata of gRPC.
pub(super) type Headers<'a> = &'a [(&'a str, &'a str)];

/// An instance and a client of it for each transport.
pub(in crate::table) struct World {
    pub(super) owner: client::Client,
    pub(super) operator: client::Client,
    pub(super) nobody: String,
    pub(super) secrets: Secrets,
    pub(super) instance_id: String,
    pub(super) postgres_url: String,
    base: Url,
    http1: Client,
    http2: Client,
    grpc: Grpc,
    sent: AtomicUsize,
    _platform: Option<Platform>,
}

impl World {
    /// Starts a platform of its own, because the compared answers have the progress of its log.
    pub(super) async fn start() -> Self {
        let platform = Platform::start().await;
        platform.ready().await;
        let world = Self::of(&platform).await;
        Self { _platform: Some(platform), ..world }
    }

    pub(in crate::table) async fn of(instance: &Instance) -> Self {
        let issuer = &instance.bootstrap.issuer;
        let builder = || client::http(issuer).no_gzip();
        Self {
            owner: instance.client().await,
            operator: instance.operator().await,
            nobody: instance.client_named("nobody").await.token,
            secrets: Secrets::of(instance).await,
            instance_id: instance.bootstrap.instance_id.clone(),
            postgres_url: instance.postgres_url(),
            base: issuer.parse().expect("the issuer is a URL"),
            http1: builder().http1_only().build().expect("a client"),
            http2: builder().http2_prior_knowledge().build().expect("a client"),
            grpc: Grpc::connect(issuer, None).await,
            sent: AtomicUsize::new(0),
            _platform: None,
        }
    }

    /// Returns how many messages were sent.
    pub(super) fn sent(&self) -> usize {
        self.sent.load(Ordering::Relaxed)
    }

    /// Whether an operation is answered with another status than 501.
    pub(in crate::table) async fn is_built(&self, facts: &Facts) -> bool {
        let url = url(&self.base, facts, &[("id".to_owned(), "1".to_owned())]);
        let response = self.http1.request(method(facts), url).send().await.expect("the platform answers");
        response.status().as_u16() != 501
    }

    /// Sends a message.
    pub(super) async fn call<I: Travels, O: Travels>(
        &self,
        transport: Transport,
        operation: &'static Operation<I, O>,
        message: &I,
        headers: Headers<'_>,
    ) -> Outcome {
        self.sent.fetch_add(1, Ordering::Relaxed);
        let facts = &operation.facts;
        match transport {
            Transport::Http1 => json::<I, O>(&self.http1, &self.base, facts, message, headers).await,
            Transport::Http2 => json::<I, O>(&self.http2, &self.base, facts, message, headers).await,
            Transport::GrpcWeb | Transport::GrpcWebText => {
                self.web::<I, O>(transport == Transport::GrpcWebText, facts, message, headers).await
            }
            Transport::Grpc => {
                let message = I::decode(message.encode_to_vec().as_slice()).expect("it was just encoded");
                match self.grpc.call_with(operation, message, headers).await {
                    Ok(answer) => {
                        let (metadata, message, _) = answer.into_parts();
                        Outcome::new(Ok(as_json(&message)), &metadata.into_headers())
                    }
                    Err(status) => refused(&status),
                }
            }
        }
    }

    async fn web<I: Travels, O: Travels>(
        &self,
        as_text: bool,
        facts: &Facts,
        message: &I,
        headers: Headers<'_>,
    ) -> Outcome {
        let message = message.encode_to_vec();
        let length = u32::try_from(message.len()).expect("it is small").to_be_bytes();
        let frame = [&[0], &length[..], &message].concat();
        let (kind, body) = if as_text {
            ("application/grpc-web-text+proto", STANDARD.encode(frame).into_bytes())
        } else {
            ("application/grpc-web+proto", frame)
        };
        let url = self.base.join(facts.grpc).expect("it is a path");
        let request = self.http1.post(url).header("content-type", kind).body(body);
        let response = sent(request, headers).await;
        assert_eq!(
            (response.status().as_u16(), &response.headers()["content-type"]),
            (200, &kind.parse().expect("it is a header"))
        );
        let headers = response.headers().clone();
        if let Some(status) = Status::from_header_map(&headers) {
            return refused(&status);
        }
        let body = response.bytes().await.expect("a body");
        let body = if as_text { STANDARD.decode(body).expect("it is base64") } else { body.to_vec() };
        let length = u32::from_be_bytes(body[1..5].try_into().expect("four bytes"));
        let (message, trailers) = body[5..].split_at(length.try_into().expect("it fits"));
        assert_eq!((body[0], trailers), (0, &b"\x80\x00\x00\x00\x0fgrpc-status:0\r\n"[..]));
        Outcome::new(Ok(as_json(&O::decode(message).expect("it is of the method's type"))), &headers)
    }
}

/// Sends a message as path, query and body.
async fn json<I: Travels, O: Travels>(
    http: &Client,
    base: &Url,
    facts: &Facts,
    message: &I,
    headers: Headers<'_>,
) -> Outcome {
    let Value::Object(fields) = as_json(message) else { panic!("a message is an object") };
    let parts = Parts::of(facts, fields);
    let mut url = url(base, facts, &parts.path);
    if !parts.query.is_empty() {
        url.query_pairs_mut().extend_pairs(&parts.query);
    }
    let request = http.request(method(facts), url);
    let response = sent(parts.body.iter().fold(request, reqwest::RequestBuilder::json), headers).await;
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let body: Value = response.json().await.expect("the body is JSON");
    if status < 300 {
        assert!(status == facts.success || Some(status) == facts.also, "{} answers {status}", facts.method);
        let message: O = serde_json::from_value(body.clone()).expect("it is of the operation's type");
        assert_eq!(as_json(&message), body, "the JSON holds what the message holds, and nothing more");
        return Outcome::new(Ok(body), &headers);
    }
    let outcome = Outcome::new(Err(outcome::sorted(body)), &headers);
    let reason = outcome::reason_named(outcome.reason());
    assert_eq!(status, reason.http_status().as_u16(), "the status of {}", outcome.reason());
    assert_eq!(headers.contains_key("www-authenticate"), status == 401, "{}", outcome.reason());
    let has_delay = outcome.result.as_ref().is_err_and(|error| error.to_string().contains("retryDelay"));
    assert_eq!(headers.contains_key("retry-after"), has_delay, "{}", outcome.reason());
    outcome
}

async fn sent(request: reqwest::RequestBuilder, headers: Headers<'_>) -> Response {
    let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    request.send().await.expect("the platform answers")
}

fn refused(status: &Status) -> Outcome {
    let outcome = Outcome::new(Err(outcome::of_status(status)), &status.metadata().clone().into_headers());
    assert_eq!(status.code(), outcome::reason_named(outcome.reason()).code(), "the code of {}", outcome.reason());
    outcome
}

fn as_json(message: &impl Serialize) -> Value {
    serde_json::to_value(message).expect("messages have a JSON form")
}

fn method(facts: &Facts) -> Method {
    facts.verb.method().parse().expect("it is a method")
}

/// Returns the URL of an operation, with the parameters of its path.
fn url(base: &Url, facts: &Facts, parameters: &[(String, String)]) -> Url {
    let mut url = base.clone();
    let mut segments = url.path_segments_mut().expect("it can have a path");
    segments.clear();
    for segment in facts.path.split('/').skip(1) {
        let parameter = parameters.iter().find(|(name, _)| format!("{{{name}}}") == segment);
        segments.push(parameter.map_or(segment, |(_, value)| value));
    }
    drop(segments);
    url
}
