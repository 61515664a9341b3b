//! Ends sessions with their users: a user who is switched off, locked or removed, or whose organization or instance is,
//! has none afterwards; and all sessions of a person end at once if that is requested. The node that writes does so.
//!
//! The reaction follows the log that is kept for ever. A session that was decided without such an event was committed
//! before it, so the read model has all of them once it has processed what the other log has, except those that it has
//! parked: they may be anybody's, until the turn has looked at them.

use std::{convert::Infallible, mem, sync::Arc, time::Duration};

use base::{clock, explain::explain};
use domain::{
    aggregate::Aggregate,
    log_class::{LogClass, OfEach},
    resource::{
        instance::Instance,
        organization::Organization,
        session::{CheckedUser, LONGEST_LIFE_MS, Session},
        user::User,
    },
    standard::{Command as Asked, Resource, Standard},
};
use eventlog::{
    log::Log,
    record::{AggregateKey, Event, Record, Recorded},
};
use tokio_util::sync::CancellationToken;
use view::{
    database::{Database, DatabaseFailure},
    persons::REMOVED,
    projection::{Projection, SESSIONS, Sql},
    read_model::ReadModel,
};

use super::{
    backlog::{AfterPage, Backlog, BacklogFailure, work_off},
    checkpoint::{CheckpointFailure, CheckpointStore},
    steps::{self, Reaction, StepFailure, Steps},
};
use crate::{
    turn::{Cause, ClaimKeys, Decided, Refusal, Turn},
    writer::Decide,
};

/// How many sessions end in one record.
const AT_ONCE: usize = 100;
/// How soon sessions that could not be ended are tried again.
const AGAIN: Duration = Duration::from_mins(1);
/// How often it is checked whether the read model has all sessions.
const BREATH: Duration = Duration::from_millis(50);

/// What ending sessions needs.
#[derive(Clone)]
pub struct SessionEnds {
    /// The logs.
    pub logs: OfEach<Log>,
    /// Decides which sessions end.
    pub steps: Steps,
    /// The database with the sessions.
    pub database: Database,
    /// The shard.
    pub shard: u16,
    /// The number of servers that store the checkpoint.
    pub replicas: usize,
}

