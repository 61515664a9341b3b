//! Any command node answers: requests that reach a standby are passed on to the node that writes, at most one hop.
//!
//! They travel over the bus, where nodes know each other by name, so that no node needs an address that another can
//! reach. What is passed on is the request as it came, with its caller's token: the node that writes admits it like any
//! other, and who has none is refused before. While nobody writes a request waits; once it may have been delivered it is not sent again, because what
//! became of it is not known.

use std::{future::Future, sync::Arc, time::Duration};

use async_nats::{Client, RequestErrorKind, Subscriber};
use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    middleware::{Next, from_fn_with_state},
    response::Response,
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use futures::StreamExt;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, request::Parts};
use http_body_util::{BodyExt, Full};
use prost::Message;
use proto::bus;
use store::metric::catalog::COMMANDS_FORWARDED;
use tokio::{
    sync::{Semaphore, watch},
    time::{Instant, sleep, timeout, timeout_at},
};
use tower::ServiceExt;
use transport::{
    edge::Edge,
    error::{Error, Reason},
    mount::{read_body, refuse},
};

use crate::writer::{Phase, writer_unavailable};

/// How long a request waits for a node that writes: longer than a take-over takes.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the answer to a request that was passed on may take: longer than a command may take.
const ANSWER: Duration = Duration::from_secs(35);
/// How much longer an answer is waited for when another node may write.
const GRACE: Duration = Duration::from_secs(1);
/// How long a request waits before it is offered again to a node that does not listen.
const PAUSE: Duration = Duration::from_millis(50);
/// How many requests a node passes on at a time, and how many it takes from others.
const MOST: usize = 1024;
/// What a message has beside its payload, in bytes, at most.
const FRAME: usize = 1024;

/// The way to the other command nodes.
struct Way {
    edge: Arc<Edge>,
    client: Client,
    shard: u16,
    phases: watch::Receiver<Phase>,
    seats: Semaphore,
}

/// Why there is no answer from the node that writes.
enum Lost {
    /// It was not delivered.
    Unsent,
    /// It may have been done or not.
    Unknown,
}

/// Lets a node of this name take requests from standbys, and pass on what reaches it while it is one.
///
/// # Errors
/// When the bus cannot be listened to.
pub async fn forwarding(
    routes: Router,
    edge: &Arc<Edge>,
    client: Client,
    (shard, name): (u16, &str),
    phases: watch::Receiver<Phase>,
) -> Result<Router, async_nats::SubscribeError> {
    // Of two nodes that wrongly have one name only one may do what is asked.
    let requests = client.queue_subscribe(subject(shard, name), "node".to_owned()).await?;
    tokio::spawn(take(routes.clone(), client.clone(), requests));
    let way = Arc::new(Way { edge: edge.clone(), client, shard, phases, seats: Semaphore::new(MOST) });
    Ok(routes.route_layer(from_fn_with_state(way, pass_on)))
}

/// Where a node is asked; names may have characters that subjects cannot have.
fn subject(shard: u16, name: &str) -> String {
    format!("commands.{shard}.{}", URL_SAFE_NO_PAD.encode(name))
}

/// Does what other nodes pass on, until the connection ends.
async fn take(routes: Router, client: Client, mut requests: Subscriber) {
    let seats = Arc::new(Semaphore::new(MOST));
    while let Some(message) = requests.next().await {
        let Some(reply) = message.reply else { continue };
        // The semaphore is never closed.
        let Ok(seat) = seats.clone().acquire_owned().await else { return };
        let (routes, client) = (routes.clone(), client.clone());
        tokio::spawn(async move {
            let _seat = seat;
            let answer = answer(routes, message.payload).await;
            if let Err(error) = client.publish(reply, answer.encode_to_vec().into()).await {
                tracing::warn!(error = store::explain::explain(&error), "an answer was not passed back");
            }
        });
    }
}

