//! Errors for commands that were not done, or that may have been.

use std::time::Duration;

use edge::error::{Error, Reason};

/// When a caller that was refused may try again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Returns the error for a command that was not done, and that can be sent again.
pub(crate) fn writer_unavailable(message: &str) -> Error {
    Error::new(Reason::WriterUnavailable, message).retry_after(RETRY_AFTER)
}

/// Returns the error for a command that was done or not.
pub(crate) fn outcome_unknown(why: &str) -> Error {
    let message = format!("{why}, and the command may have been executed: send it again with the same Idempotency-Key");
    Error::new(Reason::OutcomeUnknown, message).retry_after(RETRY_AFTER)
}
