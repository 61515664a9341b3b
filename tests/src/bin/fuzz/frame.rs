//! Bodies of gRPC, gRPC-web and HTTP requests, sent to a mounted operation.

use std::sync::{Arc, Mutex, PoisonError};

use axum::{
    Router,
    body::{Body, Bytes, to_bytes},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use edge::{
    answer::Answer,
    error::Error,
    mount::{Admit, fallbacks, mount},
};
use http::{HeaderMap, Request, request::Parts};
use prost::Message;
use proto::{
    action::{CreateTargetRequest, CreateTargetResponse},
    operation::{CREATE_TARGET, Facts},
};
use tokio::runtime::Runtime;
use tonic::Status;
use tonic_types::StatusExt;
use tower::ServiceExt;

use crate::{json, mutate::mutate, random::Random, run::Target, shape};

/// The content types of bodies, which the first byte of an input chooses.
const KINDS: [&str; 4] =
    ["application/grpc", "application/grpc-web+proto", "application/grpc-web-text", "application/json"];
const JSON: usize = 3;
const TEXT: usize = 2;

/// A target for a kind and a body.
pub(crate) struct Frames {
    runtime: Runtime,
    router: Router,
    read: Arc<Mutex<Option<CreateTargetRequest>>>,
}

/// Admits every request.
struct Open;

impl Admit for Open {
    type Call = ();

    async fn admit(&self, _: &'static Facts, _: &Parts) -> Result<(), Error> {
        Ok(())
    }
}

impl Frames {
    pub(crate) fn new() -> Self {
        let read = Arc::new(Mutex::new(None));
        let keep = read.clone();
        let create = move |(), request: CreateTargetRequest| {
            let signing_key = request.target.as_ref().map(|target| target.name.clone()).unwrap_or_default();
            *keep.lock().unwrap_or_else(PoisonError::into_inner) = Some(request);
            std::future::ready(Ok(Answer::from(CreateTargetResponse { details: None, signing_key })))
        };
        let router = fallbacks(mount(Router::new(), &Arc::new(Open), create));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("it needs nothing");
        Self { runtime, router, read }
    }

    /// Sends a body, and returns the request that the handler got, if any, and the answer.
    fn send(&self, kind: usize, body: &[u8]) -> (Option<CreateTargetRequest>, u16, HeaderMap, Bytes) {
        let path = if kind == JSON { CREATE_TARGET.facts.path } else { CREATE_TARGET.facts.grpc };
        let request = Request::post(path).header("content-type", KINDS[kind]).body(Body::from(body.to_vec()));
        let answered = async {
            let Ok(response) = self.router.clone().oneshot(request.expect("it is a request")).await;
            let (parts, body) = response.into_parts();
            (parts.status.as_u16(), parts.headers, to_bytes(body, usize::MAX).await.expect("it is whole"))
        };
        let (status, headers, body) = self.runtime.block_on(answered);
        (self.read.lock().unwrap_or_else(PoisonError::into_inner).take(), status, headers, body)
    }
}

impl Target for Frames {
    fn seeds(&mut self, random: &mut Random) -> Vec<Vec<u8>> {
        let mut seeds = vec![];
        for kind in 0..KINDS.len() {
            for _ in 0..4 {
                let fields = shape::message(CREATE_TARGET.facts.request, random);
                let request = serde_json::from_value(fields.into()).expect("it is made of the descriptor");
                seeds.push([&[u8::try_from(kind).unwrap_or_default()], &written(kind, &request)[..]].concat());
            }
        }
        seeds
    }

    fn mutate(&self, input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
        let kind = kind(input);
        let mut body = input.get(1..).unwrap_or_default().to_vec();
        let other = other.get(1..).unwrap_or_default();
        match (kind, serde_json::from_slice(&body)) {
            (JSON, Ok(mut tree)) if random.once_in(2) => {
                json::mutate(&mut tree, &serde_json::from_slice(other).unwrap_or_default(), &shape::WORDS, random);
                body.clear();
                json::print(&tree, random, &mut body);
            }
            (TEXT, _) if random.once_in(2) => {
                let mut bytes = STANDARD.decode(&body).unwrap_or_default();
                mutate(&mut bytes, &STANDARD.decode(other).unwrap_or_default(), &shape::WORDS, random);
                body = STANDARD.encode(refitted(bytes, random)).into_bytes();
            }
            _ => {
                mutate(&mut body, other, &shape::WORDS, random);
                if kind < TEXT {
                    body = refitted(body, random);
                }
            }
        }
        let kind = if random.once_in(30) { random.below(KINDS.len()) } else { kind };
        *input = [&[u8::try_from(kind).unwrap_or_default()], &body[..]].concat();
    }

    fn check(&mut self, input: &[u8]) -> String {
        let kind = kind(input);
        let (read, status, headers, body) = self.send(kind, input.get(1..).unwrap_or_default());
        let outcome = if kind == JSON { of_http(status, &body) } else { of_grpc(status, &headers, &body) };
        assert_eq!(read.is_some(), outcome == "OK", "the handler is asked for what is accepted");
        if let Some(read) = read {
            let (again, ..) = self.send(kind, &written(kind, &read));
            assert_eq!(again.as_ref(), Some(&read), "written and read again");
            return format!(
                "{kind} {:?}",
                read.target.map(|it| (it.target_type.is_some(), it.timeout, it.execution_type))
            );
        }
        format!("{kind} {outcome}")
    }
}

fn kind(input: &[u8]) -> usize {
    input.first().map_or(0, |kind| usize::from(*kind) % KINDS.len())
}

/// Returns the body of a request.
fn written(kind: usize, request: &CreateTargetRequest) -> Vec<u8> {
    if kind == JSON {
        return request
            .target
            .as_ref()
            .map(|target| serde_json::to_vec(target).expect("it has a JSON form"))
            .unwrap_or_default();
    }
    let message = request.encode_to_vec();
    let frame = [&[0], &length(&message)[..], &message].concat();
    if kind == TEXT { STANDARD.encode(frame).into_bytes() } else { frame }
}

fn length(message: &[u8]) -> [u8; 4] {
    u32::try_from(message.len()).unwrap_or_default().to_be_bytes()
}

/// Mostly corrects the length in a frame, without which nothing after it would be read.
fn refitted(mut frame: Vec<u8>, random: &mut Random) -> Vec<u8> {
    if frame.len() >= 5 && !random.once_in(4) {
        let length = length(&frame[5..]);
        frame[1..5].copy_from_slice(&length);
    }
    frame
}

/// Returns the reason of an answer over HTTP.
fn of_http(status: u16, body: &[u8]) -> String {
    if status == CREATE_TARGET.facts.success {
        return "OK".to_owned();
    }
    let error: serde_json::Value = serde_json::from_slice(body).expect("an error is JSON");
    assert!((400..500).contains(&status), "{status}: {error}");
    error["details"][0]["reason"].as_str().expect("an error has a reason").to_owned()
}

/// Returns the reason of an answer over gRPC, whose trailers may be at the end of its body.
fn of_grpc(status: u16, headers: &HeaderMap, body: &[u8]) -> String {
    assert_eq!(status, 200, "gRPC has statuses of its own");
    let Some(status) = Status::from_header_map(headers) else {
        assert!(body.len() >= 5, "there is a message");
        return "OK".to_owned();
    };
    let reason = status.get_error_details().error_info().map(|info| info.reason.clone()).expect("it has a reason");
    assert!(reason != "INTERNAL", "{status:?}");
    reason
}
