//! Pictures and fonts, which are too long for the log: it only contains their digests. Each is stored under its
//! instance, the context that owns it, and its digest, so writing one again changes nothing, and needs no
//! compare-and-set.
//!
//! Removal names the message of an asset and not its name: if it was written again meanwhile, the new message stays.

use std::time::Duration;

use async_nats::jetstream::{
    self, ErrorCode,
    stream::{DeleteMessageError, DeleteMessageErrorKind, LastRawMessageErrorKind, Stream},
};
use base::fault;
use bytes::Bytes;
use domain::context::Owner;
use futures::TryStreamExt;
use jiff::Timestamp;

use crate::{
    log::{LogFailure, nats},
    streams::{self, server_time},
};

const BUCKET: &str = "ASSETS";
/// The name of the system in subjects; its id is empty.
const SYSTEM: &str = "system";
/// The number of hexadecimal digits of a digest.
const OF_DIGEST: usize = 64;

/// The minimum age of an asset that its context does not show before it may be removed: longer than it takes from
/// writing one to its event, and than pages that name it stay open.
pub fn grace() -> Duration {
    fault::shortened(Duration::from_hours(1), Duration::from_secs(20))
}

/// The pictures and fonts of all contexts.
#[derive(Debug, Clone)]
pub struct Assets {
    context: jetstream::Context,
    stream: Stream,
}

/// The name of an asset: its instance, the context that owns it, and its digest.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AssetName {
    /// The instance; empty for the system.
    pub instance_id: String,
    /// The id of the context; empty for the system.
    pub owner_id: String,
    /// The SHA-256 of the content, in hexadecimal digits.
    pub digest: String,
}

impl AssetName {
    /// Creates a name from its parts, or `None` if they cannot be parts of one: they may come from anybody.
    pub fn new(instance_id: &str, owner_id: &str, digest: &str) -> Option<Self> {
        let is_id =
            |id: &str| id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)) && id != SYSTEM;
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let is_name = is_id(instance_id) && is_id(owner_id) && instance_id.is_empty() == owner_id.is_empty();
        let is_digest = digest.len() == OF_DIGEST && digest.bytes().all(is_hex);
        let [instance_id, owner_id, digest] = [instance_id, owner_id, digest].map(str::to_owned);
        (is_name && is_digest).then_some(Self { instance_id, owner_id, digest })
    }

    /// Returns the context that owns it.
    pub fn owner(&self) -> Owner {
        match self.owner_id.as_str() {
            "" => Owner::system(),
            id if id == self.instance_id => Owner::instance(id),
            id => Owner::organization(id),
        }
    }

    fn subject(&self) -> String {
        format!("{}{}", folder(&self.instance_id, &self.owner_id), self.digest)
    }

    fn read(subject: &str) -> Option<Self> {
        let mut parts = subject.strip_prefix(&format!("$KV.{BUCKET}."))?.split('.');
        let id = |part: &'_ str| if part == SYSTEM { String::new() } else { part.to_owned() };
        let (instance_id, owner_id, digest) = (id(parts.next()?), id(parts.next()?), parts.next()?);
        Self::new(&instance_id, &owner_id, digest).filter(|_| parts.next().is_none())
    }
}

fn folder(instance_id: &str, owner_id: &str) -> String {
    let named = |id: &str| if id.is_empty() { SYSTEM.to_owned() } else { id.to_owned() };
    format!("$KV.{BUCKET}.{}.{}.", named(instance_id), named(owner_id))
}

impl Assets {
    /// Opens the bucket, creating it if there is none.
    ///
    /// # Errors
    /// If NATS does not answer, or if the existing bucket has unusable rules.
    pub async fn open(context: &jetstream::Context, replicas: usize) -> Result<Self, LogFailure> {
        let stream = streams::assets_bucket(context, BUCKET, replicas).await?;
        Ok(Self { context: context.clone(), stream })
    }

    /// Writes a content. It is stored when this returns, and its age starts again if it was stored before.
    ///
    /// # Errors
    /// If NATS does not answer: then it may have been written. If the bucket is full.
    pub async fn put(&self, name: &AssetName, content: Bytes) -> Result<(), LogFailure> {
        let sent = self.context.publish(name.subject(), content).await.map_err(nats)?;
        sent.await.map_err(nats).map(drop)
    }

