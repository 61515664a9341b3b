//! Values beside the log that exist to be destroyed: many in a block, one message per block. A destroyed value is
//! overwritten where NATS stores it, and a mark stays in its place: a value that is missing without a mark was lost.
//!
//! A block is filled by the process that began it; every process may destroy values in it. The meaning of values is not
//! known here.

use std::{
    collections::BTreeMap,
    mem,
    sync::{Arc, Mutex, PoisonError},
};

use async_nats::jetstream::{
    self,
    kv::Store,
    message::PublishMessage,
    stream::{LastRawMessageErrorKind, Stream},
};
use base::{fault, secret::random};
use bytes::Bytes;
use tokio::sync::oneshot;

use crate::{
    cas,
    log::{LogFailure, nats},
    streams,
};

const BUCKET: &str = "PERSONS";
/// The most values of a block.
const FULL: usize = 256;
/// How often the destruction of values is tried while others write to the same block.
const TRIES: usize = 50;

/// The values of a block by random names, which are not used twice. Of a destroyed value only the name is left.
pub type Values = BTreeMap<String, Option<String>>;

/// The location of a value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Slot {
    /// The block.
    pub block: String,
    /// The name of the value in the block.
    pub entry: String,
}

/// The blocks of all processes.
#[derive(Debug, Clone)]
pub struct Blocks {
    context: jetstream::Context,
    stream: Stream,
    filling: Arc<Filling>,
}

/// The block that this process is filling.
#[derive(Debug, Default)]
struct Filling {
    waiting: Mutex<Vec<PendingValue>>,
    block: tokio::sync::Mutex<Option<Block>>,
}

/// A value that waits to be written.
#[derive(Debug)]
struct PendingValue {
    entry: String,
    value: String,
    told: oneshot::Sender<Result<Slot, String>>,
}

/// A block as last read or written.
#[derive(Debug)]
struct Block {
    id: String,
    /// The sequence of its message; 0 if it was not written yet.
    revision: u64,
    values: Values,
}

impl Blocks {
    /// Opens the bucket, creating it if there is none.
    ///
    /// # Errors
    /// If NATS does not answer, or if the existing bucket has unusable rules.
    pub async fn open(context: &jetstream::Context, replicas: usize) -> Result<Self, LogFailure> {
        let stream = streams::erasable_bucket(context, BUCKET, replicas).await?;
        Ok(Self { context: context.clone(), stream, filling: Arc::default() })
    }

