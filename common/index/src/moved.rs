//! The progress of an index whose files stay the same: announced over NATS as it moves, and not stored.
//!
//! A message may be lost; the writer of the index repeats it every second. An announcement is only valid for the
//! manifest that it names, so files are never taken for newer than they are.

use async_nats::Client;
use base::explain::explain;
use eventlog::record::Position;
use futures::{Stream, StreamExt};
use serde::{Deserialize, Serialize};

use crate::{
    failure::IndexFailure,
    manifest::{Manifest, Payload},
    search::Snapshot,
};

/// The progress of a manifest's files: no later event up to this position changes their contents.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct IndexProgress {
    /// The revision of the manifest.
    pub(crate) revision: u64,
    reached: Payload,
}

impl IndexProgress {
    pub(crate) fn new(revision: u64, snapshot: &Snapshot) -> Self {
        Self { revision, reached: Payload::new(snapshot.position, snapshot.committed_at, &[]) }
    }

    /// Returns the progress of files that were just published.
    pub(crate) fn of(revision: u64, manifest: &Manifest) -> Self {
        Self { revision, reached: manifest.payload() }
    }

    pub(crate) fn position(&self) -> Position {
        self.reached.position()
    }

    /// Returns a snapshot of the manifest's files at this position.
    pub(crate) fn applied(&self, files: &Snapshot) -> Result<Snapshot, IndexFailure> {
        files.at(self.position(), self.reached.committed_at())
    }

    /// Announces it to all listeners, if there are any.
    pub async fn announce(&self, client: &Client, shard: u16, index: &str) {
        let said = serde_json::to_vec(self).unwrap_or_default();
        if let Err(error) = client.publish(subject(shard, index), said.into()).await {
            tracing::debug!(error = explain(&error), "the position of the search index was not announced");
        }
    }

    /// Listens to the announcements about an index.
    pub async fn listen(
        client: &Client,
        shard: u16,
        index: &str,
    ) -> Result<impl Stream<Item = Self> + Unpin + use<>, IndexFailure> {
        let messages = client.subscribe(subject(shard, index)).await;
        let messages = messages.map_err(|error| IndexFailure::Nats(explain(&error)))?;
        Ok(messages.filter_map(|message| std::future::ready(serde_json::from_slice(&message.payload).ok())))
    }
}

fn subject(shard: u16, index: &str) -> String {
    format!("progress.{shard}.files.{index}")
}
