//! The sweep: an object that names a removed one is removed, too, or goes on without the name, also where these are
//! more than the record of the removal could hold. The node that writes does so in many small records.
//!
//! The event of a removal states whether something is left to sweep, so that the sweep only follows the log. It resumes
//! after its checkpoint; what was swept already is found to be gone.

use std::{convert::Infallible, future::pending, mem, time::Duration};

use base::{explain::explain, fault};
use domain::log_class::LogClass;
use eventlog::{
    log::{Log, LogFailure},
    record::{AggregateKey, Record},
};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use view::{
    database::{Database, DatabaseFailure},
    history::{aggregates_after, past::ask_at},
    keyring::SYSTEM,
    settings::{SettingsIndex, has_policies},
};

use super::{
    backlog::{AfterPage, Backlog, BacklogFailure, work_off},
    checkpoint::{CheckpointFailure, CheckpointStore},
    steps::{self, Reaction, StepFailure, Steps},
};
use crate::{
    references::{Complete, Note, Unnoted},
    removal::{Dependents, PAGE, Swept},
    turn::{Cause, ClaimKeys, Decided, Refusal, Turn},
    writer::Decide,
};

/// How long the sweep waits for history if a step changed nothing.
const BREATH: Duration = Duration::from_millis(100);
/// How many steps in a row may change nothing before what is left is given up: some seconds, in which history catches
/// up.
const MOST_IDLE: u32 = 100;
/// How long the sweep waits after a failure to note the addresses by which people are found.
const A_WHILE: Duration = Duration::from_mins(1);
/// How many aggregates of earlier versions are brought up to date in one record.
const NOTED_AT_ONCE: u32 = 100;
/// The name of the operation that notes the references of earlier versions.
const NOTING: &str = "note references";

/// What the sweep needs.
#[derive(Clone)]
pub struct Sweeps {
    /// The log.
    pub log: Log,
    /// Decides what is removed.
    pub steps: Steps,
    /// The database with the history.
    pub database: Database,
    /// The settings index, by which the contexts with policies on resources of the system are known.
    pub settings: SettingsIndex,
    /// The shard.
    pub shard: u16,
    /// The number of servers that store the checkpoint.
    pub replicas: usize,
}

