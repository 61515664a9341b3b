//! The places of reactions in the log: each is saved under a name of its own, by compare-and-set.

use async_nats::jetstream::{
    self,
    kv::{CreateErrorKind, Store, UpdateErrorKind},
};
use base::explain::explain;
use eventlog::{
    log::{Log, LogFailure},
    record::Position,
    streams,
};
use serde::{Deserialize, Serialize};

/// The bucket of all places.
const BUCKET: &str = "REACTIONS";

/// A place that cannot be read or saved.
#[derive(Debug, thiserror::Error)]
pub(super) enum PlaceFailure {
    #[error("NATS: {0}")]
    Nats(String),
    #[error(transparent)]
    Log(#[from] LogFailure),
    #[error("another node does this now")]
    Fenced,
}

impl PlaceFailure {
    fn nats(error: impl std::error::Error + 'static) -> Self {
        Self::Nats(explain(&error))
    }
}

/// Where the place of one reaction is kept.
#[derive(Debug, Clone)]
pub(super) struct Place {
    store: Store,
    /// Of which reaction it is.
    pub(super) name: &'static str,
}

/// A position as it is saved.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Saved {
    sequence: u64,
    stream_sequence: u64,
    digest: String,
}

impl Place {
    /// The place of the reaction of this name.
    pub(super) async fn open(
        context: &jetstream::Context,
        replicas: usize,
        name: &'static str,
    ) -> Result<Self, PlaceFailure> {
        Ok(Self::within(streams::bucket(context, BUCKET, replicas).await?, name))
    }

    /// The place of a reaction that is kept in another bucket, with what it is about.
    pub(super) fn within(store: Store, name: &'static str) -> Self {
        Self { store, name }
    }

    /// The saved position, with the revision that the next save must name.
    pub(super) async fn read(&self) -> Result<Option<(Position, u64)>, PlaceFailure> {
        let entry = self.store.entry(self.name).await.map_err(PlaceFailure::nats)?;
        Ok(entry.and_then(|entry| Some((position(&entry.value)?, entry.revision))))
    }

    /// Saves a position, unless another node has saved one since.
    pub(super) async fn save(&self, to: Position, revision: Option<u64>) -> Result<u64, PlaceFailure> {
        let Position { sequence, stream_sequence, digest } = to;
        let saved = Saved { sequence, stream_sequence, digest: hex::encode(digest) };
        let value = serde_json::to_vec(&saved).map_err(PlaceFailure::nats)?.into();
        match revision {
            Some(revision) => match self.store.update(self.name, value, revision).await {
                Err(error) if error.kind() == UpdateErrorKind::WrongLastRevision => Err(PlaceFailure::Fenced),
                updated => updated.map_err(PlaceFailure::nats),
            },
            None => match self.store.create(self.name, value).await {
                Err(error) if error.kind() == CreateErrorKind::AlreadyExists => Err(PlaceFailure::Fenced),
                created => created.map_err(PlaceFailure::nats),
            },
        }
    }
}

/// How many records are read before a place is saved where nothing has to be.
const SAVE_EVERY: u64 = 10_000;

/// The place of a reaction that finds done what it did already, so that it may begin at the beginning where its place is not known.
#[derive(Debug)]
pub(super) struct SavedPlace {
    place: Place,
    revision: Option<u64>,
    /// Where that is.
    pub(super) at: Position,
}

impl SavedPlace {
    /// The place that was saved last, if this log has it.
    pub(super) async fn begin(place: Place, log: &Log) -> Result<Self, PlaceFailure> {
        let (at, revision) = place.read().await?.unzip();
        let at = match at {
            Some(at) if log.has(at).await? => at,
            _ => Position::default(),
        };
        Ok(Self { place, revision, at })
    }

    /// Whether a place is so far from the one that is saved that it should be.
    pub(super) fn is_due(&self, at: Position) -> bool {
        at.stream_sequence >= self.at.stream_sequence + SAVE_EVERY
    }

    /// Saves a place, unless another node has saved one since.
    pub(super) async fn save(&mut self, at: Position) -> Result<(), PlaceFailure> {
        self.revision = Some(self.place.save(at, self.revision).await?);
        self.at = at;
        Ok(())
    }
}

fn position(value: &[u8]) -> Option<Position> {
    let Saved { sequence, stream_sequence, digest } = serde_json::from_slice(value).ok()?;
    let mut bytes = [0; 32];
    hex::decode_to_slice(digest, &mut bytes).ok()?;
    Some(Position { sequence, stream_sequence, digest: bytes })
}