async fn answer(routes: Router, payload: Bytes) -> bus::PassedAnswer {
    let request = bus::PassedRequest::decode(payload).ok().and_then(unpacked);
    let response = match request {
        // Routes are asked without what concerns all requests: the node that the client reached has done that.
        Some(request) => routes.oneshot(request).await.unwrap_or_else(|never| match never {}),
        None => return bus::PassedAnswer { status: 400, ..bus::PassedAnswer::default() },
    };
    let (parts, body) = response.into_parts();
    let collected = body.collect().await.unwrap_or_default();
    let trailers = collected.trailers().map(packed_headers).unwrap_or_default();
    bus::PassedAnswer {
        status: parts.status.as_u16().into(),
        headers: packed_headers(&parts.headers),
        body: collected.to_bytes(),
        trailers,
    }
}

/// Serves a request here, or passes it on, as soon as there is a node that writes.
async fn pass_on(State(way): State<Arc<Way>>, request: Request, next: Next) -> Response {
    if *way.phases.borrow() == Phase::Active {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    if !way.edge.recognises(&parts).await {
        // It would be refused there too, so it takes no room here.
        return next.run(Request::from_parts(parts, body)).await;
    }
    let refused = |parts: Parts, error| refuse(Request::from_parts(parts, Body::empty()), error);
    let most = way.client.server_info().max_payload;
    let body = match read_body(body, most).await {
        Ok(body) => body,
        Err(error) => return refused(parts, error).await,
    };
    let Ok(_seat) = way.seats.try_acquire() else {
        return refused(parts, writer_unavailable("too many commands wait to be passed on")).await;
    };
    let packed = Bytes::from(packed(&parts, &body).encode_to_vec());
    if packed.len() > most.saturating_sub(FRAME) {
        let message = "the command is too large to be passed on to the node that writes";
        return refused(parts, Error::new(Reason::BodyTooLarge, message)).await;
    }
    match way.find(&packed).await {
        Some(Ok(response)) => {
            COMMANDS_FORWARDED.with(&["answered"]).count();
            response
        }
        Some(Err(error)) => {
            COMMANDS_FORWARDED.with(&["refused"]).count();
            refused(parts, error).await
        }
        None => next.run(Request::from_parts(parts, body.into())).await,
    }
}

impl Way {
    /// What the node that writes answers; `None` where that is this one, or nobody.
    async fn find(&self, packed: &Bytes) -> Option<Result<Response, Error>> {
        let (mut phases, deadline) = (self.phases.clone(), Instant::now() + PATIENCE);
        loop {
            let phase = phases.borrow_and_update().clone();
            let pause = match phase {
                Phase::Active | Phase::Ended => return None,
                Phase::Standby(Some(writer)) => match self.send(&writer, packed).await {
                    Ok(response) => return Some(Ok(response)),
                    Err(Lost::Unknown) => return Some(Err(unknown())),
                    // Its lease goes on for a while when it is dead.
                    Err(Lost::Unsent) => PAUSE,
                },
                Phase::Standby(None) | Phase::TakingOver => PATIENCE,
            };
            let changed = async {
                tokio::select! {
                    changed = phases.changed() => changed.is_ok(),
                    () = sleep(pause) => true,
                }
            };
            if !matches!(timeout_at(deadline, changed).await, Ok(true)) {
                return None;
            }
        }
    }

    async fn send(&self, writer: &Arc<str>, packed: &Bytes) -> Result<Response, Lost> {
        let request = async_nats::Request::new().payload(packed.clone()).timeout(Some(ANSWER));
        let sent = self.client.send_request(subject(self.shard, writer), request);
        let answered = self.while_it_writes(writer, sent).await.ok_or(Lost::Unknown)?;
        match answered {
            Ok(message) => bus::PassedAnswer::decode(message.payload).ok().and_then(response).ok_or(Lost::Unknown),
            Err(error) if error.kind() == RequestErrorKind::NoResponders => Err(Lost::Unsent),
            Err(_) => Err(Lost::Unknown),
        }
    }

    /// Waits for an answer for as long as this node writes, and a little longer.
    async fn while_it_writes<T>(&self, writer: &Arc<str>, answer: impl Future<Output = T>) -> Option<T> {
        let mut phases = self.phases.clone();
        let replaced = async {
            // What it gives would keep the phase from changing.
            let _ = phases.wait_for(|phase| !matches!(phase, Phase::Standby(Some(name)) if name == writer)).await;
        };
        let mut answer = std::pin::pin!(answer);
        tokio::select! {
            answer = &mut answer => Some(answer),
            () = replaced => timeout(GRACE, answer).await.ok(),
        }
    }
}

fn unknown() -> Error {
    writer_unavailable(
        "the node that writes did not answer and the outcome is not known; send the command again with the same \
         Idempotency-Key",
    )
}

fn packed(parts: &Parts, body: &Bytes) -> bus::PassedRequest {
    bus::PassedRequest {
        method: parts.method.as_str().to_owned(),
        uri: parts.uri.to_string(),
        headers: packed_headers(&parts.headers),
        body: body.clone(),
    }
}

fn unpacked(packed: bus::PassedRequest) -> Option<Request> {
    let mut request =
        Request::builder().method(packed.method.as_str()).uri(packed.uri).body(packed.body.into()).ok()?;
    *request.headers_mut() = headers(packed.headers)?;
    Some(request)
}

fn response(packed: bus::PassedAnswer) -> Option<Response> {
    let trailers = headers(packed.trailers)?;
    let body = Full::new(packed.body);
    let body = if trailers.is_empty() {
        Body::new(body)
    } else {
        Body::new(body.with_trailers(async move { Some(Ok(trailers)) }))
    };
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(u16::try_from(packed.status).ok()?).ok()?;
    *response.headers_mut() = headers(packed.headers)?;
    Some(response)
}

fn packed_headers(headers: &HeaderMap) -> Vec<bus::Header> {
    let packed = |(name, value): (&HeaderName, &HeaderValue)| bus::Header {
        name: name.as_str().to_owned(),
        value: Bytes::copy_from_slice(value.as_bytes()),
    };
    headers.iter().map(packed).collect()
}

fn headers(packed: Vec<bus::Header>) -> Option<HeaderMap> {
    let unpacked = |header: bus::Header| {
        Some((header.name.parse::<HeaderName>().ok()?, HeaderValue::from_maybe_shared(header.value).ok()?))
    };
    packed.into_iter().map(unpacked).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_arrives_as_it_came() {
        let request = Request::post("http://id.example:8080/a/b?c=%20d").header("x-many", "1").header("x-many", "2");
        let request = request.header("x-latin", HeaderValue::from_bytes(b"\xe9").unwrap()).body(()).unwrap();
        let (parts, ()) = request.into_parts();
        let sent = packed(&parts, &Bytes::from_static(b"\0body")).encode_to_vec();
        let (arrived, _) = unpacked(bus::PassedRequest::decode(sent.as_slice()).unwrap()).unwrap().into_parts();
        assert_eq!((&arrived.method, &arrived.uri, &arrived.headers), (&parts.method, &parts.uri, &parts.headers));
    }

    #[tokio::test]
    async fn an_answer_arrives_with_its_trailers() {
        let trailers = vec![bus::Header { name: "grpc-status".to_owned(), value: Bytes::from_static(b"0") }];
        let answer = bus::PassedAnswer { status: 200, headers: vec![], body: Bytes::from_static(b"x"), trailers };
        let collected = response(answer).unwrap().into_body().collect().await.unwrap();
        assert_eq!(collected.trailers().unwrap()["grpc-status"], "0");
        assert_eq!(collected.to_bytes(), "x");
    }

    #[test]
    fn a_name_is_one_part_of_a_subject() {
        assert_eq!(subject(0, "a.b *>").split('.').count(), 3);
        assert_ne!(subject(0, "a"), subject(0, "b"));
    }
}
