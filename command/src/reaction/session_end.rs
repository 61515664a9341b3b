//! Sessions end with their users: whoever is switched off, locked or removed, or whose organization or instance is, has none afterwards.
//! The node does it that writes.
//!
//! It follows the log that is kept for ever. A session that was decided without such an event was committed before it, so the read
//! model, which leaves out none, has all of them once it has what there is of the other log.

use std::{collections::VecDeque, convert::Infallible, time::Duration};

use base::{clock, explain::explain};
use domain::{
    aggregate::Aggregate,
    log_class::{LogClass, OfEach},
    resource::{
        instance::Instance,
        organization::Organization,
        session::{LONGEST_LIFE_MS, Session},
        user::User,
    },
    standard::{Command as Asked, Resource, Standard},
};
use eventlog::{
    log::{Log, LogFailure},
    record::{AggregateKey, Position, Recorded},
};
use futures::{FutureExt, StreamExt};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use view::{
    database::{Database, DatabaseFailure},
    projection::SESSIONS,
    read_model::{ReadModel, Select},
};

use super::{
    place::{Place, PlaceFailure, SavedPlace},
    steps::{self, PAUSE, Reaction, StepFailure, Steps},
};
use crate::{
    turn::{Cause, ClaimKeys, Decided, Refusal, Turn},
    writer::Decide,
};

/// How often it looks whether the read model has all sessions.
const BREATH: Duration = Duration::from_millis(50);

/// What ending sessions needs.
#[derive(Clone)]
pub struct SessionEnds {
    /// The logs.
    pub logs: OfEach<Log>,
    /// Decides which sessions end.
    pub steps: Steps,
    /// Where the sessions are.
    pub database: Database,
    /// The shard.
    pub shard: u16,
    /// How many servers keep the place.
    pub replicas: usize,
}

