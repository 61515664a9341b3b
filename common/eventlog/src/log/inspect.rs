//! Looking at a log that may be absent or broken. Nothing here creates or changes anything.

use base::{clock, health::Reached};
use bytes::Bytes;
use domain::log_class::LogClass;
use futures::{Stream, StreamExt};

use super::{Log, LogFailure, check_rules, context, feed::messages, is_absent, name, nats, rules};
use crate::record::{Broken, Record};

/// How much of a log comes after a place in it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Lag {
    /// How many events.
    pub events: u64,
    /// How old the first record of them is, in seconds.
    pub seconds: f64,
}

impl Log {
    /// How much of the log comes after a place, up to an end.
    pub async fn lag(&self, at: Reached, end: Reached) -> Result<Lag, LogFailure> {
        if at.stream_sequence >= end.stream_sequence {
            return Ok(Lag::default());
        }
        // What it lacks first may have been purged.
        let next = self.read(at.stream_sequence.max(self.purged().await?) + 1).await?;
        let age = |next: Record| clock::now().duration_since(next.committed_at()).as_secs_f64().max(0.0);
        Ok(Lag { events: end.sequence.saturating_sub(at.sequence), seconds: next.map_or(0.0, age) })
    }

    /// Opens a log of a shard where there is one, whatever its rules are.
    pub async fn find(client: async_nats::Client, (class, shard): (LogClass, u16)) -> Result<Self, LogFailure> {
        let has_jetstream = client.server_info().jetstream;
        let context = context(client);
        let name = name(class, shard);
        match context.get_stream(&name).await {
            Ok(stream) => Ok(Self::of(context, stream, (class, shard))),
            Err(error) if is_absent(&error) => Err(LogFailure::Absent { stream: name }),
            Err(_) if !has_jetstream => Err(LogFailure::NoJetStream),
            Err(error) => Err(nats(error)),
        }
    }

    /// Whether the stream's rules are such that it can lose no event, and as many servers keep it as asked for.
    pub async fn check_rules(&self, shard: u16, replicas: usize) -> Result<(), LogFailure> {
        check_rules(&self.stream.get_info().await.map_err(nats)?.config, &rules(self.class, shard, replicas))
    }

    /// The servers that keep the log and are away or lag.
    pub async fn lagging(&self) -> Result<Vec<String>, LogFailure> {
        let cluster = self.stream.get_info().await.map_err(nats)?.cluster;
        let peers = cluster.map(|cluster| cluster.replicas).unwrap_or_default().into_iter();
        Ok(peers.filter(|peer| peer.offline || !peer.current).map(|peer| peer.name).collect())
    }

    /// The record before the one that has the event of this sequence; `None` where that is the first record
    /// that is left. Of an event that is not there yet it is the last record.
    ///
    /// It asks for some twenty records of a million, so it takes the sequences that they tell on trust.
    pub async fn record_before(&self, sequence: u64) -> Result<Option<Record>, LogFailure> {
        if sequence <= 1 {
            return Ok(None);
        }
        self.last_where(|record| record.position().sequence < sequence).await
    }

    /// The last record for which something holds that is true up to some record, and false after it.
    pub(super) async fn last_where(&self, holds: impl Fn(&Record) -> bool) -> Result<Option<Record>, LogFailure> {
        self.last_within((self.purged().await?, self.end().await? + 1), holds).await
    }

    /// The same of the records between two stream sequences.
    pub(super) async fn last_within(
        &self,
        (mut before, mut beyond): (u64, u64),
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

    /// All messages from a stream sequence on as they lie in the stream, unchecked; it waits for further ones.
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
