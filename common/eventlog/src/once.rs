//! Things that may happen once, such as the use of an assertion: noted in JetStream KV, and forgotten when they cannot
//! happen again.

use std::time::Duration;

use async_nats::jetstream::{self, message::PublishMessage};

use crate::{cas, log::LogFailure, streams};

const BUCKET: &str = "ONCE";

/// What has happened, shared by all nodes.
#[derive(Debug, Clone)]
pub struct Once {
    context: jetstream::Context,
}

impl Once {
    /// Opens the bucket, creating it if there is none.
    ///
    /// # Errors
    /// If NATS does not answer, or if the existing bucket has unusable rules.
    pub async fn open(context: &jetstream::Context, replicas: usize) -> Result<Self, LogFailure> {
        streams::forgetful_bucket(context, BUCKET, streams::FORGOTTEN_AFTER, replicas).await?;
        Ok(Self { context: context.clone() })
    }

    /// Whether this is the first time for a key within this duration, two hours at most, on any node. The key consists
    /// of letters, digits, `-`, `_` and `.`.
    ///
    /// # Errors
    /// If NATS does not answer: then it may or may not have been noted.
    pub async fn is_first(&self, key: &str, within: Duration) -> Result<bool, LogFailure> {
        // The broker counts in whole seconds.
        let lasts = Duration::from_secs(within.as_secs() + 1).min(streams::FORGOTTEN_AFTER);
        let message = PublishMessage::build().ttl(lasts).expected_last_subject_sequence(0);
        let noted = cas::publish(&self.context, format!("$KV.{BUCKET}.{key}"), message).await?;
        Ok(noted.is_some())
    }
}
