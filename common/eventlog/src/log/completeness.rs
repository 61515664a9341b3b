//! Checks whether the log still has all of its messages, as far as the stream reveals that without being read.

use async_nats::jetstream::stream;
use domain::log_class::LogClass;

use super::{Log, LogFailure, nats};
use crate::record::Broken;

impl Log {
    /// Refuses a log that lacks messages, except for those at its beginning that its newest record permits to purge.
    /// The content of messages is not examined.
    ///
    /// # Errors
    /// [`Broken::Lost`] if messages are missing between the first and the last one that the stream must have.
    pub async fn check_complete(&self) -> Result<(), LogFailure> {
        let state = self.stream.get_info().await.map_err(nats)?.state;
        let end = state.last_sequence;
        let may_be_purged = self.class == LogClass::Sessions && state.first_sequence > 1 && state.messages > 0;
        if may_be_purged && !self.has_message(end).await? {
            return Err(self.broken(Broken::Lost { end, lost: 1, at: end }));
        }
        let gone = state.first_sequence.saturating_sub(1);
        let permitted = if may_be_purged { self.permitted(gone, end).await? } else { 0 };
        if let Some(lost) = lost(&state, permitted) {
            return Err(self.broken(lost));
        }
        // A stream may believe that it has a message although its block is gone.
        for ends in [state.first_sequence.max(1), end] {
            let is_there = ends == 0 || ends > end || self.has_message(ends).await?;
            // It may have been purged just now.
            if !is_there && self.purged().await? < ends {
                return Err(self.broken(Broken::Lost { end, lost: 1, at: ends }));
            }
        }
        Ok(())
    }
}

/// Counts missing messages: a log has as many as the last sequence, except for those at its beginning that were purged
/// by permission.
fn lost(state: &stream::State, permitted: u64) -> Option<Broken> {
    let stream::State { messages, first_sequence, last_sequence: end, .. } = *state;
    let gone = if messages == 0 { end } else { first_sequence.saturating_sub(1) };
    let purged = gone.min(permitted);
    let lost = end.saturating_sub(messages).saturating_sub(purged);
    // If the beginning is valid, at least the first message that is left exists.
    let at = if gone > purged { purged + 1 } else { purged + 2 };
    (lost > 0).then_some(Broken::Lost { end, lost, at })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost_of(messages: u64, first_sequence: u64, last_sequence: u64, permitted: u64) -> Option<(u64, u64)> {
        let state = serde_json::json!({
            "messages": messages, "bytes": 0, "first_seq": first_sequence, "last_seq": last_sequence,
            "first_ts": "2026-01-01T00:00:00Z", "last_ts": "2026-01-01T00:00:00Z", "consumer_count": 0,
        });
        let state = serde_json::from_value(state).unwrap();
        lost(&state, permitted).map(|broken| match broken {
            Broken::Lost { lost, at, .. } => (lost, at),
            other => panic!("{other}"),
        })
    }

    #[test]
    fn only_what_may_be_purged_is_missed_by_nobody() {
        assert_eq!(lost_of(0, 0, 0, 0), None, "an empty log");
        assert_eq!(lost_of(9, 1, 9, 0), None);
        assert_eq!(lost_of(8, 1, 9, 0), Some((1, 2)), "a hole");
        assert_eq!(lost_of(8, 2, 9, 0), Some((1, 1)), "the first one");
        assert_eq!(lost_of(0, 10, 9, 0), Some((9, 1)), "all of it");
        assert_eq!(lost_of(5, 5, 9, 4), None, "as much as may be");
        assert_eq!(lost_of(7, 3, 9, 4), None, "less than may be");
        assert_eq!(lost_of(4, 6, 9, 4), Some((1, 5)), "more than may be");
        assert_eq!(lost_of(6, 3, 9, 4), Some((1, 4)), "a hole after what may be");
    }
}
