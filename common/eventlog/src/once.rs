//! What may happen once, such as the use of an assertion: noted in JetStream KV, and forgotten when it could not happen again.

use std::time::Duration;

use async_nats::jetstream::{self, message::PublishMessage};

use crate::{cas, log::LogFailure, streams};

const BUCKET: &str = "ONCE";

/// What has happened, on all nodes.
#[derive(Debug, Clone)]
pub struct Once {
    context: jetstream::Context,
}

impl Once {
    /// Opens the bucket, which is made where there is none.
    ///
    /// # Errors
    /// When NATS does not answer, and when there is a bucket that does not work.
    pub async fn open(context: &jetstream::Context, replicas: usize) -> Result<Self, LogFailure> {
        streams::forgetful_bucket(context, BUCKET, (streams::FORGOTTEN_AFTER, replicas)).await?;
        Ok(Self { context: context.clone() })
    }

    /// Whether this is the first time within so long, two hours at most, on any node. The key has letters, digits, `-`, `_` and `.`
    /// only.
    ///
    /// # Errors
    /// When NATS does not answer: then it may have been noted or not.
    pub async fn is_first(&self, key: &str, within: Duration) -> Result<bool, LogFailure> {
        // The broker counts in whole seconds.
        let lasts = Duration::from_secs(within.as_secs() + 1).min(streams::FORGOTTEN_AFTER);
        let message = PublishMessage::build().ttl(lasts).expected_last_subject_sequence(0);
        let noted = cas::publish(&self.context, format!("$KV.{BUCKET}.{key}"), message).await?;
        Ok(noted.is_some())
    }
}