/// Why the sweep is interrupted.
#[derive(Debug, thiserror::Error)]
pub(super) enum SweepFailure {
    #[error(transparent)]
    Backlog(#[from] BacklogFailure),
    #[error(transparent)]
    Log(#[from] LogFailure),
    #[error(transparent)]
    Checkpoint(#[from] CheckpointFailure),
    #[error(transparent)]
    Step(#[from] StepFailure),
    #[error(transparent)]
    Database(#[from] DatabaseFailure),
}

/// A removal of which something is left.
pub(super) struct Unswept {
    key: AggregateKey,
    /// The sequence of the removal.
    sequence: u64,
    cause: Cause,
    /// How many steps in a row changed nothing.
    idle: u32,
    /// The last policy on the removed object that was looked at.
    passed: Option<AggregateKey>,
    /// Whether a policy before that one could not be removed.
    has_failed: bool,
}

impl Sweeps {
    /// Sweeps whenever this node writes, until `shutdown`.
    pub async fn work(self, shutdown: CancellationToken) {
        steps::work(self, shutdown).await;
    }
}

impl Reaction for Sweeps {
    const TROUBLE: &'static str = "references to removed objects cannot be swept at the moment";
    type Failure = SweepFailure;

    fn steps(&self) -> &Steps {
        &self.steps
    }

    async fn serve(&self) -> Result<Infallible, SweepFailure> {
        let unnoted = self.unnoted().await?;
        if unnoted == Some(Unnoted::All) {
            self.note(Unnoted::All).await?;
        }
        let store = CheckpointStore::open(self.log.context(), self.replicas, "sweep").await?;
        // Removals do not depend on the addresses by which people are found.
        let contacts = async {
            if unnoted == Some(Unnoted::People) {
                self.note_people().await;
            }
            pending().await
        };
        tokio::select! {
            ended = work_off(self, &self.log, store, self.shard, Self::TROUBLE) => Ok(ended?),
            never = contacts => Ok(never),
        }
    }

    fn of_step(failure: &SweepFailure) -> Option<&StepFailure> {
        if let SweepFailure::Step(failure) = failure { Some(failure) } else { None }
    }
}

impl Backlog for Sweeps {
    type Item = Unswept;
    type Failure = SweepFailure;

    async fn left(&self, record: &Record) -> Result<Vec<Unswept>, BacklogFailure> {
        Ok(unswept(record).collect())
    }

    /// Sweeps one page of what is left of a removal.
    async fn step(&self, unswept: &mut Unswept) -> Result<AfterPage, SweepFailure> {
        if let Some(next) = self.remove_policies(unswept).await? {
            return Ok(next);
        }
        let keys = self.steps.keys(&unswept.key.instance_id).await?;
        let step = Step { key: unswept.key.clone(), cause: unswept.cause.clone(), keys };
        let Swept { wrote, has_more, looked_at } = self.steps.submit("sweep", &unswept.key.instance_id, step).await?;
        unswept.idle = if !wrote && looked_at > 0 { unswept.idle + 1 } else { 0 };
        if has_more && unswept.idle > MOST_IDLE {
            tracing::error!(key = ?unswept.key, "an object refers to a removed one and cannot be swept");
        }
        Ok(match (has_more && unswept.idle <= MOST_IDLE, wrote) {
            (false, _) => AfterPage::Done,
            (true, true) => AfterPage::More,
            (true, false) => AfterPage::Later(BREATH),
        })
    }

    fn name(unswept: &Unswept) -> String {
        format!("{:?}", unswept.key)
    }
}

impl Sweeps {
    /// Removes a page of the policies on a resource of the system; `None` where none are left.
    ///
    /// The policies are known from memory, and each is decided in its turn. None comes after the removal, so one pass
    /// over all of them is enough.
    async fn remove_policies(&self, unswept: &mut Unswept) -> Result<Option<AfterPage>, SweepFailure> {
        if unswept.key.instance_id != SYSTEM || !has_policies(&unswept.key.aggregate_type) {
            return Ok(None);
        }
        if self.settings.position().processed_by(unswept.sequence, BREATH).await < unswept.sequence {
            return Ok(Some(AfterPage::Later(BREATH)));
        }
        let policies = self.settings.policies_on(&unswept.key, unswept.passed.as_ref(), PAGE);
        let Some(last) = policies.last().cloned() else {
            // Policies that could not be removed are tried again after the others, so that one instance does not hold
            // them up.
            let is_again = mem::take(&mut unswept.has_failed);
            unswept.passed = None;
            return Ok(is_again.then_some(AfterPage::Later(BREATH)));
        };
        let instance_id = last.instance_id.clone();
        unswept.passed = Some(last);
        let cause = unswept.cause.clone();
        let removed = async {
            let keys = self.steps.keys(&instance_id).await?;
            self.steps.submit("sweep", &instance_id, Policies { policies, cause, keys }).await
        };
        let removed = removed.await;
        unswept.has_failed |= removed.is_err();
        removed?;
        Ok(Some(AfterPage::More))
    }

    /// Returns which aggregates of earlier versions do not have all references noted; `None` if all have.
    async fn unnoted(&self) -> Result<Option<Unnoted>, SweepFailure> {
        if fault::is_before_contacts() {
            return Ok(None);
        }
        let complete = Complete { is_done: false, keys: self.steps.keys(SYSTEM).await? };
        Ok(self.steps.submit(NOTING, SYSTEM, complete).await?)
    }

    /// Notes the references of people, until it is done.
    async fn note_people(&self) {
        while let Err(failure) = self.note(Unnoted::People).await {
            tracing::warn!(error = explain(&failure), "not all people are found by their addresses yet");
            sleep(A_WHILE).await;
        }
    }

    /// Notes the references of what earlier versions wrote, once.
    async fn note(&self, unnoted: Unnoted) -> Result<(), SweepFailure> {
        tracing::info!("recording the references in data of earlier versions");
        let end = self.log.last().await?.map_or(0, |record| record.position().sequence);
        ask_at(&self.database, self.shard, end, ()).await?;
        let mut last = AggregateKey { instance_id: String::new(), aggregate_type: String::new(), id: String::new() };
        loop {
            let mut found =
                aggregates_after(&*self.database.connection().await?, LogClass::Events, &last, NOTED_AT_ONCE).await?;
            let Some(newest) = found.last().cloned() else { break };
            found.retain(|key| unnoted.has(key));
            for aggregates in found.chunk_by(|one, next| one.instance_id == next.instance_id) {
                let keys = self.steps.keys(&aggregates[0].instance_id).await?;
                let mut rest = aggregates;
                while !rest.is_empty() {
                    let noted = self
                        .steps
                        .submit(NOTING, SYSTEM, Note { unnoted, aggregates: rest.to_vec(), keys: keys.clone() })
                        .await?;
                    rest = &rest[noted..];
                }
            }
            last = newest;
        }
        self.steps.submit(NOTING, SYSTEM, Complete { is_done: true, keys: self.steps.keys(SYSTEM).await? }).await?;
        tracing::info!("the data of earlier versions is up to date");
        Ok(())
    }
}

/// Returns the removals of a record of which something is left.
fn unswept(record: &Record) -> impl Iterator<Item = Unswept> {
    let events = record.events.iter().filter(|recorded| recorded.event.unswept);
    events.map(move |recorded| {
        let event = &recorded.event;
        let cause = Cause { actor: event.actor.clone(), causation_id: event.id.clone(), ..Cause::default() };
        Unswept { key: recorded.key(), sequence: recorded.sequence, cause, idle: 0, passed: None, has_failed: false }
    })
}

/// The sweep of one page of objects that name a removed one.
struct Step {
    key: AggregateKey,
    cause: Cause,
    keys: ClaimKeys,
}

impl Decide for Step {
    type Outcome = Swept;

    fn decide(&self, turn: &mut Turn<'_>) -> Result<(Decided, Swept), Refusal> {
        let swept = Dependents::sweep(turn, &self.key, &self.keys, &self.cause)?;
        Ok((turn.nothing_decided("sweep"), swept))
    }
}

/// The removal of one page of the policies on a removed resource of the system, of one instance.
struct Policies {
    policies: Vec<AggregateKey>,
    cause: Cause,
    keys: ClaimKeys,
}

impl Decide for Policies {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>) -> Result<(Decided, ()), Refusal> {
        Dependents::remove_policies(turn, &self.policies, &self.keys, &self.cause)?;
        Ok((turn.nothing_decided("sweep"), ()))
    }
}
