//! What a process keeps in memory by the log alone, however long it lives.

use std::time::Duration;

use base::explain::explain;
use futures::StreamExt;
use tokio::time::sleep;

use super::{Log, LogFailure};
use crate::record::{Position, Record};

/// How long it waits before it asks a log again that did not answer.
const PAUSE: Duration = Duration::from_millis(500);

/// What records change.
pub trait Kept: Send + 'static {
    /// What it is, in words for operators.
    const WHAT: &'static str;

    /// Takes up a record.
    fn apply(&mut self, record: &Record);
}

/// Brings what stands at a position as far as the log is now. What it gives keeps it there.
///
/// # Errors
/// When the log cannot be read.
pub async fn keep<K: Kept>(log: Log, kept: K, at: Position) -> Result<impl Future<Output = ()> + Send, LogFailure> {
    let mut keeping = Keeping { log, kept, at };
    let end = keeping.log.end().await?;
    if keeping.at.stream_sequence < end {
        keeping.follow(Some(end)).await?;
    }
    Ok(keeping.keep())
}

struct Keeping<K> {
    log: Log,
    kept: K,
    at: Position,
}

impl<K: Kept> Keeping<K> {
    async fn keep(mut self) {
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
            self.kept.apply(&record);
            self.at = record.position();
            if end.is_some_and(|end| self.at.stream_sequence >= end) {
                return Ok(());
            }
        }
        Ok(())
    }
}
