//! Lets any command node answer: a standby passes requests on to the node that writes, at most one hop.
//!
//! Requests travel over the bus, where nodes know each other by name, so that no node needs an address that another one
//! can connect to. A request is passed on as it came, with its caller's token: the node that writes admits it like any
//! other, and one without a token is refused before. While no node writes, a request waits. It is sent again only if it
//! certainly was not done; once it may have been done, its outcome is unknown.

use std::{future::Future, sync::Arc, time::Duration};

use async_nats::{Client, RequestErrorKind, Subscriber};
use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    middleware::{Next, from_fn_with_state},
    response::Response,
};
use base::metric::catalog::COMMANDS_FORWARDED;
use bytes::Bytes;
use edge::{
    admission::Edge,
    error::{Error, Reason, Refused},
    mount::{patience, read_body, refuse, too_late},
    passed::{FRAME, packed, packed_headers, response, subject, unpacked},
};
use futures::StreamExt;
use http::request::Parts;
use http_body_util::BodyExt;
use prost::Message;
use proto::bus;
use tokio::{
    sync::{Semaphore, watch},
    time::{Instant, sleep, timeout_at},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt;

use crate::writer::{Phase, outcome_unknown, writer_unavailable};

/// How long a request waits for a node that writes: longer than a take-over takes.
const PATIENCE: Duration = Duration::from_secs(10);
/// How much longer an answer is awaited when another node may write: longer than a node that ends in order takes to
/// answer.
const GRACE: Duration = Duration::from_secs(3);
/// How long a node that has stopped writing must receive no request before it stops listening.
const QUIET: Duration = Duration::from_millis(500);
/// How long a request waits before it is offered again to a node that does not listen.
const PAUSE: Duration = Duration::from_millis(50);
/// How many requests a node passes on at a time, and how many it accepts from others: several times as many as wait for
/// the targets of one instance.
const MOST: usize = 4096;

/// The address of a node on the bus.
#[derive(Debug)]
pub struct Bus {
    /// The connection.
    pub client: Client,
    /// The shard whose commands the node executes.
    pub shard: u16,
    /// The name of the node.
    pub name: String,
}

/// What accepted requests are executed on.
pub struct TaskScope<'a> {
    /// The tasks of the node.
    pub tasks: &'a TaskTracker,
    /// Cancelled when the node is to stop.
    pub stopping: CancellationToken,
}

/// Executes the commands that other nodes pass on.
struct ForwardReceiver {
    routes: Router,
    client: Client,
    phases: watch::Receiver<Phase>,
    tasks: TaskTracker,
}

/// The way to the other command nodes.
struct Forwarder {
    edge: Arc<Edge>,
    client: Client,
    shard: u16,
    phases: watch::Receiver<Phase>,
    seats: Semaphore,
}

/// Why there is no answer from the node that writes.
enum ForwardFailure {
    /// The request was not done.
    Untaken,
    /// The request may have been done or not.
    Unknown,
}

/// Lets a node accept requests from standbys until it is stopped, and pass on the requests of its clients while it is a
/// standby itself. The accepted requests are executed on `tasks`.
///
/// # Errors
/// When the bus cannot be listened to.
pub async fn forwarding(
    routes: Router,
    edge: &Arc<Edge>,
    Bus { client, shard, name }: Bus,
    phases: watch::Receiver<Phase>,
    TaskScope { tasks, stopping }: TaskScope<'_>,
) -> Result<Router, async_nats::SubscribeError> {
    // Of two nodes that wrongly have the same name, only one may execute a request.
    let requests = client.queue_subscribe(subject(shard, &name), "node".to_owned()).await?;
    let receiver = ForwardReceiver {
        routes: routes.clone(),
        client: client.clone(),
        phases: phases.clone(),
        tasks: tasks.clone(),
    };
    tasks.spawn(Arc::new(receiver).take(requests, stopping));
    let forwarder = Arc::new(Forwarder { edge: edge.clone(), client, shard, phases, seats: Semaphore::new(MOST) });
    Ok(routes.route_layer(from_fn_with_state(forwarder, pass_on)))
}

