//! The bucket of leases: one entry per process, which it renews, and one per unit of work, which names the process that
//! holds it and is only written when the unit changes hands.

use std::time::Duration;

use async_nats::jetstream::{
    self,
    context::PublishErrorKind,
    kv::{Operation, Store, UpdateErrorKind},
    message::PublishMessage,
};
use base::explain::explain;
use bytes::Bytes;
use futures::TryStreamExt;
use serde::{Deserialize, Serialize};

use super::ttl;
use crate::{
    log::{LogFailure, nats},
    streams,
};

const BUCKET: &str = "HOLDERS";
/// The bucket of versions before this one: one entry per unit, which was renewed and expired.
const EARLIER: &str = "LEASES";
/// The separator between the name of a holder and the number of its process in that bucket.
const SEPARATOR: char = '\n';
/// The prefix of the names of process entries.
const PROCESS: &str = "process.";

/// The name of the entry of a process, unique for all time.
pub(super) type ProcessKey = String;

/// The bucket.
#[derive(Debug, Clone)]
pub(super) struct Entries {
    context: jetstream::Context,
    store: Store,
    earlier: Option<Store>,
}

/// The entry of a unit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct UnitEntry {
    /// How often the unit was taken.
    pub(super) epoch: u64,
    /// The holder; `None` if the unit was given up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) holder: Option<Holder>,
}

/// The holder of a unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Holder {
    /// The entry of its process.
    pub(super) process: ProcessKey,
    /// The name of its node.
    pub(super) name: String,
}

/// Returns the name of the entry of a process.
pub(super) fn process_key(role: &str, number: &str) -> ProcessKey {
    format!("{PROCESS}{role}.{number}")
}

impl Entries {
    /// Opens the bucket, creating it if there is none.
    pub(super) async fn open(context: &jetstream::Context, replicas: usize) -> Result<Self, LogFailure> {
        let store = streams::ending_bucket(context, BUCKET, replicas).await?;
        Ok(Self { context: context.clone(), store, earlier: context.get_key_value(EARLIER).await.ok() })
    }

    /// Opens the bucket if there is one.
    pub(super) async fn find(context: &jetstream::Context) -> Result<Self, LogFailure> {
        let store = context.get_key_value(BUCKET).await.map_err(nats)?;
        Ok(Self { context: context.clone(), store, earlier: context.get_key_value(EARLIER).await.ok() })
    }

    /// Uses the same bucket on another connection.
    pub(super) async fn over(&self, context: jetstream::Context) -> Result<Self, LogFailure> {
        let store = context.get_key_value(BUCKET).await.map_err(nats)?;
        Ok(Self { context, store, earlier: None })
    }

    /// Writes the entry of a process at this revision, and returns the new one. It expires by itself, but not before
    /// the lease does: the broker counts in whole seconds.
    pub(super) async fn renew(&self, process: &str, name: &str, revision: u64) -> Result<Option<u64>, LogFailure> {
        let lasts = Duration::from_secs(ttl().as_secs() + 1);
        let message = PublishMessage::build().payload(Bytes::copy_from_slice(name.as_bytes())).ttl(lasts);
        let message = message.expected_last_subject_sequence(revision);
        let sent = self.context.send_publish(format!("$KV.{BUCKET}.{process}"), message).await.map_err(nats)?;
        match sent.await {
            Ok(answer) => Ok(Some(answer.sequence)),
            Err(error) if error.kind() == PublishErrorKind::WrongLastSequence => Ok(None),
            Err(error) => Err(nats(error)),
        }
    }

    /// Ends the lease of a process at this revision; its next renewal fails. `false` if it was renewed meanwhile.
    pub(super) async fn end(&self, process: &str, revision: u64) -> Result<bool, LogFailure> {
        Ok(self.renew(process, "", revision).await?.is_some())
    }

    /// Returns the revision of the entry of a process; `None` if its lease has ended.
    pub(super) async fn process(&self, process: &str) -> Result<Option<u64>, LogFailure> {
        let entry = self.store.entry(process).await.map_err(nats)?;
        let entry = entry.filter(|entry| entry.operation == Operation::Put && !entry.value.is_empty());
        Ok(entry.map(|entry| entry.revision))
    }

    /// Returns the entry of a unit with its revision; `None` if there is none.
    pub(super) async fn unit(&self, unit: &str) -> Result<Option<(UnitEntry, u64)>, LogFailure> {
        let Some(entry) = self.store.entry(unit).await.map_err(nats)? else { return Ok(None) };
        if entry.operation != Operation::Put {
            return Ok(Some((UnitEntry::default(), entry.revision)));
        }
        let read: Result<UnitEntry, _> = serde_json::from_slice(&entry.value);
        let read = read.map_err(|error| LogFailure::Nats(format!("the entry of {unit}: {}", explain(&error))))?;
        Ok(Some((read, entry.revision)))
    }

    /// Replaces the entry of a unit at this revision, and returns the new one; `None` if it has another.
    pub(super) async fn replace(&self, unit: &str, with: &UnitEntry, revision: u64) -> Result<Option<u64>, LogFailure> {
        let value = serde_json::to_vec(with).map_err(nats)?;
        match self.store.update(unit, value.into(), revision).await {
            Ok(revision) => Ok(Some(revision)),
            Err(error) if error.kind() == UpdateErrorKind::WrongLastRevision => Ok(None),
            Err(error) => Err(nats(error)),
        }
    }

    /// Returns the holder of a unit's lease in the bucket of an earlier version.
    pub(super) async fn earlier(&self, unit: &str) -> Result<Option<String>, LogFailure> {
        let Some(earlier) = &self.earlier else { return Ok(None) };
        let entry = earlier.entry(unit).await.map_err(nats)?;
        Ok(entry.filter(|entry| entry.operation == Operation::Put).map(|entry| {
            let name = entry.value.split(|byte| char::from(*byte) == SEPARATOR).next().unwrap_or_default();
            String::from_utf8_lossy(name).into_owned()
        }))
    }

    /// Returns the units that have an entry, ordered by name, including those in the bucket of an earlier version.
    pub(super) async fn units(&self) -> Result<Vec<String>, LogFailure> {
        let mut names = vec![];
        for store in [Some(&self.store), self.earlier.as_ref()].into_iter().flatten() {
            let found: Vec<String> = store.keys().await.map_err(nats)?.try_collect().await.map_err(nats)?;
            names.extend(found.into_iter().filter(|name| !name.starts_with(PROCESS)));
        }
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }
}
