//! The beginning of a log that ages out. Messages that its newest record permits to purge may be missing; all later
//! ones must exist, as in any log.

use domain::log_class::LogClass;
use jiff::Timestamp;

use super::{Log, LogFailure, nats};
use crate::record::{Broken, CommitRecord, Position, Record};

impl Log {
    /// Returns the stream sequence of the last message that was purged; 0 if none was, or if more is missing than the
    /// newest record permits: then the log has lost messages.
    pub async fn purged(&self) -> Result<u64, LogFailure> {
        if self.class == LogClass::Events {
            return Ok(0);
        }
        let state = self.stream.get_info().await.map_err(nats)?.state;
        let gone = state.first_sequence.saturating_sub(1);
        if gone == 0 || state.messages == 0 {
            return Ok(0);
        }
        Ok(if gone <= self.permitted(gone, state.last_sequence).await? { gone } else { 0 })
    }

    /// Returns the stream sequence up to which the log permits a purge; 0 in a log that does not age out.
    pub async fn permits(&self) -> Result<u64, LogFailure> {
        let state = self.stream.get_info().await.map_err(nats)?.state;
        if self.class == LogClass::Events || state.messages == 0 {
            return Ok(0);
        }
        self.permitted(state.first_sequence.saturating_sub(1), state.last_sequence).await
    }

    /// Returns the stream sequence up to which a log that begins after `gone` and ends at `last` permits a purge, as
    /// named by its newest record. If a build from before there were purges has taken over since, its records name
    /// none; then the newest epoch that names one decides.
    pub(super) async fn permitted(&self, gone: u64, last: u64) -> Result<u64, LogFailure> {
        let mut newest = self.read(last).await?;
        while let Some(record) = newest {
            let CommitRecord { purged_to, epoch, .. } = record.commit;
            if purged_to > 0 {
                return Ok(purged_to);
            }
            newest = self.last_within(gone, record.stream_sequence, |older| older.commit.epoch < epoch).await?;
        }
        Ok(0)
    }

    /// Returns the position from which a reader resumes: its own, or before the first record that is left if what
    /// follows its own was purged. The chain begins with that record: the newest one certifies it, by the digests
    /// between them.
    pub async fn resume(&self, from: Position) -> Result<Position, LogFailure> {
        let purged = self.purged().await?;
        if from.stream_sequence >= purged {
            return Ok(from);
        }
        let first = self.read(purged + 1).await?.ok_or_else(|| self.just_purged())?.before();
        if from.stream_sequence > 0 {
            let (stream, from, to) = (self.stream(), from.stream_sequence, purged + 1);
            tracing::warn!(
                stream,
                from,
                to,
                "what follows was purged, because it has aged out; reading goes on after it"
            );
        }
        Ok(first)
    }

    /// Corrects a failure of reading after a message: if that was purged just now, nothing was lost.
    pub(super) async fn explained(&self, last: u64, failure: LogFailure) -> LogFailure {
        let is_hole = matches!(failure, LogFailure::Broken { broken: Broken::MessageHole { .. }, .. });
        if is_hole && self.purged().await.is_ok_and(|purged| purged > last) { self.just_purged() } else { failure }
    }

    fn just_purged(&self) -> LogFailure {
        LogFailure::Nats(format!("{} was purged further just now", self.stream()))
    }

    /// Returns the last record that was committed before a time; `None` if none that is left was.
    pub async fn last_before(&self, time: Timestamp) -> Result<Option<Record>, LogFailure> {
        self.last_where(|record| record.committed_at() < time).await
    }

    /// Removes the messages up to and including the one that the newest record names, and returns their number.
    pub async fn purge(&self) -> Result<u64, LogFailure> {
        let Some(last) = self.last().await? else { return Ok(0) };
        let to = self.permits().await?;
        if to == 0 || to >= last.stream_sequence {
            return Ok(0);
        }
        // NATS retains the message with the given sequence itself.
        Ok(self.stream.purge().sequence(to + 1).await.map_err(nats)?.purged)
    }
}
