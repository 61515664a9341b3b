//! What may happen once, such as the use of an assertion: noted in JetStream KV, and forgotten when it could not happen again.

use std::time::Duration;

use async_nats::jetstream::{self, context::PublishErrorKind, message::PublishMessage};

use crate::{
    log::{LogFailure, nats},
    streams,
};

const BUCKET: &str = "ONCE";
/// For how long it is known what has happened.
pub const REMEMBERED: Duration = Duration::from_hours(2);

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
        streams::forgetful_bucket(context, BUCKET, (replicas, REMEMBERED)).await?;
        Ok(Self { context: context.clone() })
    }

    /// Whether this is the first time, on any node. The key has letters, digits, `-`, `_` and `.` only.
    ///
    /// # Errors
    /// When NATS does not answer: then it may have been noted or not.
    pub async fn is_first(&self, key: &str) -> Result<bool, LogFailure> {
        let message = PublishMessage::build().expected_last_subject_sequence(0);
        let sent = self.context.send_publish(format!("$KV.{BUCKET}.{key}"), message).await.map_err(nats)?;
        match sent.await {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == PublishErrorKind::WrongLastSequence => Ok(false),
            Err(error) => Err(nats(error)),
        }
    }
}
