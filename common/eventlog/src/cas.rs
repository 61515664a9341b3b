//! Compare-and-set of one subject of a stream.

use std::error::Error as _;

use async_nats::jetstream::{
    self,
    context::{PublishError, PublishErrorKind},
    message::PublishMessage,
};

use crate::log::{LogFailure, nats};

/// The error code of a cluster when another message of the subject is in flight (10164).
const RACED: u64 = 10164;

/// Publishes a message that names the last sequence of its subject, and returns its own sequence; `None` if the last
/// one has changed, or is about to.
pub(crate) async fn publish(
    context: &jetstream::Context,
    subject: String,
    message: PublishMessage,
) -> Result<Option<u64>, LogFailure> {
    let sent = context.send_publish(subject, message).await.map_err(nats)?;
    match sent.await {
        Ok(acknowledged) => Ok(Some(acknowledged.sequence)),
        Err(error) if error.kind() == PublishErrorKind::WrongLastSequence || is_raced(&error) => Ok(None),
        Err(error) => Err(nats(error)),
    }
}

fn is_raced(error: &PublishError) -> bool {
    let source = error.source().and_then(|source| source.downcast_ref::<jetstream::Error>());
    source.is_some_and(|error| error.error_code().0 == RACED)
}
