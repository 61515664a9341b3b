//! Sends commands of pages to the node that writes: in this process, or over the bus, as standbys forward theirs.

use std::time::Duration;

use async_nats::{Client, RequestErrorKind, jetstream};
use axum::{Router, body::Body, response::Response};
use base::explain::explain;
use bytes::Bytes;
use edge::{
    error::{Error, Reason},
    mount::LONGEST,
    passed::{packed, response, subject},
};
use eventlog::lease;
use http::{Request, request::Parts};
use prost::Message;
use proto::bus;
use tokio::time::{Instant, sleep};
use tower::ServiceExt;

/// How long a command waits for a node that writes: longer than a take-over takes.
const PATIENCE: Duration = Duration::from_secs(10);
/// The pause before a command is offered again.
const PAUSE: Duration = Duration::from_millis(200);

/// Executes commands.
#[derive(Debug, Clone)]
pub enum Writes {
    /// The command node in this process.
    Here(Router),
    /// A command node that is reached over the bus.
    Elsewhere(Box<Bus>),
}

/// The connection to the node that writes, from a node that does not.
#[derive(Debug, Clone)]
pub struct Bus {
    /// The connection.
    pub client: Client,
    /// The context for leases.
    pub context: jetstream::Context,
    /// The shard of the commands.
    pub shard: u16,
}

impl Writes {
    /// Executes a command.
    pub(super) async fn answer(&self, parts: Parts, body: Bytes) -> Result<Response, Error> {
        match self {
            Self::Here(router) => {
                let request = Request::from_parts(parts, Body::from(body));
                Ok(router.clone().oneshot(request).await.unwrap_or_else(|never| match never {}))
            }
            Self::Elsewhere(bus) => bus.pass(&parts, &body).await,
        }
    }
}

impl Bus {
    /// The name of the node that writes.
    pub(super) async fn writer(&self) -> Option<String> {
        let found = lease::holder(&self.context, &format!("writer.{}", self.shard)).await;
        found.inspect_err(|error| tracing::debug!(error = explain(error), "the writer is not known")).ok().flatten()
    }

    /// Offers a command until a node accepts it. It is offered again only if it certainly was not executed.
    async fn pass(&self, parts: &Parts, body: &Bytes) -> Result<Response, Error> {
        let (payload, until) = (Bytes::from(packed(parts, body).encode_to_vec()), Instant::now() + PATIENCE);
        while Instant::now() < until {
            if let Some(writer) = self.writer().await
                && let Some(response) = self.offer(&writer, payload.clone()).await?
            {
                return Ok(response);
            }
            sleep(PAUSE).await;
        }
        Err(Error::new(Reason::WriterUnavailable, "no node writes to the log at the moment: send the command again"))
    }

    /// Offers a command to a node; `None` if the node has not executed it.
    async fn offer(&self, writer: &str, payload: Bytes) -> Result<Option<Response>, Error> {
        let unknown = || {
            let message = "the writer did not answer, and the command may have been executed: send it again";
            Error::new(Reason::OutcomeUnknown, message)
        };
        let request = async_nats::Request::new().payload(payload).timeout(Some(LONGEST));
        match self.client.send_request(subject(self.shard, writer), request).await {
            Ok(message) => match bus::PassedAnswer::decode(message.payload) {
                Ok(answer) if answer.untaken => Ok(None),
                answer => answer.ok().and_then(response).map(Some).ok_or_else(unknown),
            },
            Err(error) if error.kind() == RequestErrorKind::NoResponders => Ok(None),
            Err(_) => Err(unknown()),
        }
    }
}
