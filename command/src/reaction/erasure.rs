//! Erasures: when a person was removed, the key is destroyed with which what is personal was sealed, by the node that writes.
//!
//! It follows the log, so that also who is removed with an organization or an instance is erased, and so that a node which dies
//! leaves nothing undone. It begins again after a place that is saved among the keys: who restores older ones restores an older
//! place with them, and what was erased since is erased again.

use std::convert::Infallible;

use domain::{aggregate::Aggregate, person::sealed_in, resource::user::User, standard::Standard};
use eventlog::{
    log::{Log, LogFailure},
    record::{AggregateKey, Position, Recorded},
};
use futures::StreamExt;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use view::{
    database::{Database, DatabaseFailure},
    history::{past::snapshot_at, waiting::waiting},
    persons::{PersonFailure, Persons, REMOVED},
};

use super::{
    place::{Place, PlaceFailure},
    steps::{self, Reaction, StepFailure, Steps},
};

/// How many records are read before the place is saved, where nobody was removed.
const SAVE_EVERY: u64 = 10_000;
/// How long it waits for history.
const BREATH: std::time::Duration = std::time::Duration::from_millis(50);

/// What erasures need.
#[derive(Clone)]
pub struct Erasures {
    /// The log.
    pub log: Log,
    /// Tells when this node writes.
    pub steps: Steps,
    /// Where history is.
    pub database: Database,
    /// The keys.
    pub persons: Persons,
    /// The shard.
    pub shard: u16,
}

/// Why it does not go on.
#[derive(Debug, thiserror::Error)]
pub(super) enum ErasureFailure {
    #[error(transparent)]
    Place(#[from] PlaceFailure),
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

    /// What was sealed of a user that was removed: one text for each key, of which a person has one, and a service user none.
    async fn sealed(&self, removed: &Recorded) -> Result<Vec<String>, DatabaseFailure> {
        let (key, mut from) = (removed.key(), 0);
        let mut found = vec![];
        loop {
            let (events, is_all) = self.events(&key, (from, removed.sequence)).await?;
            for recorded in &events {
                let mut payload = serde_json::from_slice(&recorded.event.payload).unwrap_or_default();
                let sealed = sealed_in(&mut payload).and_then(|sealed| sealed.as_str().map(str::to_owned));
                if let Some(sealed) = sealed {
                    // Of each the place of its key is enough.
                    let place: Vec<_> = sealed.splitn(3, '.').take(2).collect();
                    let place = place.join(".");
                    if !found.contains(&place) {
                        found.push(place);
                    }
                }
            }
            match events.last() {
                Some(last) if !is_all => from = last.sequence + 1,
                _ => return Ok(found),
            }
        }
    }

    /// Events of a user, when history has come so far.
    async fn events(
        &self,
        key: &AggregateKey,
        (from, to): (u64, u64),
    ) -> Result<(Vec<std::sync::Arc<Recorded>>, bool), DatabaseFailure> {
        loop {
            let read = async {
                let mut connection = self.database.connection().await?;
                let Some(history) = snapshot_at(&mut connection, self.shard, to).await? else { return Ok(None) };
                waiting(&history, key, (from, to)).await.map(Some)
            };
            if let Some(found) = self.database.within(read).await? {
                return Ok(found);
            }
            sleep(BREATH).await;
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
        let place = Place::within(self.persons.bucket().await?, "erasures");
        let saved = place.read().await?;
        let mut revision = saved.map(|(_, revision)| revision);
        let mut saved_at = match saved {
            Some((at, _)) if self.log.has(at).await? => at,
            // What was destroyed is found to be gone, so it may begin at the beginning.
            _ => Position::default(),
        };
        let mut records = self.log.follow(saved_at).await?;
        loop {
            let record = records.next().await.ok_or(ErasureFailure::LogEnded)??;
            let mut gone = vec![];
            for removed in record.events.iter().filter(|recorded| is_removal(recorded)) {
                gone.extend(self.sealed(removed).await?);
            }
            base::fault::point("erasures.destroying");
            self.persons.destroy(&gone).await?;
            let at = record.position();
            if !gone.is_empty() || at.stream_sequence >= saved_at.stream_sequence + SAVE_EVERY {
                revision = Some(place.save(at, revision).await?);
                saved_at = at;
            }
        }
    }

    fn of_step(_: &ErasureFailure) -> Option<&StepFailure> {
        None
    }
}

fn is_removal(recorded: &Recorded) -> bool {
    recorded.event.aggregate_type == <Standard<User> as Aggregate>::NAME && recorded.event.r#type == REMOVED
}
