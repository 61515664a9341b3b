//! Inspection of a log that may be absent or broken. Nothing here creates or changes anything.

use base::{clock, health::Reached};
use bytes::Bytes;
use domain::log_class::LogClass;
use futures::{Stream, StreamExt};

use super::{Log, LogFailure, check_rules, context, feed::messages, is_absent, name, nats, rules};
use crate::record::{Broken, Record};

/// How far a position lags in a log.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Lag {
    /// The number of events after it.
    pub events: u64,
    /// The age of the first record after it, in seconds.
    pub seconds: f64,
}

impl Log {
    /// Returns how far a position lags, up to an end.
    pub async fn lag(&self, at: Reached, end: Reached) -> Result<Lag, LogFailure> {
        if at.stream_sequence >= end.stream_sequence {
            return Ok(Lag::default());
        }
        // The first record after it may have been purged.
        let next = self.read(at.stream_sequence.max(self.purged().await?) + 1).await?;
        let age = |next: Record| clock::now().duration_since(next.committed_at()).as_secs_f64().max(0.0);
        Ok(Lag { events: end.sequence.saturating_sub(at.sequence), seconds: next.map_or(0.0, age) })
    }

    /// Opens a log of a shard if there is one, whatever its rules are.
    pub async fn find(client: async_nats::Client, class: LogClass, shard: u16) -> Result<Self, LogFailure> {
        let has_jetstream = client.server_info().jetstream;
        let context = context(client);
        let name = name(class, shard);
        match context.get_stream(&name).await {
            Ok(stream) => Ok(Self::of(context, stream, class, shard)),
            Err(error) if is_absent(&error) => Err(LogFailure::Absent { stream: name }),
            Err(_) if !has_jetstream => Err(LogFailure::NoJetStream),
            Err(error) => Err(nats(error)),
        }
    }

    /// Checks that the stream's rules let it lose no event, and that as many servers store it as requested.
    pub async fn check_rules(&self, shard: u16, replicas: usize) -> Result<(), LogFailure> {
        check_rules(&self.stream.get_info().await.map_err(nats)?.config, &rules(self.class, shard, replicas))
    }

    /// Returns the servers that store the log and are away or lag.
    pub async fn lagging(&self) -> Result<Vec<String>, LogFailure> {
        let cluster = self.stream.get_info().await.map_err(nats)?.cluster;
        let peers = cluster.map(|cluster| cluster.replicas).unwrap_or_default().into_iter();
        Ok(peers.filter(|peer| peer.offline || !peer.current).map(|peer| peer.name).collect())
    }

    /// Returns the record before the one with the event of this sequence; `None` if that is the first record that is
    /// left. If there is no such event yet, it returns the last record.
    ///
    /// Of a million records it reads some twenty, so it trusts the sequences that these have.
    pub async fn record_before(&self, sequence: u64) -> Result<Option<Record>, LogFailure> {
        if sequence <= 1 {
            return Ok(None);
        }
        self.last_where(|record| record.position().sequence < sequence).await
    }

    /// Returns the last record for which a condition holds that is true up to some record, and false after it.
    pub(super) async fn last_where(&self, holds: impl Fn(&Record) -> bool) -> Result<Option<Record>, LogFailure> {
        self.last_within(self.purged().await?, self.end().await? + 1, holds).await
    }

    /// Like [`Log::last_where`], for the records between two stream sequences.
    pub(super) async fn last_within(
        &self,
        mut before: u64,
        mut beyond: u64,
        holds: impl Fn(&Record) -> bool,
    ) -> Result<Option<Record>, LogFailure> {
        let mut found = None;
        while before + 1 < beyond {
            let middle = before + (beyond - before) / 2;
            let missing = Broken::MessageHole { last: middle - 1, found: middle + 1 };
            let record = self.read(middle).await?.ok_or_else(|| self.broken(missing))?;
            if holds(&record) {
                (before, found) = (middle, Some(record));
            } else {
                beyond = middle;
            }
        }
        Ok(found)
    }

    /// Returns all messages from a stream sequence on as they are in the stream, unchecked; the stream waits for
    /// further ones.
    pub async fn messages(
        &self,
        start_sequence: u64,
    ) -> Result<impl Stream<Item = Result<(u64, Bytes), LogFailure>> + Unpin + use<>, LogFailure> {
        let messages = messages(&self.reading, start_sequence).await?;
        Ok(messages.map(|message| {
            let message = message.map_err(nats)?;
            let sequence = message.info().map_err(|error| LogFailure::Nats(error.to_string()))?.stream_sequence;
            Ok((sequence, message.message.payload))
        }))
    }
}
