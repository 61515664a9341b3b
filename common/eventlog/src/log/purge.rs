//! The beginning of a log that ages out. What its newest record permits to be purged need not be there; all that comes after that must
//! be, as in any log.

use domain::log_class::LogClass;
use jiff::Timestamp;

use super::{Log, LogFailure, nats};
use crate::record::{Broken, CommitRecord, Position, Record};

impl Log {
    /// The stream sequence of the last message that was purged. 0 where none was, and where more is gone than the newest record
    /// permits: then the log has lost messages.
    pub async fn purged(&self) -> Result<u64, LogFailure> {
        if self.class == LogClass::Events {
            return Ok(0);
        }
        let state = self.stream.get_info().await.map_err(nats)?.state;
        let gone = state.first_sequence.saturating_sub(1);
        if gone == 0 || state.messages == 0 {
            return Ok(0);
        }
        Ok(if gone <= self.permitted((gone, state.last_sequence)).await? { gone } else { 0 })
    }

    /// Up to which stream sequence the log permits a purge; 0 in one that does not age out.
    pub async fn permits(&self) -> Result<u64, LogFailure> {
        let state = self.stream.get_info().await.map_err(nats)?.state;
        if self.class == LogClass::Events || state.messages == 0 {
            return Ok(0);
        }
        self.permitted((state.first_sequence.saturating_sub(1), state.last_sequence)).await
    }

    /// Up to which stream sequence a log that begins after `gone` and ends at `last` permits a purge: what its newest record says. A
    /// build from before there were purges may have taken over since, whose records say nothing; then it is the newest epoch that says
    /// something.
    pub(super) async fn permitted(&self, (gone, last): (u64, u64)) -> Result<u64, LogFailure> {
        let mut newest = self.read(last).await?;
        while let Some(record) = newest {
            let CommitRecord { purged_to, epoch, .. } = record.commit;
            if purged_to > 0 {
                return Ok(purged_to);
            }
            newest = self.last_within((gone, record.stream_sequence), |older| older.commit.epoch < epoch).await?;
        }
        Ok(0)
    }

    /// Where a reader goes on that stands at a position: there, or before the first record that is left where what follows the
    /// position was purged. That record is the first of its chain: the newest one certifies it, by the digests between them.
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

    /// What a failure of reading after a message is in truth: where that was purged just now, nothing was lost.
    pub(super) async fn explained(&self, last: u64, failure: LogFailure) -> LogFailure {
        let is_hole = matches!(failure, LogFailure::Broken { broken: Broken::MessageHole { .. }, .. });
        if is_hole && self.purged().await.is_ok_and(|purged| purged > last) { self.just_purged() } else { failure }
    }

    fn just_purged(&self) -> LogFailure {
        LogFailure::Nats(format!("{} was purged further just now", self.stream()))
    }

    /// The last record that was committed before a time; `None` where none was of those that are left.
    pub async fn last_before(&self, time: Timestamp) -> Result<Option<Record>, LogFailure> {
        self.last_where(|record| record.committed_at() < time).await
    }

    /// Removes the messages up to the one that the newest record names, and tells how many these were. That record stays.
    pub async fn purge(&self) -> Result<u64, LogFailure> {
        let Some(last) = self.last().await? else { return Ok(0) };
        let to = self.permits().await?;
        if to == 0 || to >= last.stream_sequence {
            return Ok(0);
        }
        // What has the sequence itself stays.
        Ok(self.stream.purge().sequence(to + 1).await.map_err(nats)?.purged)
    }
}