    /// Adds a value to a block, and returns its location once it is durable. Values that arrive while a block is being
    /// written are written together next.
    ///
    /// # Errors
    /// If NATS does not accept it.
    pub async fn add(&self, value: String) -> Result<Slot, LogFailure> {
        let (told, answer) = oneshot::channel();
        self.waiting().push(PendingValue { entry: hex::encode(random::<8>()), value, told });
        // The caller may be cancelled; the other values of this write must not be.
        let filler = self.clone();
        tokio::spawn(async move { filler.fill().await });
        let told = answer.await.unwrap_or_else(|_| Err("it ended while it was written".to_owned()));
        told.map_err(LogFailure::Nats)
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Vec<PendingValue>> {
        self.filling.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn fill(&self) {
        let mut block = self.filling.block.lock().await;
        let mut new = mem::take(&mut *self.waiting());
        while !new.is_empty() {
            let rest = new.split_off(new.len().min(FULL));
            let written = self.write(&mut block, &new).await.map_err(|failure| failure.to_string());
            for PendingValue { entry, told, .. } in new {
                let _ = told.send(written.clone().map(|block| Slot { block, entry }));
            }
            new = rest;
        }
    }

    /// Writes new values to the block that is being filled, or to a new one if that is full or another process has
    /// written to it.
    async fn write(&self, filling: &mut Option<Block>, new: &[PendingValue]) -> Result<String, LogFailure> {
        let added = || new.iter().map(|new| (new.entry.clone(), Some(new.value.clone())));
        if let Some(mut block) = filling.take().filter(|block| block.values.len() + new.len() <= FULL) {
            block.values.extend(added());
            if self.replace(&mut block).await? {
                return Ok(filling.insert(block).id.clone());
            }
        }
        let mut block = Block { id: hex::encode(random::<8>()), revision: 0, values: added().collect() };
        if !self.replace(&mut block).await? {
            return Err(LogFailure::Nats("a block with this random id already exists".to_owned()));
        }
        Ok(filling.insert(block).id.clone())
    }

    /// Replaces a block that is unchanged, and destroys its previous message; `false` if it was changed meanwhile.
    async fn replace(&self, block: &mut Block) -> Result<bool, LogFailure> {
        let payload = serde_json::to_vec(&block.values).map_err(|error| LogFailure::Nats(error.to_string()))?;
        let message = PublishMessage::build().payload(payload.into()).expected_last_subject_sequence(block.revision);
        let Some(sequence) = cas::publish(&self.context, subject(&block.id), message).await? else { return Ok(false) };
        fault::point("blocks.replaced");
        // A message that is deleted is overwritten, unlike one that falls out of a stream by its limits.
        if block.revision > 0 && self.stream.delete_message(block.revision).await.is_err() {
            self.destroy_before(&block.id, sequence).await?;
        }
        block.revision = sequence;
        Ok(true)
    }

    /// Overwrites all messages of a block before the one with this sequence.
    async fn destroy_before(&self, id: &str, sequence: u64) -> Result<(), LogFailure> {
        loop {
            let first = self.stream.get_first_raw_message_by_subject(subject(id), 1).await.map_err(nats)?;
            if first.sequence >= sequence {
                return Ok(());
            }
            self.stream.delete_message(first.sequence).await.map_err(nats)?;
        }
    }

    /// Returns the bucket itself, for data that has to be restored together with its blocks.
    ///
    /// # Errors
    /// If NATS does not answer.
    pub async fn bucket(&self) -> Result<Store, LogFailure> {
        self.context.get_key_value(BUCKET).await.map_err(nats)
    }

    /// Returns the values of a block; `None` if there is no such block.
    ///
    /// # Errors
    /// If NATS does not answer.
    pub async fn values(&self, id: &str) -> Result<Option<Values>, LogFailure> {
        Ok(self.read(id).await?.map(|block| block.values))
    }

    async fn read(&self, id: &str) -> Result<Option<Block>, LogFailure> {
        if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Ok(None);
        }
        let message = match self.stream.get_last_raw_message_by_subject(&subject(id)).await {
            Ok(message) => message,
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => return Ok(None),
            Err(error) => return Err(nats(error)),
        };
        let values = values(&message.payload)?;
        Ok(Some(Block { id: id.to_owned(), revision: message.sequence, values }))
    }

    /// Destroys values of a block. For those that were destroyed before it makes sure that nothing is left.
    ///
    /// # Errors
    /// If NATS does not answer.
    pub async fn destroy(&self, id: &str, entries: &[String]) -> Result<(), LogFailure> {
        for _ in 0..TRIES {
            let Some(mut block) = self.read(id).await? else { return Ok(()) };
            let mut is_changed = false;
            for entry in entries {
                is_changed |= block.values.insert(entry.clone(), None) != Some(None);
            }
            if !is_changed {
                return self.destroy_before(id, block.revision).await;
            }
            if self.replace(&mut block).await? {
                return self.destroy_before(id, block.revision).await;
            }
        }
        Err(LogFailure::Nats("a block is written to all the time".to_owned()))
    }
}

fn subject(id: &str) -> String {
    format!("$KV.{BUCKET}.{id}")
}

fn values(payload: &Bytes) -> Result<Values, LogFailure> {
    // The content must not be revealed, and neither must the message of the parser.
    serde_json::from_slice(payload).map_err(|_| LogFailure::Nats("a block of keys cannot be read".to_owned()))
}
