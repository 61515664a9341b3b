//! Following the log: all records after a position, each checked to continue what was read before.

use std::sync::Arc;

use futures::Stream;

use super::{Log, LogFailure, feed::Seat};
use crate::record::{Broken, Lineage, Position, Record};

/// A reader.
struct Reader {
    log: Log,
    at: Position,
    lineage: Option<Lineage>,
    seat: Seat,
    /// Whether NATS has failed since the last record. A single failure of a feed need not concern the next one.
    has_failed: bool,
}

impl Log {
    /// Returns all records after a position, without holes; the stream waits for further ones and never ends by itself.
    /// Readers of a process that are near to each other share a feed. If the records after the position were purged, it
    /// begins with the first one that is left.
    pub async fn follow(
        &self,
        from: Position,
    ) -> Result<impl Stream<Item = Result<Arc<Record>, LogFailure>> + Unpin + use<>, LogFailure> {
        let from = self.resume(from).await?;
        let lineage = match from.stream_sequence {
            0 => None,
            last => self.read(last).await?.as_ref().map(Lineage::of),
        };
        let seat = self.feeds.join(self, from.stream_sequence);
        let reader = Reader { log: self.clone(), at: from, lineage, seat, has_failed: false };
        // The stream ends with its first failure, at once: nothing after that may be read.
        let records =
            futures::stream::try_unfold(reader, |mut reader| async move { Ok(Some((reader.next().await?, reader))) });
        Ok(Box::pin(records))
    }
}

impl Reader {
    async fn next(&mut self) -> Result<Arc<Record>, LogFailure> {
        let record = loop {
            let last = self.at.stream_sequence;
            match self.seat.next(last).await {
                Ok(Some(record)) => break record,
                Ok(None) => {}
                Err(LogFailure::Nats(_)) if !self.has_failed => self.has_failed = true,
                Err(failure) => return Err(self.log.explained(last, failure).await),
            }
            self.seat = self.log.feeds.join(&self.log, last);
        };
        self.has_failed = false;
        self.advance(&record).map_err(|broken| self.log.broken(broken))?;
        Ok(record)
    }

    fn advance(&mut self, record: &Record) -> Result<(), Broken> {
        self.at = self.at.advance(record)?;
        self.lineage = Some(match self.lineage.take() {
            Some(lineage) => lineage.advance(record)?,
            None => Lineage::of(record),
        });
        Ok(())
    }
}
