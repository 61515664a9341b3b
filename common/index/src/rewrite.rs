//! Requests of the scrubber to the process that writes a search index, of which something is not what the log says.

use std::time::{Duration, Instant};

use async_nats::{Client, Request as NatsRequest, Subject, Subscriber};
use base::explain::explain;
use futures::{FutureExt, StreamExt};
use serde::{Deserialize, Serialize};
use view::table::Change;

use crate::failure::IndexFailure;

/// How long to wait for the answer. A writer that has nothing to write looks for requests once a second.
const PATIENCE: Duration = Duration::from_secs(8);
/// How long after an index was read to its end it is not read again on request.
const READ_EVERY: Duration = Duration::from_mins(30);
/// How many documents a request has at most; further ones are left out.
const MOST: usize = 1000;

/// A document that is to be written anew.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Suspect {
    /// The instance.
    pub instance_id: String,
    /// The id of the resource.
    pub id: String,
    /// The sequence of the newest event of its aggregate in the log; 0 if there is none.
    pub newest: u64,
}

impl Suspect {
    /// Whether a change is of this document.
    pub fn is_of(&self, change: &Change) -> bool {
        self.instance_id == change.instance_id && self.id == change.id
    }
}

/// What the writer is to do.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rewrite {
    /// Write these documents anew.
    Documents(Vec<Suspect>),
    /// Build the index again, if it cannot be read to its end.
    Whole,
}

/// What was written anew, nothing in the case of a whole index; `None` if that cannot be decided now.
pub type Answer = Option<Vec<Suspect>>;

/// Asks whoever writes an index, and returns the answer; `None` if there is none.
pub async fn request(client: &Client, shard: u16, index: &str, rewrite: &Rewrite) -> Answer {
    let payload = serde_json::to_vec(rewrite).unwrap_or_default();
    let request = NatsRequest::new().payload(payload.into()).timeout(Some(PATIENCE));
    match client.send_request(subject(shard, index), request).await {
        Ok(answer) => serde_json::from_slice(&answer.payload).unwrap_or_default(),
        Err(error) => {
            tracing::debug!(index, error = explain(&error), "nobody writes documents of the search index anew");
            None
        }
    }
}

/// The requests to the writer of an index.
#[derive(Debug)]
pub struct Requests {
    client: Client,
    messages: Subscriber,
    /// When the index was last to be read to its end.
    read_at: Option<Instant>,
}

/// A request.
#[derive(Debug)]
pub struct Request {
    /// What is to be done.
    pub rewrite: Rewrite,
    reply: Reply,
}

/// The way back to who sent a request.
#[derive(Debug)]
struct Reply {
    client: Client,
    to: Option<Subject>,
}

impl Requests {
    /// Listens to the requests for an index.
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn listen(client: Client, shard: u16, index: &str) -> Result<Self, IndexFailure> {
        let messages = client.subscribe(subject(shard, index)).await;
        let messages = messages.map_err(|error| IndexFailure::Nats(explain(&error)))?;
        Ok(Self { client, messages, read_at: None })
    }

    /// Returns a request that has arrived, if there is one. Each document is in it once, and an index is read to its end
    /// seldom, because nothing is written meanwhile.
    pub async fn take(&mut self) -> Option<Request> {
        let message = self.messages.next().now_or_never()??;
        let reply = Reply { client: self.client.clone(), to: message.reply };
        let rewrite = serde_json::from_slice(&message.payload).ok().and_then(|rewrite| self.permitted(rewrite));
        if rewrite.is_none() {
            reply.send(&None).await;
            return None;
        }
        rewrite.map(|rewrite| Request { rewrite, reply })
    }

    /// What is done of a request; `None` if it is too early for it.
    fn permitted(&mut self, mut rewrite: Rewrite) -> Option<Rewrite> {
        match &mut rewrite {
            Rewrite::Documents(suspects) => {
                suspects.sort_by(|one, other| (&one.instance_id, &one.id).cmp(&(&other.instance_id, &other.id)));
                suspects.dedup_by(|one, other| one.instance_id == other.instance_id && one.id == other.id);
                suspects.truncate(MOST);
            }
            Rewrite::Whole if self.read_at.is_some_and(|at| at.elapsed() < READ_EVERY) => return None,
            Rewrite::Whole => self.read_at = Some(Instant::now()),
        }
        Some(rewrite)
    }
}

impl Request {
    /// Answers it.
    pub async fn answer(self, answer: &Answer) {
        self.reply.send(answer).await;
    }
}

impl Reply {
    async fn send(self, answer: &Answer) {
        let Some(to) = self.to else { return };
        let payload = serde_json::to_vec(answer).unwrap_or_default();
        if let Err(error) = self.client.publish(to, payload.into()).await {
            tracing::debug!(error = explain(&error), "a request to write documents anew was not answered");
        }
    }
}

fn subject(shard: u16, index: &str) -> String {
    format!("rewrites.{shard}.{index}")
}
