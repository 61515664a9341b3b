//! How far reactions are, told over NATS once a second by whoever does them, for people to read. It decides nothing.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use base::{clock::since_start, explain::explain};
use eventlog::{
    log::{Lag, Log, LogFailure},
    record::Position,
};
use serde::{Deserialize, Serialize};

/// The reactions: their names, by which they are told of.
pub const REACTIONS: [&str; 5] = [DELIVERIES, "mending", "sweep", "session_ends", "erasures"];
/// The one that queues the deliveries of events and makes them.
pub const DELIVERIES: &str = "actions";

/// How often one is told of.
const EVERY: Duration = Duration::from_secs(1);
/// For how long that is believed.
const BELIEVED: Duration = Duration::from_secs(15);

/// How far a reaction is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reaction {
    /// Its name.
    pub name: String,
    /// The sequence of the last event that it has taken up.
    pub sequence: u64,
    /// How many events it lacks.
    pub lag_events: u64,
    /// How old the first of them is, in seconds.
    pub lag_seconds: f64,
    /// How much of what it has taken up is not done: of deliveries those that are queued.
    pub waiting: u64,
}

/// The subject on which nodes hear of reactions.
pub fn subject(shard: u16) -> String {
    format!("progress.{shard}.reaction.*")
}

/// What this node has heard of reactions.
#[derive(Debug, Clone, Default)]
pub struct Reactions(Arc<Mutex<HashMap<&'static str, Heard>>>);

#[derive(Debug)]
struct Heard {
    reaction: Reaction,
    /// When, on the clock that only goes forward.
    at: Duration,
}

impl Reactions {
    /// Takes up what was told. What this build does not know is left out.
    pub(crate) fn hear(&self, payload: &[u8]) {
        let Ok(reaction) = serde_json::from_slice::<Reaction>(payload) else { return };
        let Some(name) = REACTIONS.iter().find(|name| **name == reaction.name) else { return };
        let heard = Heard { reaction, at: since_start() };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name, heard);
    }

    /// How far a reaction is; `None` where nobody has said so lately.
    pub fn of(&self, name: &str) -> Option<Reaction> {
        let heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        heard.get(name).filter(|heard| since_start() < heard.at + BELIEVED).map(|heard| heard.reaction.clone())
    }
}

/// Tells of one reaction of one shard.
#[derive(Debug)]
pub struct Telling {
    log: Log,
    name: &'static str,
    subject: String,
    due: Duration,
}

impl Telling {
    /// Tells of this one from now on.
    pub fn new(log: &Log, shard: u16, name: &'static str) -> Self {
        Self { log: log.clone(), name, subject: format!("progress.{shard}.reaction.{name}"), due: since_start() }
    }

    /// Whether it is time to tell.
    pub fn is_due(&self) -> bool {
        since_start() >= self.due
    }

    /// How soon that is.
    pub fn within(&self) -> Duration {
        self.due.saturating_sub(since_start())
    }

    /// Tells where it is, and how much waits. Where that fails somebody is told the next time.
    pub async fn tell(&mut self, at: Position, waiting: u64) {
        self.due = since_start() + EVERY;
        if let Err(error) = self.try_to_tell(at, waiting).await {
            tracing::debug!(reaction = self.name, error = explain(&error), "how far a reaction is was not told");
        }
    }

    async fn try_to_tell(&self, at: Position, waiting: u64) -> Result<(), LogFailure> {
        // Most of the time there is nothing that it lacks, and no record needs to be read.
        let lag = if self.log.end().await? > at.stream_sequence {
            let end = self.log.last().await?.map(|record| record.position()).unwrap_or_default();
            self.log.lag(at.into(), end.into()).await?
        } else {
            Lag::default()
        };
        let reaction = Reaction {
            name: self.name.to_owned(),
            sequence: at.sequence,
            lag_events: lag.events,
            lag_seconds: lag.seconds,
            waiting,
        };
        let payload = serde_json::to_vec(&reaction).unwrap_or_default();
        let told = self.log.client().publish(self.subject.clone(), payload.into()).await;
        told.map_err(|error| LogFailure::Nats(explain(&error)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_not_heard() {
        let reactions = Reactions::default();
        let told = |name: &str| Reaction { name: name.to_owned(), sequence: 7, ..Reaction::default() };
        let hear = |reaction: &Reaction| reactions.hear(&serde_json::to_vec(reaction).expect("it can be written"));
        hear(&told("sweep"));
        hear(&told("of the next version"));
        reactions.hear(b"{");
        assert_eq!(reactions.of("sweep"), Some(told("sweep")));
        assert_eq!(reactions.of("of the next version"), None);
        assert_eq!(reactions.of("mending"), None);
    }
}
