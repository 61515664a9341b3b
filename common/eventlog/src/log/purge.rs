//! The beginning of a log that ages out. What its newest record permits to be purged need not be there; all that comes after that must
//! be, as in any log.

use domain::log_class::LogClass;
use jiff::Timestamp;

use super::{Log, LogFailure, nats};
use crate::record::{Position, Record};

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
        Ok(if gone <= self.permitted(state.last_sequence).await? { gone } else { 0 })
    }

    /// Up to which stream sequence the record at `last`, the newest one, permits a purge.
    pub(super) async fn permitted(&self, last: u64) -> Result<u64, LogFailure> {
        Ok(self.read(last).await?.map_or(0, |record| record.commit.purged_to))
    }

    /// Where a reader goes on that stands at a position: there, or before the first record that is left where what follows the
    /// position was purged. That record is the first of its chain: the newest one certifies it, by the digests between them.
    pub async fn resume(&self, from: Position) -> Result<Position, LogFailure> {
        let purged = self.purged().await?;
        if from.stream_sequence >= purged {
            return Ok(from);
        }
        let first = self.read(purged + 1).await?;
        let just_now = || LogFailure::Nats(format!("{} was purged further just now", self.stream()));
        Ok(first.ok_or_else(just_now)?.before())
    }

    /// The last record that was committed before a time; `None` where none was of those that are left.
    pub async fn last_before(&self, time: Timestamp) -> Result<Option<Record>, LogFailure> {
        self.last_where(|record| record.committed_at() < time).await
    }

    /// Removes the messages up to the one that the newest record names, and tells how many these were. That record stays.
    pub async fn purge(&self) -> Result<u64, LogFailure> {
        let Some(last) = self.last().await? else { return Ok(0) };
        let to = last.commit.purged_to;
        if self.class == LogClass::Events || to == 0 || to >= last.stream_sequence {
            return Ok(0);
        }
        // What has the sequence itself stays.
        Ok(self.stream.purge().sequence(to + 1).await.map_err(nats)?.purged)
    }
}
