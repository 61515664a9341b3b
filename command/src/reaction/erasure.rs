//! Erasures: when a person was removed, the node that writes destroys the key with which the personal data was sealed.
//!
//! The reaction follows the log, so that people who are removed with an organization or an instance are erased, too,
//! and so that a node which dies leaves nothing undone. It resumes after a checkpoint that is saved among the keys:
//! restoring older keys restores an older checkpoint with them, and what was erased since is erased again.

use std::{collections::HashSet, convert::Infallible};

use domain::{aggregate::Aggregate, resource::user::User, standard::Standard};
use eventlog::{
    blocks::Slot,
    log::{Log, LogFailure},
    record::Recorded,
};
use futures::StreamExt;
use tokio_util::sync::CancellationToken;
use view::{
    database::{Database, DatabaseFailure},
    history::past::{Between, ask_at},
    persons::{PersonFailure, Persons, REMOVED, slot_in},
    reaction::ReactionReporter,
};

use super::{
    checkpoint::{CheckpointFailure, CheckpointStore, SavedCheckpoint},
    steps::{self, Reaction, StepFailure, Steps},
};

/// What erasures need.
#[derive(Clone)]
pub struct Erasures {
    /// The log.
    pub log: Log,
    /// Reports when this node writes.
    pub steps: Steps,
    /// The database with the history.
    pub database: Database,
    /// The keys of people.
    pub persons: Persons,
    /// The shard.
    pub shard: u16,
}

/// Why erasures are interrupted.
#[derive(Debug, thiserror::Error)]
pub(super) enum ErasureFailure {
    #[error(transparent)]
    Checkpoint(#[from] CheckpointFailure),
    #[error(transparent)]
    Log(#[from] LogFailure),
    #[error("the log ended")]
    LogEnded,
    #[error(transparent)]
    Person(#[from] PersonFailure),
    #[error(transparent)]
    Database(#[from] DatabaseFailure),
}

impl Erasures {
    /// Erases whenever this node writes, until `shutdown`.
    pub async fn work(self, shutdown: CancellationToken) {
        steps::work(self, shutdown).await;
    }

    /// Returns the slots of the keys of a user that was removed: a person has one, a service user none.
    async fn slots(&self, removed: &Recorded) -> Result<HashSet<Slot>, DatabaseFailure> {
        let (key, to, mut from) = (removed.key(), removed.sequence, 0);
        let mut found = HashSet::new();
        loop {
            let question = Between { key: &key, sequences: (from, to) };
            let (events, is_all) = ask_at(&self.database, self.shard, to, question).await?;
            found.extend(events.iter().filter_map(|recorded| slot_in(recorded)));
            match events.last() {
                Some(last) if !is_all => from = last.sequence + 1,
                _ => return Ok(found),
            }
        }
    }
}

impl Reaction for Erasures {
    const TROUBLE: &'static str = "the keys of people who were removed are not destroyed at the moment";
    type Failure = ErasureFailure;

    fn steps(&self) -> &Steps {
        &self.steps
    }

    async fn serve(&self) -> Result<Infallible, ErasureFailure> {
        let store = CheckpointStore::within(self.persons.bucket().await?, "erasures");
        let name = store.name;
        let mut saved = SavedCheckpoint::begin(store, &self.log).await?;
        let reporter = ReactionReporter::start(&self.log, self.shard, name, saved.at);
        let mut records = self.log.follow(saved.at).await?;
        loop {
            let record = records.next().await.ok_or(ErasureFailure::LogEnded)??;
            let mut gone = HashSet::new();
            for removed in record.events.iter().filter(|recorded| is_removal(recorded)) {
                gone.extend(self.slots(removed).await?);
            }
            let has_some = !gone.is_empty();
            base::fault::point("erasures.destroying");
            self.persons.destroy(gone).await?;
            if has_some || saved.is_due(record.position()) {
                saved.save(record.position()).await?;
            }
            reporter.note(|progress| progress.at = record.position());
        }
    }

    fn of_step(_: &ErasureFailure) -> Option<&StepFailure> {
        None
    }
}

fn is_removal(recorded: &Recorded) -> bool {
    recorded.event.aggregate_type == <Standard<User> as Aggregate>::NAME && recorded.event.r#type == REMOVED
}
