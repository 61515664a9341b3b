//! How far an index is while its files stay the same: announced over NATS as it moves, and not stored.
//!
//! A message may be lost; who keeps the index says it again every second. It counts only for the manifest that it names, so
//! nobody takes files for newer than they are.

use async_nats::Client;
use base::explain::explain;
use eventlog::record::Position;
use futures::{Stream, StreamExt};
use serde::{Deserialize, Serialize};

use crate::{failure::IndexFailure, manifest::Payload, search::Snapshot};

/// How far the files of a manifest are: no later event up to there changes what is in them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Moved {
    /// The revision of the manifest.
    pub(crate) revision: u64,
    reached: Payload,
}

impl Moved {
    pub(crate) fn new(revision: u64, snapshot: &Snapshot) -> Self {
        Self { revision, reached: Payload::new(snapshot.position, snapshot.committed_at, &[]) }
    }

    pub(crate) fn position(&self) -> Position {
        self.reached.position()
    }

    /// The files of the manifest as far as they are.
    pub(crate) fn applied(&self, files: &Snapshot) -> Result<Snapshot, IndexFailure> {
        files.at(self.position(), self.reached.committed_at())
    }

    /// Tells everybody who listens; nobody has to.
    pub async fn announce(&self, client: &Client, shard: u16, index: &str) {
        let said = serde_json::to_vec(self).unwrap_or_default();
        if let Err(error) = client.publish(subject(shard, index), said.into()).await {
            tracing::debug!(error = explain(&error), "the position of the search index was not announced");
        }
    }

    /// What is announced of an index from now on.
    pub(crate) async fn listen(
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
