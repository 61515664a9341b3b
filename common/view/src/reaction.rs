//! The progress of reactions, reported over NATS every second by whoever does them, for people. It decides nothing.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use base::{
    clock::{self, since_start},
    explain::explain,
    metric::catalog::{REACTION_HEARTBEAT, REACTION_LAG_SECONDS},
};
use eventlog::{
    log::{Lag, Log, LogFailure},
    record::Position,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};

/// The names of the reactions that follow a log. Those that go by the clock have no position to report.
pub const REACTIONS: [&str; 5] = [DELIVERIES, "mending", "sweep", "session_ends", "erasures"];
/// The name of the reaction that queues the deliveries of events and makes them.
pub const DELIVERIES: &str = "actions";

/// How often a reaction is reported.
const EVERY: Duration = Duration::from_secs(1);
/// How long a report may take.
const LONGEST: Duration = Duration::from_secs(5);
/// How long a report is believed.
const BELIEVED: Duration = Duration::from_secs(15);

/// The progress of a reaction.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reaction {
    /// Its name.
    pub name: String,
    /// The sequence of the last event that it has taken up.
    pub sequence: u64,
    /// How many events it lacks.
    pub lag_events: u64,
    /// The age in seconds of the first event that it lacks, or has taken up and not finished.
    pub lag_seconds: f64,
    /// How much of what it has taken up is not finished: for deliveries, how many are queued.
    pub waiting: u64,
    /// How much of that was given up, and waits for a decision.
    #[serde(default)]
    pub given_up: u64,
}

/// The subject of reports on reactions: one for all, so that a node that may not report them is refused only one.
pub fn subject(shard: u16) -> String {
    format!("progress.{shard}.reaction")
}

/// What was reported to this node about reactions.
#[derive(Debug, Clone, Default)]
pub struct Reactions(Arc<Mutex<HashMap<&'static str, ReportedReaction>>>);

#[derive(Debug)]
struct ReportedReaction {
    reaction: Reaction,
    /// When it was received, by the monotonic clock.
    at: Duration,
}

impl Reactions {
    /// Stores a report. Reactions that this build does not know are ignored.
    pub(crate) fn receive(&self, payload: &[u8]) {
        let Ok(reaction) = serde_json::from_slice::<Reaction>(payload) else { return };
        let Some(name) = REACTIONS.iter().find(|name| **name == reaction.name) else { return };
        let reported = ReportedReaction { reaction, at: since_start() };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name, reported);
    }

    /// The progress of a reaction; `None` if it was not reported recently.
    pub fn of(&self, name: &str) -> Option<Reaction> {
        let reported = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reported
            .get(name)
            .filter(|reported| since_start() < reported.at + BELIEVED)
            .map(|reported| reported.reaction.clone())
    }
}

/// The progress of a reaction, as its worker knows it.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReactionProgress {
    /// The position up to which it has taken up all events.
    pub at: Position,
    /// How much of that is not finished.
    pub waiting: u64,
    /// The time since which the first of that is not finished.
    pub waits_since: Option<Timestamp>,
    /// How much of it was given up.
    pub given_up: u64,
}

/// Reports one reaction of one shard in the background until this is dropped, since a step of it may take long.
#[derive(Debug)]
pub struct ReactionReporter {
    progress: watch::Sender<ReactionProgress>,
    _task: JoinSet<()>,
}

impl ReactionReporter {
    /// Begins to report a reaction that is at a position.
    pub fn start(log: &Log, shard: u16, name: &'static str, at: Position) -> Self {
        debug_assert!(REACTIONS.contains(&name), "{name} is one of the known reactions");
        let (progress, noted) = watch::channel(ReactionProgress { at, ..ReactionProgress::default() });
        let (log, subject) = (log.clone(), subject(shard));
        let mut task = JoinSet::new();
        task.spawn(async move {
            loop {
                let progress = *noted.borrow();
                let published = timeout(LONGEST, publish(&log, subject.clone(), name, progress));
                let error = match published.await {
                    Ok(published) => published.err().map(|failure| explain(&failure)),
                    Err(late) => Some(explain(&late)),
                };
                if let Some(error) = error {
                    tracing::debug!(reaction = name, error, "the progress of a reaction was not reported");
                }
                sleep(EVERY).await;
            }
        });
        Self { progress, _task: task }
    }

    /// Changes what is reported next.
    pub fn note(&self, change: impl FnOnce(&mut ReactionProgress)) {
        self.progress.send_modify(change);
    }
}

/// Reports once.
async fn publish(log: &Log, subject: String, name: &str, progress: ReactionProgress) -> Result<(), LogFailure> {
    let ReactionProgress { at, waiting, waits_since, given_up } = progress;
    // Most of the time there is nothing that it lacks, and no record needs to be read.
    let lag = if log.end().await? > at.stream_sequence {
        let end = log.last().await?.map(|record| record.position()).unwrap_or_default();
        log.lag(at.into(), end.into()).await?
    } else {
        Lag::default()
    };
    let waits = waits_since.map_or(0.0, |since| clock::now().duration_since(since).as_secs_f64());
    let reaction = Reaction {
        name: name.to_owned(),
        sequence: at.sequence,
        lag_events: lag.events,
        lag_seconds: lag.seconds.max(waits),
        waiting,
        given_up,
    };
    let payload = serde_json::to_vec(&reaction).unwrap_or_default();
    let told = log.client().publish(subject, payload.into()).await;
    told.map_err(|error| LogFailure::Nats(explain(&error)))?;
    REACTION_LAG_SECONDS.with(&[name]).set(reaction.lag_seconds);
    REACTION_HEARTBEAT.with(&[name]).set(clock::now().as_duration().as_secs_f64());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reaction_that_is_not_known_is_ignored() {
        let reactions = Reactions::default();
        let reported = |name: &str| Reaction { name: name.to_owned(), sequence: 7, ..Reaction::default() };
        let receive =
            |reaction: &Reaction| reactions.receive(&serde_json::to_vec(reaction).expect("it can be written"));
        receive(&reported("sweep"));
        receive(&reported("of the next version"));
        reactions.receive(b"{");
        assert_eq!(reactions.of("sweep"), Some(reported("sweep")));
        assert_eq!(reactions.of("of the next version"), None);
        assert_eq!(reactions.of("mending"), None);
    }
}
