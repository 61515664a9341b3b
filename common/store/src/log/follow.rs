//! Following the log. Readers of a process that are at its end share what comes: it is sent by NATS and decoded once.
//! Whoever is behind reads by itself until it is there.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_nats::jetstream::{
    consumer::{
        DeliverPolicy,
        pull::{Ordered, OrderedConfig},
    },
    stream,
};
use futures::{Stream, StreamExt};
use tokio::{sync::broadcast, time::timeout};

use super::{Failure, IDLE, Log, MOST_IN_FLIGHT, nats};
use crate::record::{Lineage, Position, Record};

/// How many records a reader may be behind of what it shares before it reads by itself again.
const MOST_BEHIND: usize = 256;

/// What comes to the end of the log, for all readers of a process.
#[derive(Debug, Default)]
pub(super) struct Feed {
    live: Mutex<Option<Live>>,
}

#[derive(Debug)]
struct Live {
    /// The task that feeds has the strong one, and ends when nobody listens.
    records: broadcast::WeakSender<Arc<Record>>,
    /// The stream sequence of the last record that was sent, or that of the log's end before the first.
    sent: u64,
}

/// One reader's part in it.
struct Listener {
    records: broadcast::Receiver<Arc<Record>>,
    /// It hears every record behind this one.
    behind: u64,
}

impl Feed {
    /// Hears what comes from now on. The first one starts the feed.
    async fn listen(self: &Arc<Self>, log: &Log) -> Result<Listener, Failure> {
        if let Some(listener) = self.live().as_ref().and_then(Live::join) {
            return Ok(listener);
        }
        let end = log.end().await?;
        let messages = messages(&log.reading, end + 1).await?;
        let mut live = self.live();
        // Another one may have started it meanwhile.
        if let Some(listener) = live.as_ref().and_then(Live::join) {
            return Ok(listener);
        }
        let (sender, records) = broadcast::channel(MOST_BEHIND);
        *live = Some(Live { records: sender.downgrade(), sent: end });
        tokio::spawn(self.clone().feed(messages, log.stream.clone(), end, sender));
        Ok(Listener { records, behind: end })
    }

    /// Sends what comes, until nobody listens or something is wrong. What is wrong each reader finds by itself.
    async fn feed(
        self: Arc<Self>,
        mut messages: Ordered,
        stream: stream::Stream,
        mut sent: u64,
        sender: broadcast::Sender<Arc<Record>>,
    ) {
        while let Ok(Some(record)) = next(&mut messages, &stream, sent).await {
            sent = record.stream_sequence;
            let mut live = self.live();
            let is_heard = sender.send(Arc::new(record)).is_ok();
            match live.as_mut() {
                Some(live) if is_heard => live.sent = sent,
                _ => return,
            }
        }
    }

    fn live(&self) -> MutexGuard<'_, Option<Live>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Live {
    fn join(&self) -> Option<Listener> {
        Some(Listener { records: self.records.upgrade()?.subscribe(), behind: self.sent })
    }
}

/// A reader.
struct Reader {
    log: Log,
    at: Position,
    lineage: Option<Lineage>,
    listener: Listener,
    /// While it is behind.
    own: Option<Ordered>,
}

impl Log {
    /// All records behind a position, without holes; it waits for further ones and never ends by itself.
    pub async fn follow(
        &self,
        from: Position,
    ) -> Result<impl Stream<Item = Result<Arc<Record>, Failure>> + Unpin + use<>, Failure> {
        let lineage = match from.stream_sequence {
            0 => None,
            last => self.read(last).await?.as_ref().map(Lineage::of),
        };
        let listener = self.feed.listen(self).await?;
        let reader = Reader { log: self.clone(), at: from, lineage, listener, own: None };
        // It ends with its first failure, at once: nothing behind that may be read.
        let records = futures::stream::try_unfold(reader, |mut reader| async move {
            Ok(reader.next().await?.map(|record| (record, reader)))
        });
        Ok(Box::pin(records))
    }
}

impl Reader {
    async fn next(&mut self) -> Result<Option<Arc<Record>>, Failure> {
        let record = loop {
            let last = self.at.stream_sequence;
            if last < self.listener.behind {
                break match self.next_own().await? {
                    Some(record) => Arc::new(record),
                    None => return Ok(None),
                };
            }
            self.own = None;
            match self.listener.records.recv().await {
                Ok(record) if record.stream_sequence <= last => {}
                Ok(record) if record.stream_sequence == last + 1 => break record,
                // It was too slow, or the feed has ended or missed something.
                Ok(_) | Err(_) => self.listener = self.log.feed.listen(&self.log).await?,
            }
        };
        self.at = self.at.advance(&record)?;
        self.lineage = Some(match self.lineage.take() {
            Some(lineage) => lineage.advance(&record)?,
            None => Lineage::of(&record),
        });
        Ok(Some(record))
    }

    async fn next_own(&mut self) -> Result<Option<Record>, Failure> {
        let last = self.at.stream_sequence;
        loop {
            let own = match &mut self.own {
                Some(own) => own,
                None => self.own.insert(messages(&self.log.reading, last + 1).await?),
            };
            match next(own, &self.log.stream, last).await {
                // They are asked for again.
                Err(Failure::Nats(what)) if what == LOST => self.own = None,
                outcome => return outcome,
            }
        }
    }
}

async fn messages(stream: &stream::Stream, start_sequence: u64) -> Result<Ordered, Failure> {
    let config = OrderedConfig {
        deliver_policy: DeliverPolicy::ByStartSequence { start_sequence },
        max_batch: MOST_IN_FLIGHT,
        ..OrderedConfig::default()
    };
    let consumer = stream.create_consumer(config).await.map_err(nats)?;
    consumer.messages().await.map_err(nats)
}

/// The next record of a reader that has the one of stream sequence `last`.
async fn next(messages: &mut Ordered, stream: &stream::Stream, last: u64) -> Result<Option<Record>, Failure> {
    let message = loop {
        match timeout(IDLE, messages.next()).await {
            Ok(Some(message)) => break message.map_err(nats)?,
            Ok(None) => return Ok(None),
            Err(_) => nothing_lost(stream, last).await?,
        }
    };
    let sequence = message.info().map_err(|error| Failure::Nats(error.to_string()))?.stream_sequence;
    Ok(Some(Record::decode(sequence, &message.payload)?))
}

/// What is said of records that were sent and did not arrive.
const LOST: &str = "records were lost on their way";

/// A reader that hears nothing while the stream goes on has lost records on their way, and must ask for them again.
async fn nothing_lost(stream: &stream::Stream, last: u64) -> Result<(), Failure> {
    match stream.get_info().await.map_err(nats)?.state.last_sequence {
        end if end > last => Err(Failure::Nats(LOST.to_owned())),
        _ => Ok(()),
    }
}