impl ForwardReceiver {
    /// Executes what other nodes pass on. After the node was stopped and writes no longer, this reports so to senders
    /// who do not know that yet, until there are none: a client drops what is on its way to a subscription that is
    /// drained.
    async fn take(self: Arc<Self>, mut requests: Subscriber, stopping: CancellationToken) {
        let seats = Arc::new(Semaphore::new(MOST));
        let mut phases = self.phases.clone();
        let ended = async {
            stopping.cancelled().await;
            // The sender is dropped with the writer.
            let _ = phases.wait_for(|phase| *phase != Phase::Active).await.map(drop);
        };
        let mut ended = std::pin::pin!(ended);
        let mut has_ended = false;
        loop {
            let message = tokio::select! {
                message = requests.next() => message,
                () = &mut ended, if !has_ended => {
                    has_ended = true;
                    continue;
                }
                () = sleep(QUIET), if has_ended => None,
            };
            let Some(message) = message else { return };
            let Some(reply) = message.reply else { continue };
            // The semaphore is never closed.
            let Ok(seat) = seats.clone().acquire_owned().await else { return };
            let taker = self.clone();
            self.tasks.spawn(async move {
                let _seat = seat;
                let answer = taker.answer(message.payload).await.encode_to_vec();
                if let Err(error) = taker.client.publish(reply, answer.into()).await {
                    tracing::warn!(error = base::explain::explain(&error), "an answer could not be returned");
                }
            });
        }
    }

    /// Answers a request, or reports that it was not done because another node writes.
    async fn answer(&self, payload: Bytes) -> bus::PassedAnswer {
        let untaken = || bus::PassedAnswer { untaken: true, ..bus::PassedAnswer::default() };
        if !self.is_writing() {
            return untaken();
        }
        let request = bus::PassedRequest::decode(payload).ok().and_then(unpacked);
        let response = match request {
            // The routes lack what concerns all requests: the node that the client called has done that.
            Some(request) => self.routes.clone().oneshot(request).await.unwrap_or_else(|never| match never {}),
            None => return bus::PassedAnswer { status: 400, ..bus::PassedAnswer::default() },
        };
        let is_undone = |Refused(reason): &Refused| *reason == Reason::WriterUnavailable.name();
        if response.extensions().get().is_some_and(is_undone) && !self.is_writing() {
            return untaken();
        }
        let (parts, body) = response.into_parts();
        let collected = body.collect().await.unwrap_or_default();
        let trailers = collected.trailers().map(packed_headers).unwrap_or_default();
        bus::PassedAnswer {
            status: parts.status.as_u16().into(),
            headers: packed_headers(&parts.headers),
            body: collected.to_bytes(),
            trailers,
            untaken: false,
            refused: parts.extensions.get().map(|Refused(reason)| (*reason).to_owned()).unwrap_or_default(),
        }
    }

    fn is_writing(&self) -> bool {
        *self.phases.borrow() == Phase::Active
    }
}

