//! Whether the log still has all of its messages, as far as the stream tells without being read.

use async_nats::jetstream::stream;

use super::{Log, LogFailure, nats};
use crate::record::Broken;

impl Log {
    /// Refuses a log that lacks messages. What they hold is not looked at.
    ///
    /// # Errors
    /// [`Broken::Lost`] where messages are missing between the first and the last one that the stream has had.
    pub async fn check_whole(&self) -> Result<(), LogFailure> {
        let state = self.stream.get_info().await.map_err(nats)?.state;
        if let Some(lost) = lost(&state) {
            return Err(self.broken(lost));
        }
        // A stream may believe that it has a message whose block is gone.
        for ends in [1, state.last_sequence] {
            let is_there = ends == 0 || ends > state.last_sequence || self.has_message(ends).await?;
            if !is_there {
                return Err(self.broken(Broken::Lost { end: state.last_sequence, lost: 1, at: ends }));
            }
        }
        Ok(())
    }
}

/// Nothing is ever deleted from a log: it has as many messages as the last one counts.
fn lost(state: &stream::State) -> Option<Broken> {
    let stream::State { messages, first_sequence, last_sequence: end, .. } = *state;
    let lost = end.saturating_sub(messages);
    let at = if first_sequence > 1 || messages == 0 { 1 } else { 2 };
    (lost > 0).then_some(Broken::Lost { end, lost, at })
}
