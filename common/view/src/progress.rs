//! How far projections are, told over NATS as it happens, so that nobody polls.
//!
//! A message may be lost; projectors say it again every second. Readers check the sequence that they read with the
//! data, so this only wakes them up.

use std::{collections::HashMap, sync::Arc};

use base::{explain::explain, health::Reached};
use futures::StreamExt;
use tokio::sync::watch;

use crate::projection::{PROJECTIONS, Projection};

/// What a node has heard of the projections of its shard.
#[derive(Debug, Clone)]
pub struct Progress {
    heard: Arc<HashMap<&'static str, watch::Sender<Reached>>>,
}

/// Tells the others how far a projection is.
#[derive(Debug, Clone)]
pub struct Announcer {
    client: async_nats::Client,
    subject: String,
}

impl Progress {
    /// Listens from now on. The task ends with the connection.
    pub async fn listen(client: &async_nats::Client, shard: u16) -> Result<Self, async_nats::SubscribeError> {
        let mut messages = client.subscribe(format!("progress.{shard}.>")).await?;
        let heard =
            PROJECTIONS.iter().map(|projection| (projection.name, watch::Sender::new(Reached::default()))).collect();
        let progress = Self { heard: Arc::new(heard) };
        let told = progress.clone();
        tokio::spawn(async move {
            while let Some(message) = messages.next().await {
                told.hear(&message);
            }
        });
        Ok(progress)
    }

    fn hear(&self, message: &async_nats::Message) {
        let mut parts = message.subject.split('.').skip(2);
        let (Some(name), Some(version)) = (parts.next(), parts.next()) else { return };
        let known = PROJECTIONS.iter().find(|known| known.name == name && known.version.to_string() == version);
        if let (Some(known), Some(reached)) = (known, decode(&message.payload))
            && let Some(sender) = self.heard.get(known.name)
        {
            sender.send_replace(reached);
        }
    }

    /// How far the projection said last it is; it can go back when Postgres lost commits.
    pub fn of(&self, projection: &Projection) -> watch::Receiver<Reached> {
        self.heard[projection.name].subscribe()
    }
}

impl Announcer {
    /// Announces for one projection of one shard.
    pub fn new(client: async_nats::Client, projection: &Projection, shard: u16) -> Self {
        Self { client, subject: format!("progress.{shard}.{}.{}", projection.name, projection.version) }
    }

    /// Tells everybody who listens; nobody has to.
    pub async fn announce(&self, reached: Reached) {
        let payload = encode(reached).into();
        if let Err(error) = self.client.publish(self.subject.clone(), payload).await {
            tracing::debug!(error = explain(&error), "progress was not announced");
        }
    }
}

fn encode(Reached { sequence, stream_sequence }: Reached) -> Vec<u8> {
    [sequence.to_be_bytes(), stream_sequence.to_be_bytes()].concat()
}

fn decode(payload: &[u8]) -> Option<Reached> {
    let (sequence, stream_sequence) = payload.split_first_chunk()?;
    let stream_sequence = u64::from_be_bytes(stream_sequence.try_into().ok()?);
    Some(Reached { sequence: u64::from_be_bytes(*sequence), stream_sequence })
}
