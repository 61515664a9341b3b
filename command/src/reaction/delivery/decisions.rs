//! Decisions about deliveries that were met in the log and are not done yet.

use async_nats::jetstream::{
    self,
    kv::{CreateErrorKind, Store, UpdateErrorKind},
};
use domain::failed_event::Event as Decision;
use eventlog::streams;
use serde::{Deserialize, Serialize};

use super::{super::place::BUCKET, DeliveryFailure};

/// The name of the value that has them all, the oldest first.
const KEY: &str = "mending";

/// Where they are kept.
#[derive(Debug, Clone)]
pub(super) struct Decisions(Store);

/// A decision as it is kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Kept {
    /// Its sequence in the log.
    pub(super) sequence: u64,
    /// The id of the failed event, or of the retry of many.
    pub(super) id: String,
    /// What was decided.
    pub(super) decision: Decision,
}

impl Decisions {
    pub(super) async fn open(context: &jetstream::Context, replicas: usize) -> Result<Self, DeliveryFailure> {
        Ok(Self(streams::bucket(context, BUCKET, replicas).await?))
    }

    /// Keeps one more. One that is kept already was met by a relay that died before it had saved its place.
    pub(super) async fn keep(&self, one: Kept) -> Result<(), DeliveryFailure> {
        let add = |all: &mut Vec<Kept>| {
            if all.iter().all(|known| known.sequence != one.sequence) {
                all.push(one.clone());
            }
        };
        self.change(add).await
    }

    /// The oldest.
    pub(super) async fn first(&self) -> Result<Option<Kept>, DeliveryFailure> {
        Ok(self.read().await?.1.into_iter().next())
    }

    /// Forgets one that is done.
    pub(super) async fn forget(&self, sequence: u64) -> Result<(), DeliveryFailure> {
        self.change(|all| all.retain(|known| known.sequence != sequence)).await
    }

    async fn read(&self) -> Result<(Option<u64>, Vec<Kept>), DeliveryFailure> {
        let Some(entry) = self.0.entry(KEY).await.map_err(DeliveryFailure::nats)? else { return Ok((None, vec![])) };
        let all = serde_json::from_slice(&entry.value).map_err(DeliveryFailure::nats)?;
        Ok((Some(entry.revision), all))
    }

    /// The relay adds and the mender takes away.
    async fn change(&self, change: impl Fn(&mut Vec<Kept>)) -> Result<(), DeliveryFailure> {
        loop {
            let (revision, mut all) = self.read().await?;
            change(&mut all);
            let value = serde_json::to_vec(&all).map_err(DeliveryFailure::nats)?.into();
            let is_overtaken = match revision {
                Some(revision) => match self.0.update(KEY, value, revision).await {
                    Err(error) if error.kind() == UpdateErrorKind::WrongLastRevision => true,
                    updated => updated.map(|_| false).map_err(DeliveryFailure::nats)?,
                },
                None => match self.0.create(KEY, value).await {
                    Err(error) if error.kind() == CreateErrorKind::AlreadyExists => true,
                    created => created.map(|_| false).map_err(DeliveryFailure::nats)?,
                },
            };
            if !is_overtaken {
                return Ok(());
            }
        }
    }
}
