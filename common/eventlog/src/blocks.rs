//! Values beside the log which exist to be destroyed: many in a block, one message a block. What is destroyed is overwritten
//! where NATS keeps it, and a mark stays in its place: a value that is not there without one was lost.
//!
//! A block is filled by the process that began it; every process may destroy values in it. What the values mean is not known here.

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
/// How many values a block has.
const FULL: usize = 256;
/// How often a value is taken out again where others write to the same block.
const TRIES: usize = 50;

/// The values of a block, by random names: one never takes the place of another. Of one that was destroyed the name is left.
pub type Values = BTreeMap<String, Option<String>>;

/// Where a value is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Slot {
    /// The block.
    pub block: String,
    /// Its name there.
    pub entry: String,
}

/// The blocks of all processes.
#[derive(Debug, Clone)]
pub struct Blocks {
    context: jetstream::Context,
    stream: Stream,
    filling: Arc<Filling>,
}

/// The block that this process fills.
#[derive(Debug, Default)]
struct Filling {
    waiting: Mutex<Vec<New>>,
    block: tokio::sync::Mutex<Option<Block>>,
}

/// A value that waits for its block.
#[derive(Debug)]
struct New {
    entry: String,
    value: String,
    told: oneshot::Sender<Result<Slot, String>>,
}

/// A block as it was read or written last.
#[derive(Debug)]
struct Block {
    id: String,
    /// The sequence of its message; 0 where there is none yet.
    revision: u64,
    values: Values,
}

impl Blocks {
    /// Opens the bucket, which is made where there is none.
    ///
    /// # Errors
    /// When NATS does not answer, and when there is a bucket that does not work.
    pub async fn open(context: &jetstream::Context, replicas: usize) -> Result<Self, LogFailure> {
        let stream = streams::erasable_bucket(context, BUCKET, replicas).await?;
        Ok(Self { context: context.clone(), stream, filling: Arc::default() })
    }

    /// Puts a value into a block, which is durable when it is told where that is. What comes while a block is being written goes into
    /// the next write together.
    ///
    /// # Errors
    /// When NATS does not take it.
    pub async fn add(&self, value: String) -> Result<Slot, LogFailure> {
        let (told, answer) = oneshot::channel();
        self.waiting().push(New { entry: hex::encode(random::<8>()), value, told });
        // Who asks may go away; the others of its write do not.
        let filler = self.clone();
        tokio::spawn(async move { filler.fill().await });
        let told = answer.await.unwrap_or_else(|_| Err("it ended while it was written".to_owned()));
        told.map_err(LogFailure::Nats)
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, Vec<New>> {
        self.filling.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn fill(&self) {
        let mut block = self.filling.block.lock().await;
        let mut new = mem::take(&mut *self.waiting());
        while !new.is_empty() {
            let rest = new.split_off(new.len().min(FULL));
            let written = self.write(&mut block, &new).await.map_err(|failure| failure.to_string());
            for New { entry, told, .. } in new {
                let _ = told.send(written.clone().map(|block| Slot { block, entry }));
            }
            new = rest;
        }
    }

    /// Writes new values into the block that is being filled, or into another one where that is full or somebody else has
    /// written to it.
    async fn write(&self, filling: &mut Option<Block>, new: &[New]) -> Result<String, LogFailure> {
        let added = || new.iter().map(|new| (new.entry.clone(), Some(new.value.clone())));
        if let Some(mut block) = filling.take().filter(|block| block.values.len() + new.len() <= FULL) {
            block.values.extend(added());
            if self.replace(&mut block).await? {
                return Ok(filling.insert(block).id.clone());
            }
        }
        let mut block = Block { id: hex::encode(random::<8>()), revision: 0, values: added().collect() };
        if !self.replace(&mut block).await? {
            return Err(LogFailure::Nats("a block is there under a random id".to_owned()));
        }
        Ok(filling.insert(block).id.clone())
    }

    /// Replaces a block as it was, and destroys that; `false` where it is another one by now.
    async fn replace(&self, block: &mut Block) -> Result<bool, LogFailure> {
        let payload = serde_json::to_vec(&block.values).map_err(|error| LogFailure::Nats(error.to_string()))?;
        let message = PublishMessage::build().payload(payload.into()).expected_last_subject_sequence(block.revision);
        let Some(sequence) = cas::publish(&self.context, subject(&block.id), message).await? else { return Ok(false) };
        fault::point("blocks.replaced");
        // Unlike a message that falls out of a stream, one that is deleted is overwritten.
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

    /// The bucket itself, for what has to be restored together with its blocks.
    ///
    /// # Errors
    /// When NATS does not answer.
    pub async fn bucket(&self) -> Result<Store, LogFailure> {
        self.context.get_key_value(BUCKET).await.map_err(nats)
    }

    /// The values of a block; `None` where there is no such block.
    ///
    /// # Errors
    /// When NATS does not answer.
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

    /// Destroys values of a block. Of those that were destroyed before it is made sure that nothing is left.
    ///
    /// # Errors
    /// When NATS does not answer.
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
    // What it is must not be told, so neither is what the parser says.
    serde_json::from_slice(payload).map_err(|_| LogFailure::Nats("a block of keys cannot be read".to_owned()))
}