/// Serves a request here, or passes it on, as soon as there is a node that writes.
async fn pass_on(State(way): State<Arc<Forwarder>>, request: Request, next: Next) -> Response {
    if *way.phases.borrow() == Phase::Active {
        return next.run(request).await;
    }
    let (mut parts, body) = request.into_parts();
    let deadline = Instant::now() + patience(&parts.headers);
    match timeout_at(deadline, way.edge.recognise(&mut parts)).await {
        Ok(Some(_)) => {}
        // The request would be refused there too, so it takes no room here.
        Ok(None) => return next.run(Request::from_parts(parts, body)).await,
        Err(_) => return refuse(Request::from_parts(parts, body), too_late(false)).await,
    }
    let refused = |parts: Parts, error| refuse(Request::from_parts(parts, Body::empty()), error);
    let most = way.client.server_info().max_payload;
    let body = match timeout_at(deadline, read_body(body, most)).await.unwrap_or_else(|_| Err(too_late(false))) {
        Ok(body) => body,
        Err(error) => return refused(parts, error).await,
    };
    let Ok(_seat) = way.seats.try_acquire() else {
        return refused(parts, writer_unavailable("too many commands wait to be forwarded")).await;
    };
    let packed = Bytes::from(packed(&parts, &body).encode_to_vec());
    if packed.len() > most.saturating_sub(FRAME) {
        let message = "the command is too large to be forwarded to the writer";
        return refused(parts, Error::new(Reason::BodyTooLarge, message)).await;
    }
    match way.find(&packed, deadline).await {
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

impl Forwarder {
    /// Returns the answer of the node that writes; `None` if that is this one, or there is none.
    async fn find(&self, packed: &Bytes, answered_by: Instant) -> Option<Result<Response, Error>> {
        let (mut phases, found_by) = (self.phases.clone(), Instant::now() + PATIENCE);
        loop {
            let phase = phases.borrow_and_update().clone();
            let pause = match phase {
                Phase::Active | Phase::Ended => return None,
                Phase::Standby(Some(writer)) => match timeout_at(answered_by, self.send(&writer, packed)).await {
                    Ok(Ok(response)) => return Some(Ok(response)),
                    Ok(Err(ForwardFailure::Unknown)) => {
                        return Some(Err(outcome_unknown("the writer did not answer")));
                    }
                    // The node is giving up the lease, or is dead while its lease goes on.
                    Ok(Err(ForwardFailure::Untaken)) => PAUSE,
                    Err(_) => return Some(Err(too_late(false))),
                },
                Phase::Standby(None) | Phase::TakingOver => PATIENCE,
            };
            let changed = async {
                tokio::select! {
                    changed = phases.changed() => changed.is_ok(),
                    () = sleep(pause) => true,
                }
            };
            match timeout_at(found_by.min(answered_by), changed).await {
                Ok(true) => {}
                Err(_) if answered_by < found_by => return Some(Err(too_late(false))),
                Ok(false) | Err(_) => return None,
            }
        }
    }

    async fn send(&self, writer: &Arc<str>, packed: &Bytes) -> Result<Response, ForwardFailure> {
        // The caller waits as long as the request may take.
        let request = async_nats::Request::new().payload(packed.clone()).timeout(None);
        let sent = self.client.send_request(subject(self.shard, writer), request);
        let answered = self.while_it_writes(writer, sent).await.ok_or(ForwardFailure::Unknown)?;
        match answered {
            Ok(message) => match bus::PassedAnswer::decode(message.payload) {
                Ok(answer) if answer.untaken => Err(ForwardFailure::Untaken),
                answer => answer.ok().and_then(response).ok_or(ForwardFailure::Unknown),
            },
            Err(error) if error.kind() == RequestErrorKind::NoResponders => Err(ForwardFailure::Untaken),
            Err(_) => Err(ForwardFailure::Unknown),
        }
    }

    /// Waits for an answer for as long as `writer` writes, and a little longer unless it is dead.
    async fn while_it_writes<T>(&self, writer: &Arc<str>, answer: impl Future<Output = T>) -> Option<T> {
        let mut phases = self.phases.clone();
        let replaced = async {
            // The returned guard would keep the phase from changing.
            let _ = phases.wait_for(|phase| !matches!(phase, Phase::Standby(Some(name)) if name == writer)).await;
        };
        let mut answer = std::pin::pin!(answer);
        tokio::select! {
            answer = &mut answer => return Some(answer),
            () = replaced => {}
        }
        tokio::select! {
            biased;
            answer = answer => Some(answer),
            () = self.until_gone(writer) => None,
            () = sleep(GRACE) => None,
        }
    }

    /// Completes when no node receives what is sent to `writer`. A node that ends in order goes on listening, and has
    /// answered before.
    async fn until_gone(&self, writer: &str) {
        let probe = self.client.request(subject(self.shard, writer), Bytes::new());
        match probe.await {
            Err(error) if error.kind() == RequestErrorKind::NoResponders => {}
            _ => std::future::pending().await,
        }
    }
}