/// Why the reaction is interrupted.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionEndFailure {
    #[error(transparent)]
    Backlog(#[from] BacklogFailure),
    #[error(transparent)]
    Checkpoint(#[from] CheckpointFailure),
    #[error(transparent)]
    Step(#[from] StepFailure),
    #[error(transparent)]
    Database(#[from] DatabaseFailure),
}

/// An event with which sessions end.
pub(super) struct SessionEndEvent {
    recorded: Recorded,
    /// The statement that finds the ids of these sessions, in pages.
    select: &'static Sql,
    /// Where the log of sessions ended when the event was read.
    sessions_end: u64,
    /// The id of the last session that was looked at.
    last: String,
    /// Whether the sessions are ended one by one, because some cannot be ended.
    singly: bool,
    /// Whether a session could not be ended in this pass.
    has_failed: bool,
}

impl SessionEnds {
    /// Ends sessions whenever this node writes, until `shutdown`.
    pub async fn work(self, shutdown: CancellationToken) {
        steps::work(self, shutdown).await;
    }

    /// Returns the next ids of sessions that end; `None` if the read model lags.
    async fn page(&self, ending: &SessionEndEvent) -> Result<Option<Vec<String>>, DatabaseFailure> {
        let connection = self.database.connection().await?;
        let checkpoint = ReadModel::new(&SESSIONS, self.shard).checkpoint(&*connection).await?;
        if checkpoint.map_or(0, |checkpoint| checkpoint.position.stream_sequence) < ending.sessions_end {
            return Ok(None);
        }
        let Event { instance_id, aggregate_id, .. } = &ending.recorded.event;
        let statement = connection.prepare_cached(ending.select).await?;
        // Of a person who is erased no user agent may remain, not even in sessions that are over.
        let is_erasure = ending.recorded.event.r#type == REMOVED;
        let now = if is_erasure { i64::MIN } else { clock::now().as_millisecond() };
        let shard = i32::from(self.shard);
        let rows = connection.query(&statement, &[instance_id, aggregate_id, &ending.last, &now, &shard]).await?;
        Ok(Some(rows.iter().map(|row| row.get(0)).collect()))
    }

    async fn end(&self, recorded: &Recorded, ids: &[String]) -> Result<(), StepFailure> {
        let instance_id = &recorded.event.instance_id;
        let key = |id: &String| AggregateKey::of::<Standard<Session>>(instance_id.as_str(), id.as_str());
        let (actor, causation_id) = (recorded.event.actor.clone(), recorded.event.id.clone());
        let cause = Cause { actor, causation_id, ..Cause::default() };
        let (sessions, keys) = (ids.iter().map(key).collect(), self.steps.keys(instance_id).await?);
        let step = Step { sessions, with: recorded.key(), ended: recorded.sequence, keys, cause };
        self.steps.submit("end sessions", instance_id, step).await
    }
}

impl Backlog for SessionEnds {
    type Item = SessionEndEvent;
    type Failure = SessionEndFailure;

    async fn left(&self, record: &Record) -> Result<Vec<SessionEndEvent>, BacklogFailure> {
        let found: Vec<_> =
            record.events.iter().filter_map(|recorded| select(recorded).map(|select| (recorded, select))).collect();
        let sessions_end = if found.is_empty() { 0 } else { self.logs.sessions.end().await? };
        let ending = |(recorded, select): (&Arc<Recorded>, _)| SessionEndEvent {
            recorded: (**recorded).clone(),
            select,
            sessions_end,
            last: String::new(),
            singly: false,
            has_failed: false,
        };
        Ok(found.into_iter().map(ending).collect())
    }

    /// Ends one page of sessions. Sessions that cannot be ended do not hold up others, and are tried again in another
    /// pass from the first one on.
    async fn step(&self, ending: &mut SessionEndEvent) -> Result<AfterPage, SessionEndFailure> {
        let Some(ids) = self.page(ending).await? else { return Ok(AfterPage::Later(BREATH)) };
        let Some(newest) = ids.last().cloned() else {
            ending.last.clear();
            return Ok(if mem::take(&mut ending.has_failed) { AfterPage::Later(AGAIN) } else { AfterPage::Done });
        };
        if ending.singly {
            for id in &ids {
                if let Err(failure) = self.end(&ending.recorded, std::slice::from_ref(id)).await {
                    tracing::error!(error = explain(&failure), id, "a session cannot be ended at the moment");
                    ending.has_failed = true;
                }
            }
        } else if let Err(failure) = self.end(&ending.recorded, &ids).await {
            ending.singly = true;
            return Err(failure.into());
        }
        ending.last = newest;
        Ok(AfterPage::More)
    }

    fn name(ending: &SessionEndEvent) -> String {
        format!("{:?}", ending.recorded.key())
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
        let store = CheckpointStore::open(log.context(), self.replicas, "session_ends").await?;
        Ok(work_off(self, log, store, self.shard, Self::TROUBLE).await?)
    }

    fn of_step(failure: &SessionEndFailure) -> Option<&StepFailure> {
        if let SessionEndFailure::Step(failure) = failure { Some(failure) } else { None }
    }
}

/// Returns the statement that finds the sessions that end with an event; `None` if none do, or all of them are over by
/// now.
fn select(recorded: &Recorded) -> Option<&'static Sql> {
    static OF_USER: Sql = Sql::new(|| by("user_id"));
    static OF_ORGANIZATION: Sql = Sql::new(|| by("organization_id"));
    static OF_INSTANCE: Sql = Sql::new(|| by("instance_id"));
    let age = clock::now().as_millisecond().saturating_sub(recorded.committed_at.as_millisecond());
    match recorded.event.r#type.split_once('.')? {
        _ if age > LONGEST_LIFE_MS => None,
        (User::NAME, "deactivated" | "locked" | "sessions_ended" | "removed") => Some(&OF_USER),
        (Organization::NAME, "deactivated" | "removed") => Some(&OF_ORGANIZATION),
        (Instance::NAME, "deactivated" | "removed") => Some(&OF_INSTANCE),
        _ => None,
    }
}

/// Returns the statement that finds the ids of sessions by a column, and of those that are parked, in pages.
fn by(column: &str) -> String {
    let Projection { name, version, .. } = **SESSIONS;
    SESSIONS.sql(&format!(
        "(select id from {{session}} where instance_id = $1 and {column} = $2 and id > $3 and expires_at > $4 \
         order by id limit {AT_ONCE}) \
         union select aggregate_id from platform.failed_events where projection = '{name}' and version = {version} and shard = $5 \
         and instance_id = $1 and aggregate_id > $3 order by id limit {AT_ONCE}"
    ))
}

/// Ends those of the given sessions that were decided without the event.
struct Step {
    sessions: Vec<AggregateKey>,
    /// The user, organization or instance with which they end.
    with: AggregateKey,
    /// The sequence of the event.
    ended: u64,
    keys: ClaimKeys,
    cause: Cause,
}

impl Step {
    /// Whether a session of this user is one of those that end.
    fn is_with(&self, CheckedUser { id, organization_id, .. }: &CheckedUser) -> bool {
        match self.with.aggregate_type.as_str() {
            User::NAME => *id == self.with.id,
            Organization::NAME => *organization_id == self.with.id,
            _ => true,
        }
    }
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
            if user.is_some_and(|user| self.is_with(user) && user.seen < self.ended) {
                let events = Standard::<Session>::decide(&current.state, Asked::Delete)?;
                turn.append(current, &events, &self.keys, &self.cause)?;
            }
        }
        Ok((turn.nothing_decided(Session::NAME), ()))
    }
}
