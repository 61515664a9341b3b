//! Sessions end with their users: whoever is switched off, locked or removed, or whose organization is, has none afterwards. The node
//! does it that writes.
//!
//! It follows the log that is kept for ever. A session that was decided without such an event was committed before it, so the read
//! model knows all of them once it has what there is of the other log.

use std::{convert::Infallible, time::Duration};

use base::clock;
use domain::{
    aggregate::Aggregate,
    log_class::{LogClass, OfEach},
    resource::{
        organization::Organization,
        session::{LONGEST_LIFE_MS, Session},
        user::User,
    },
    standard::{Command as Asked, Resource, Standard},
};
use eventlog::{
    log::{Log, LogFailure},
    record::{AggregateKey, Recorded},
};
use futures::StreamExt;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use view::{
    database::{Database, DatabaseFailure},
    projection::SESSIONS,
    read_model::{ReadModel, Select},
};

use super::{
    place::{Place, PlaceFailure, SavedPlace},
    steps::{self, Reaction, StepFailure, Steps},
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

impl SessionEnds {
    /// Ends sessions whenever this node writes, until `shutdown`.
    pub async fn work(self, shutdown: CancellationToken) {
        steps::work(self, shutdown).await;
    }

    /// Ends the sessions of whoever an event is about.
    async fn end(&self, recorded: &Recorded, select: &Select<Session>) -> Result<(), SessionEndFailure> {
        let (instance_id, id) = (&recorded.event.instance_id, &recorded.event.aggregate_id);
        self.read_model_has_all().await?;
        let keys = self.steps.keys(instance_id).await?;
        let mut last = String::new();
        loop {
            let found = select.rows(&self.database.connection().await?, &[instance_id, id, &last]).await?;
            let Some(newest) = found.last() else { return Ok(()) };
            last.clone_from(&newest.found.id);
            let key = |id: &str| AggregateKey::of::<Standard<Session>>(instance_id.as_str(), id);
            let cause = Cause {
                actor: recorded.event.actor.clone(),
                causation_id: recorded.event.id.clone(),
                ..Cause::default()
            };
            let step = Step {
                sessions: found.iter().map(|session| key(&session.found.id)).collect(),
                ended: recorded.sequence,
                keys: keys.clone(),
                cause,
            };
            self.steps.submit(("end sessions", instance_id), step).await?;
        }
    }

    /// Waits until the read model has what there is of the log of sessions now.
    async fn read_model_has_all(&self) -> Result<(), SessionEndFailure> {
        let end = self.logs.sessions.end().await?;
        let sessions = ReadModel::new(&SESSIONS, self.shard);
        loop {
            let checkpoint = sessions.checkpoint(&self.database.connection().await?).await?;
            if checkpoint.map_or(0, |checkpoint| checkpoint.position.stream_sequence) >= end {
                return Ok(());
            }
            sleep(BREATH).await;
        }
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
        let mut records = log.follow(saved.at).await?;
        loop {
            let record = records.next().await.ok_or(SessionEndFailure::LogEnded)??;
            let mut has_some = false;
            for recorded in &record.events {
                if let Some(select) = of_whom(recorded) {
                    self.end(recorded, select).await?;
                    has_some = true;
                }
            }
            if has_some || saved.is_due(record.position()) {
                saved.save(record.position()).await?;
            }
        }
    }

    fn of_step(failure: &SessionEndFailure) -> Option<&StepFailure> {
        if let SessionEndFailure::Step(failure) = failure { Some(failure) } else { None }
    }
}

/// What finds the sessions that end with an event; nothing where none do, or all that did are over by now.
fn of_whom(recorded: &Recorded) -> Option<&'static Select<Session>> {
    static OF_USER: Select<Session> = Select::new(
        &SESSIONS,
        Session::NAME,
        "where instance_id = $1 and user_id = $2 and id > $3 order by id limit 100",
    );
    static OF_ORGANIZATION: Select<Session> = Select::new(
        &SESSIONS,
        Session::NAME,
        "where instance_id = $1 and organization_id = $2 and id > $3 order by id limit 100",
    );
    let age = clock::now().as_millisecond().saturating_sub(recorded.committed_at.as_millisecond());
    let (aggregate, event) = recorded.event.r#type.split_once('.')?;
    match (aggregate, event) {
        _ if age > LONGEST_LIFE_MS => None,
        (User::NAME, "deactivated" | "locked" | "removed") => Some(&OF_USER),
        (Organization::NAME, "deactivated" | "removed") => Some(&OF_ORGANIZATION),
        _ => None,
    }
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