/// Why it does not go on.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionEndFailure {
    #[error(transparent)]
    Place(#[from] PlaceFailure),
    #[error(transparent)]
    Log(#[from] LogFailure),
    #[error("the log ended")]
    LogEnded,
    #[error(transparent)]
    Step(#[from] StepFailure),
    #[error(transparent)]
    Database(#[from] DatabaseFailure),
}

/// An event with which sessions end.
struct Ending {
    recorded: Recorded,
    /// Finds the sessions.
    select: &'static Select<Session>,
    /// The position before its record.
    before: Position,
    /// Where the log of sessions ended, as far as that was looked at.
    sessions_end: Option<u64>,
    /// The id of the last session that was looked at.
    last: String,
}

impl SessionEnds {
    /// Ends sessions whenever this node writes, until `shutdown`.
    pub async fn work(self, shutdown: CancellationToken) {
        steps::work(self, shutdown).await;
    }

    /// Takes one page of the sessions that end with the first event, which then lets the others go first. What does not end now
    /// keeps only itself waiting.
    async fn step(&self, left: &mut VecDeque<Ending>) {
        let Some(mut first) = left.pop_front() else { return };
        match self.end_some(&mut first).await {
            Ok(true) => return,
            Ok(false) => {}
            Err(failure) => {
                let id = &first.recorded.event.aggregate_id;
                tracing::warn!(error = explain(&failure), id, "{}", Self::TROUBLE);
                sleep(PAUSE).await;
            }
        }
        left.push_back(first);
    }

    /// Ends some; whether these were the last.
    async fn end_some(&self, ending: &mut Ending) -> Result<bool, SessionEndFailure> {
        if !self.read_model_has_all(ending).await? {
            sleep(BREATH).await;
            return Ok(false);
        }
        let (instance_id, id) = (&ending.recorded.event.instance_id, &ending.recorded.event.aggregate_id);
        let (now, last) = (clock::now().as_millisecond(), &ending.last);
        let found = ending.select.rows(&self.database.connection().await?, &[instance_id, id, last, &now]).await?;
        let Some(newest) = found.last().map(|newest| newest.found.id.clone()) else { return Ok(true) };
        let key = |id: &str| AggregateKey::of::<Standard<Session>>(instance_id.as_str(), id);
        let keys: Vec<_> = found.iter().map(|session| key(&session.found.id)).collect();
        match self.end(&ending.recorded, keys.clone()).await {
            Err(failure) if failure.is_of_one() => {
                for key in keys {
                    match self.end(&ending.recorded, vec![key.clone()]).await {
                        Err(failure) if failure.is_of_one() => {
                            tracing::error!(error = explain(&failure), id = key.id, "a session cannot be ended");
                        }
                        ended => ended?,
                    }
                }
            }
            ended => ended?,
        }
        ending.last = newest;
        Ok(false)
    }

    async fn end(&self, recorded: &Recorded, sessions: Vec<AggregateKey>) -> Result<(), StepFailure> {
        let instance_id = &recorded.event.instance_id;
        let (actor, causation_id) = (recorded.event.actor.clone(), recorded.event.id.clone());
        let cause = Cause { actor, causation_id, ..Cause::default() };
        let step = Step { sessions, ended: recorded.sequence, keys: self.steps.keys(instance_id).await?, cause };
        self.steps.submit(("end sessions", instance_id), step).await
    }

    /// Whether the read model has what there was of the log of sessions when the event was read.
    async fn read_model_has_all(&self, ending: &mut Ending) -> Result<bool, SessionEndFailure> {
        let end = match ending.sessions_end {
            Some(end) => end,
            None => *ending.sessions_end.insert(self.logs.sessions.end().await?),
        };
        let checkpoint = ReadModel::new(&SESSIONS, self.shard).checkpoint(&self.database.connection().await?).await?;
        Ok(checkpoint.map_or(0, |checkpoint| checkpoint.position.stream_sequence) >= end)
    }
}

impl Reaction for SessionEnds {
    const TROUBLE: &'static str = "sessions do not end with their users at the moment";
    type Failure = SessionEndFailure;

    fn steps(&self) -> &Steps {
        &self.steps
    }

    async fn serve(&self) -> Result<Infallible, SessionEndFailure> {
        let log = &self.logs.events;
        let place = Place::open(log.context(), self.replicas, "session_ends").await?;
        let mut saved = SavedPlace::begin(place, log).await?;
        let (mut at, mut left) = (saved.at, VecDeque::new());
        let mut records = log.follow(at).await?;
        loop {
            let next = if left.is_empty() { records.next().map(Some).await } else { records.next().now_or_never() };
            if let Some(record) = next {
                let record = record.ok_or(SessionEndFailure::LogEnded)??;
                left.extend(record.events.iter().filter_map(|recorded| ending(recorded, at)));
                at = record.position();
            }
            let had_some = !left.is_empty();
            self.step(&mut left).await;
            let oldest = left.iter().map(|ending: &Ending| ending.before).min_by_key(|place| place.stream_sequence);
            let done = oldest.unwrap_or(at);
            if saved.is_due(done) || had_some && done != saved.at && left.is_empty() {
                saved.save(done).await?;
            }
        }
    }

    fn of_step(failure: &SessionEndFailure) -> Option<&StepFailure> {
        if let SessionEndFailure::Step(failure) = failure { Some(failure) } else { None }
    }
}

/// An event with which sessions end; nothing where none do, or all that did are over by now.
fn ending(recorded: &Recorded, before: Position) -> Option<Ending> {
    static OF_USER: Select<Session> = Select::new(
        &SESSIONS,
        Session::NAME,
        "where instance_id = $1 and user_id = $2 and id > $3 and expires_at > $4 order by id limit 100",
    );
    static OF_ORGANIZATION: Select<Session> = Select::new(
        &SESSIONS,
        Session::NAME,
        "where instance_id = $1 and organization_id = $2 and id > $3 and expires_at > $4 order by id limit 100",
    );
    static OF_INSTANCE: Select<Session> = Select::new(
        &SESSIONS,
        Session::NAME,
        "where instance_id = $1 and instance_id = $2 and id > $3 and expires_at > $4 order by id limit 100",
    );
    let age = clock::now().as_millisecond().saturating_sub(recorded.committed_at.as_millisecond());
    let (aggregate, event) = recorded.event.r#type.split_once('.')?;
    let select = match (aggregate, event) {
        _ if age > LONGEST_LIFE_MS => return None,
        (User::NAME, "deactivated" | "locked" | "removed") => &OF_USER,
        (Organization::NAME, "deactivated" | "removed") => &OF_ORGANIZATION,
        (Instance::NAME, "deactivated" | "removed") => &OF_INSTANCE,
        _ => return None,
    };
    Some(Ending { recorded: recorded.clone(), select, before, sessions_end: None, last: String::new() })
}

/// Ends those of some sessions that were decided without an event.
struct Step {
    sessions: Vec<AggregateKey>,
    /// The sequence of the event.
    ended: u64,
    keys: ClaimKeys,
    cause: Cause,
}

impl Decide for Step {
    type Outcome = ();

    fn class(&self) -> LogClass {
        Session::CLASS
    }

    fn decide(&self, turn: &mut Turn<'_>) -> Result<(Decided, ()), Refusal> {
        let found: Vec<_> = self.sessions.iter().map(|key| turn.get::<Standard<Session>>(key)).collect();
        for current in found {
            let user = current.resource().and_then(|session| session.user.as_ref());
            if user.is_some_and(|user| user.seen < self.ended) {
                let events = Standard::<Session>::decide(&current.state, Asked::Delete)?;
                turn.append(current, &events, &self.keys, &self.cause)?;
            }
        }
        Ok((turn.nothing_decided(Session::NAME), ()))
    }
}