    /// Returns the number of assets of the same context, without the one of this name.
    ///
    /// # Errors
    /// If NATS does not answer.
    pub async fn others(&self, name: &AssetName) -> Result<usize, LogFailure> {
        let all = self.names(&format!("{}>", folder(&name.instance_id, &name.owner_id))).await?;
        Ok(all.iter().filter(|other| *other != name).count())
    }

    /// Returns the content of an asset.
    ///
    /// # Errors
    /// If NATS does not answer.
    pub async fn get(&self, name: &AssetName) -> Result<Option<Bytes>, LogFailure> {
        Ok(self.message(name).await?.map(|(_, _, content)| content))
    }

    /// Returns the names of all assets.
    ///
    /// # Errors
    /// If NATS does not answer.
    pub async fn all(&self) -> Result<Vec<AssetName>, LogFailure> {
        self.names(&format!("$KV.{BUCKET}.>")).await
    }

    async fn names(&self, filter: &str) -> Result<Vec<AssetName>, LogFailure> {
        let counts = self.stream.info_with_subjects(filter).await.map_err(nats)?;
        let counts: Vec<(String, usize)> = counts.try_collect().await.map_err(nats)?;
        Ok(counts.iter().filter_map(|(subject, _)| AssetName::read(subject)).collect())
    }

    /// Returns the sequence of an asset's message if it is at least this old by the clock of NATS.
    ///
    /// # Errors
    /// If NATS does not answer.
    pub async fn written_before(&self, name: &AssetName, age: Duration) -> Result<Option<u64>, LogFailure> {
        let Some((sequence, written_at, _)) = self.message(name).await? else { return Ok(None) };
        let now = server_time(&self.context.client(), &format!("KV_{BUCKET}")).await;
        let now = now.ok_or_else(|| LogFailure::Nats("the server does not tell its time".to_owned()))?;
        Ok((now.duration_since(written_at).unsigned_abs() >= age && now > written_at).then_some(sequence))
    }

    /// Removes a message. Nothing is removed if the name was written again meanwhile.
    ///
    /// # Errors
    /// If NATS does not answer.
    pub async fn remove(&self, sequence: u64) -> Result<(), LogFailure> {
        match self.stream.delete_message(sequence).await {
            Ok(_) => Ok(()),
            // It is already removed.
            Err(error) if is_gone(&error) => Ok(()),
            Err(error) => Err(nats(error)),
        }
    }

    /// Returns the sequence of a message, when it was written, and its content.
    async fn message(&self, name: &AssetName) -> Result<Option<(u64, Timestamp, Bytes)>, LogFailure> {
        let message = match self.stream.get_last_raw_message_by_subject(&name.subject()).await {
            Ok(message) => message,
            Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => return Ok(None),
            Err(error) => return Err(nats(error)),
        };
        let written_at = Timestamp::from_second(message.time.unix_timestamp()).unwrap_or(Timestamp::MAX);
        Ok(Some((message.sequence, written_at, message.payload)))
    }
}

fn is_gone(error: &DeleteMessageError) -> bool {
    let codes = [ErrorCode::NO_MESSAGE_FOUND, ErrorCode::SEQUENCE_NOT_FOUND];
    matches!(error.kind(), DeleteMessageErrorKind::JetStream(error) if codes.contains(&error.error_code()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_is_written_and_no_wildcard_is_one() {
        let digest = "0f".repeat(32);
        for (instance, owner) in [("1", "2"), ("1", "1"), ("", "")] {
            let name = AssetName::new(instance, owner, &digest).unwrap();
            assert_eq!(AssetName::read(&name.subject()), Some(name));
        }
        for (instance, owner, digest) in [
            ("1", "*", digest.as_str()),
            ("1", ">", &digest),
            ("1", "2.3", &digest),
            ("1", "system", &digest),
            ("1", "", &digest),
            ("", "2", &digest),
            ("1", "2", "*"),
            ("1", "2", &digest[1..]),
            ("1", "2", &digest.to_uppercase()),
        ] {
            assert_eq!(AssetName::new(instance, owner, digest), None, "{instance} {owner} {digest}");
        }
    }
}
