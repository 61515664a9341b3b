//! Writes records to a log instead of its writer, as many as NATS takes.

use std::collections::VecDeque;

use async_nats::jetstream::{self, context::PublishAckFuture};
use base::secret;
use eventlog::{
    log::Log,
    record::{Event, Record},
};
use prost::Message;
use tests::forge::next;

/// How many records are published without waiting for the first of them.
const IN_FLIGHT: usize = 256;

/// A writer of a log that decides nothing.
pub(crate) struct Generator {
    context: jetstream::Context,
    last: Record,
    waiting: VecDeque<PublishAckFuture>,
}

impl Generator {
    /// Takes over a log that was set up, with a barrier record.
    pub(crate) async fn begin(log: &Log) -> Self {
        let last = log.last().await.expect("the log can be read").expect("the log was set up");
        let mut generator = Self { context: jetstream::new(log.client()), last, waiting: VecDeque::new() };
        generator.publish(generator.last.commit.epoch + 1, vec![]).await;
        generator
    }

    /// Publishes a record with these events, if there are any.
    pub(crate) async fn put(&mut self, events: Vec<Event>) {
        if !events.is_empty() {
            self.publish(self.last.commit.epoch, events).await;
        }
    }

    async fn publish(&mut self, epoch: u64, events: Vec<Event>) {
        let record = next(&self.last, epoch, events);
        let bytes = record.encode_to_vec();
        let digest = secret::sha256(&bytes);
        let published = self.context.publish("events.0", bytes.into()).await.expect("NATS is there");
        self.waiting.push_back(published);
        if self.waiting.len() > IN_FLIGHT
            && let Some(oldest) = self.waiting.pop_front()
        {
            oldest.await.expect("NATS stores it");
        }
        self.last = Record::new(self.last.stream_sequence + 1, digest, record);
    }

    /// Waits until NATS has stored every record, and returns the stream sequence of the last one.
    pub(crate) async fn stored(&mut self) -> u64 {
        for waiting in self.waiting.drain(..) {
            waiting.await.expect("NATS stores it");
        }
        self.last.stream_sequence
    }
}
