//! The progress of projections, announced over NATS as it happens, so that nobody polls.
//!
//! A message may be lost; projectors repeat it every second. Readers check the sequence that they read with the data,
//! so it only wakes them up. The reason why a projection has stopped is announced, too, for operators.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use base::{clock::since_start, explain::explain, health::Reached};
use futures::{StreamExt, stream::select};
use tokio::sync::watch;

use crate::{
    projection::{PROJECTIONS, Projection},
    reaction::{self, Reactions},
};

/// How long a projection counts as stopped after an announcement, which is repeated at least every 30 seconds.
const BELIEVED: Duration = Duration::from_secs(100);
/// The longest reason, in bytes.
const LONGEST_REASON: usize = 1000;

/// What was reported to a node about the projections of its shard.
#[derive(Debug, Clone)]
pub struct Progress {
    heard: Arc<HashMap<&'static str, ReportedProgress>>,
    /// How far reactions are.
    pub reactions: Reactions,
}

#[derive(Debug, Default)]
struct ReportedProgress {
    reached: watch::Sender<Reached>,
    stopped: Mutex<Option<StopReason>>,
}

/// Why a projection has stopped.
#[derive(Debug, Clone)]
struct StopReason {
    reason: String,
    /// When it was heard, by the monotonic clock.
    heard: Duration,
    /// The position at which it stopped. A worker that begins again and stops at the same event announces it once more.
    at: Reached,
}

/// Announces the progress of a projection to other nodes.
#[derive(Debug, Clone)]
pub struct Announcer {
    client: async_nats::Client,
    subject: String,
}

impl Progress {
    /// Subscribes to announcements. The task ends with the connection.
    pub async fn listen(client: &async_nats::Client, shard: u16) -> Result<Self, async_nats::SubscribeError> {
        // Those of the files of search indexes have further parts, and are for those who follow one.
        let of_projections = client.subscribe(format!("progress.{shard}.*.*")).await?;
        let mut messages = select(of_projections, client.subscribe(reaction::subject(shard)).await?);
        let progress = Self::new();
        let told = progress.clone();
        tokio::spawn(async move {
            while let Some(message) = messages.next().await {
                told.receive(&message);
            }
        });
        Ok(progress)
    }

    fn new() -> Self {
        let heard = PROJECTIONS.iter().map(|projection| (projection.name, ReportedProgress::default())).collect();
        Self { heard: Arc::new(heard), reactions: Reactions::default() }
    }

    fn receive(&self, message: &async_nats::Message) {
        let mut parts = message.subject.split('.').skip(2);
        let (name, version) = match (parts.next(), parts.next()) {
            (Some(name), Some(version)) => (name, version),
            (Some("reaction"), None) => return self.reactions.receive(&message.payload),
            _ => return,
        };
        let known = PROJECTIONS.iter().find(|known| known.name == name && known.version.to_string() == version);
        if let (Some(known), Some(told)) = (known, decode(&message.payload)) {
            self.take_up(known, told);
        }
    }

    fn take_up(&self, projection: &Projection, told: ProgressReport) {
        let heard = &self.heard[projection.name];
        let mut stopped = heard.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        match told {
            ProgressReport::Reached(reached) => {
                heard.reached.send_replace(reached);
                stopped.take_if(|stopped| stopped.at != reached);
            }
            ProgressReport::Stopped(reason) => {
                *stopped = Some(StopReason { reason, heard: since_start(), at: *heard.reached.borrow() });
            }
        }
    }

    /// The reason why the projection has stopped until somebody acts, if it was announced recently.
    pub fn stopped(&self, projection: &Projection) -> Option<String> {
        let stopped = self.heard[projection.name].stopped.lock().unwrap_or_else(PoisonError::into_inner).clone();
        stopped.filter(|stopped| since_start() < stopped.heard + BELIEVED).map(|stopped| stopped.reason)
    }

    /// The progress that was announced last. It can go back when Postgres has lost commits.
    pub fn of(&self, projection: &Projection) -> watch::Receiver<Reached> {
        self.heard[projection.name].reached.subscribe()
    }
}

impl Announcer {
    /// An announcer for one projection of one shard.
    pub fn new(client: async_nats::Client, projection: &Projection, shard: u16) -> Self {
        Self { client, subject: format!("progress.{shard}.{}.{}", projection.name, projection.version) }
    }

    /// Announces progress to all that listen, if any.
    pub async fn announce(&self, reached: Reached) {
        self.publish(encode(reached)).await;
    }

    /// Announces why the projection has stopped until somebody acts.
    pub async fn stops(&self, reason: &str) {
        let mut payload = encode(Reached::default());
        payload.extend(&reason.as_bytes()[..reason.floor_char_boundary(LONGEST_REASON)]);
        self.publish(payload).await;
    }

    async fn publish(&self, payload: Vec<u8>) {
        let payload = payload.into();
        if let Err(error) = self.client.publish(self.subject.clone(), payload).await {
            tracing::debug!(error = explain(&error), "progress was not announced");
        }
    }
}

fn encode(Reached { sequence, stream_sequence }: Reached) -> Vec<u8> {
    [sequence.to_be_bytes(), stream_sequence.to_be_bytes()].concat()
}

/// An announcement about a projection.
#[derive(Debug, PartialEq)]
enum ProgressReport {
    Reached(Reached),
    /// Builds that do not know this do not mistake it for progress, because it is longer.
    Stopped(String),
}

fn decode(payload: &[u8]) -> Option<ProgressReport> {
    let (sequence, rest) = payload.split_first_chunk()?;
    let (stream_sequence, reason) = rest.split_first_chunk()?;
    if !reason.is_empty() {
        return Some(ProgressReport::Stopped(String::from_utf8_lossy(reason).into_owned()));
    }
    let [sequence, stream_sequence] = [sequence, stream_sequence].map(|bytes| u64::from_be_bytes(*bytes));
    Some(ProgressReport::Reached(Reached { sequence, stream_sequence }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_projection_is_stopped_until_it_is_heard_to_go_on() {
        let (progress, projection) = (Progress::new(), &PROJECTIONS[0]);
        let reached = Reached { sequence: 7, stream_sequence: 3 };
        assert_eq!(decode(&encode(reached)), Some(ProgressReport::Reached(reached)));
        assert_eq!(decode(&encode(reached)[..15]), None);
        let stopped = [encode(Reached::default()), b"too many".to_vec()].concat();
        progress.take_up(projection, decode(&encode(reached)).unwrap());
        assert_eq!(progress.stopped(projection), None);
        progress.take_up(projection, decode(&stopped).unwrap());
        assert_eq!(progress.stopped(projection).as_deref(), Some("too many"));
        assert_eq!(*progress.of(projection).borrow(), reached, "where it is stays known");
        progress.take_up(projection, ProgressReport::Reached(reached));
        assert_eq!(progress.stopped(projection).as_deref(), Some("too many"), "it has begun again");
        progress.take_up(projection, ProgressReport::Reached(Reached { sequence: 8, stream_sequence: 4 }));
        assert_eq!(progress.stopped(projection), None);
    }
}
