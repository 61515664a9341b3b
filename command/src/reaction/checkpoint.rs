//! The checkpoints of reactions: the position in the log up to which each is done, saved by compare-and-set.

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

/// The bucket of all checkpoints.
const BUCKET: &str = "REACTIONS";

/// Why a checkpoint cannot be read or saved.
#[derive(Debug, thiserror::Error)]
pub(super) enum CheckpointFailure {
    #[error("NATS: {0}")]
    Nats(String),
    #[error(transparent)]
    Log(#[from] LogFailure),
    #[error("another node does this now")]
    Fenced,
}

impl CheckpointFailure {
    fn nats(error: impl std::error::Error + 'static) -> Self {
        Self::Nats(explain(&error))
    }
}

/// The entry in which the checkpoint of one reaction is stored.
#[derive(Debug, Clone)]
pub(super) struct CheckpointStore {
    store: Store,
    /// The name of the reaction.
    pub(super) name: &'static str,
}

/// A position as it is saved.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Saved {
    sequence: u64,
    stream_sequence: u64,
    digest: String,
}

impl CheckpointStore {
    /// Opens the entry of the reaction of this name.
    pub(super) async fn open(
        context: &jetstream::Context,
        replicas: usize,
        name: &'static str,
    ) -> Result<Self, CheckpointFailure> {
        Ok(Self::within(streams::bucket(context, BUCKET, replicas).await?, name))
    }

    /// Opens the entry in another bucket, for a reaction whose checkpoint is stored beside its data.
    pub(super) fn within(store: Store, name: &'static str) -> Self {
        Self { store, name }
    }

    /// The saved position, with the revision that the next save must name.
    pub(super) async fn read(&self) -> Result<Option<(Position, u64)>, CheckpointFailure> {
        let entry = self.store.entry(self.name).await.map_err(CheckpointFailure::nats)?;
        Ok(entry.and_then(|entry| Some((position(&entry.value)?, entry.revision))))
    }

    /// Saves a position, unless another node has saved one since.
    pub(super) async fn save(&self, to: Position, revision: Option<u64>) -> Result<u64, CheckpointFailure> {
        let Position { sequence, stream_sequence, digest } = to;
        let saved = Saved { sequence, stream_sequence, digest: hex::encode(digest) };
        let value = serde_json::to_vec(&saved).map_err(CheckpointFailure::nats)?.into();
        match revision {
            Some(revision) => match self.store.update(self.name, value, revision).await {
                Err(error) if error.kind() == UpdateErrorKind::WrongLastRevision => Err(CheckpointFailure::Fenced),
                updated => updated.map_err(CheckpointFailure::nats),
            },
            None => match self.store.create(self.name, value).await {
                Err(error) if error.kind() == CreateErrorKind::AlreadyExists => Err(CheckpointFailure::Fenced),
                created => created.map_err(CheckpointFailure::nats),
            },
        }
    }
}

/// How many records are read before a checkpoint is saved although nothing was done.
const SAVE_EVERY: u64 = 10_000;

/// The checkpoint of an idempotent reaction, which may begin at the start of the log where no checkpoint is known.
#[derive(Debug)]
pub(super) struct SavedCheckpoint {
    store: CheckpointStore,
    revision: Option<u64>,
    /// The position that was saved last.
    pub(super) at: Position,
}

impl SavedCheckpoint {
    /// Reads the checkpoint; the start of the log where none was saved, or where this log does not have it.
    pub(super) async fn begin(store: CheckpointStore, log: &Log) -> Result<Self, CheckpointFailure> {
        let (at, revision) = store.read().await?.unzip();
        let at = match at {
            Some(at) if log.has(at).await? => at,
            _ => Position::default(),
        };
        Ok(Self { store, revision, at })
    }

    /// Whether a position is so far from the saved one that it should be saved.
    pub(super) fn is_due(&self, at: Position) -> bool {
        at.stream_sequence >= self.at.stream_sequence + SAVE_EVERY
    }

    /// Saves a position, unless another node has saved one since.
    pub(super) async fn save(&mut self, at: Position) -> Result<(), CheckpointFailure> {
        self.revision = Some(self.store.save(at, self.revision).await?);
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
