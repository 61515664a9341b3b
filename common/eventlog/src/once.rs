//! What may happen once, such as the use of an assertion: noted in JetStream KV, and forgotten when it could not happen again.

use std::{error::Error as _, time::Duration};

use async_nats::jetstream::{
    self,
    context::{PublishError, PublishErrorKind},
    message::PublishMessage,
};

use crate::{
    log::{LogFailure, nats},
    streams,
};

const BUCKET: &str = "ONCE";
/// What a cluster answers where another message of the subject is on its way (10164).
const RACED: u64 = 10164;

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
        streams::forgetful_bucket(context, BUCKET, replicas).await?;
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
        let sent = self.context.send_publish(format!("$KV.{BUCKET}.{key}"), message).await.map_err(nats)?;
        match sent.await {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == PublishErrorKind::WrongLastSequence || is_raced(&error) => Ok(false),
            Err(error) => Err(nats(error)),
        }
    }
}

fn is_raced(error: &PublishError) -> bool {
    let source = error.source().and_then(|source| source.downcast_ref::<jetstream::Error>());
    source.is_some_and(|error| error.error_code().0 == RACED)
}
