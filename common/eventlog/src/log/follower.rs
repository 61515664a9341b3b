//! Keeps a state in memory up to date from the log alone, for as long as the process lives.

use std::time::Duration;

use base::{explain::explain, fault, panic::caught};
use futures::StreamExt;
use tokio::time::sleep;

use super::{Log, LogFailure};
use crate::record::{Position, Record};

/// The pause before a log that did not answer is asked again.
const PAUSE: Duration = Duration::from_millis(500);

/// A state that is updated by the records of the log.
pub trait Follower: Send + 'static {
    /// A description of the state, for operators.
    const WHAT: &'static str;

    /// Applies a record.
    fn apply(&mut self, record: &Record);

    /// Skips a record whose application panicked: it may have been applied in part. Whatever the record is about is
    /// treated in the way that does least harm.
    fn skip(&mut self, record: &Record);
}

/// Brings a state from a position to the current end of the log. The future that it returns keeps it up to date.
///
/// # Errors
/// If the log cannot be read.
pub async fn keep_updated<K: Follower>(
    log: Log,
    follower: K,
    at: Position,
) -> Result<impl Future<Output = ()> + Send, LogFailure> {
    let mut updating = Updating { log, follower, at };
    let end = updating.log.end().await?;
    if updating.at.stream_sequence < end {
        updating.follow(Some(end)).await?;
    }
    Ok(updating.run())
}

struct Updating<K> {
    log: Log,
    follower: K,
    at: Position,
}

impl<K: Follower> Updating<K> {
    async fn run(mut self) {
        loop {
            if let Err(failure) = self.follow(None).await {
                let error = explain(&failure);
                tracing::warn!(error, "{} may be out of date; the log is asked again", K::WHAT);
            }
            sleep(PAUSE).await;
        }
    }

    /// Follows the log, up to a record if one is given.
    async fn follow(&mut self, end: Option<u64>) -> Result<(), LogFailure> {
        let mut records = self.log.follow(self.at).await?;
        while let Some(record) = records.next().await {
            let record = record?;
            let applied = caught(|| {
                fault::point("follower.applying");
                self.follower.apply(&record);
            });
            if let Err(panicked) = applied {
                let (stream_sequence, error) = (record.stream_sequence, explain(&panicked));
                tracing::error!(stream_sequence, error, "{} goes on without a record that cannot be applied", K::WHAT);
                self.follower.skip(&record);
            }
            self.at = record.position();
            if end.is_some_and(|end| self.at.stream_sequence >= end) {
                return Ok(());
            }
        }
        Ok(())
    }
}
