//! Every node says once a second that it is there and how it is, for `platform status`. Nobody relies on it.

use std::time::Duration;

use base::{clock, health::Health};
use futures::StreamExt;
use jiff::Timestamp;
use query::operate::{Nodes, Seen};
use serde::{Deserialize, Serialize};
use server::management::state_of;
use tokio::time::{Instant, interval, timeout_at};

use crate::Failure;

const EVERY: Duration = Duration::from_secs(1);

/// What a node says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Presence {
    pub(crate) role: String,
    pub(crate) node: String,
    pub(crate) version: String,
    /// Its readiness, as on its management port.
    pub(crate) state: String,
    /// Its management port.
    pub(crate) management: String,
    pub(crate) since: Timestamp,
}

fn subject(shard: u16) -> String {
    format!("nodes.{shard}")
}

/// Says it as long as the process runs.
pub(crate) fn announce(client: async_nats::Client, shard: u16, (role, node): (&'static str, String), health: Health) {
    let mut presence = Presence {
        role: role.to_owned(),
        node,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        state: String::new(),
        management: String::new(),
        since: clock::now(),
    };
    tokio::spawn(async move {
        let mut beat = interval(EVERY);
        loop {
            beat.tick().await;
            state_of(&health).clone_into(&mut presence.state);
            presence.management = health.address().map(|address| address.to_string()).unwrap_or_default();
            let said = serde_json::to_vec(&presence).unwrap_or_default();
            // Who asks hears the next one.
            let _ = client.publish(subject(shard), said.into()).await;
        }
    });
}

/// Keeps up, as long as the connection lasts, with the nodes that say that they are there.
pub(crate) async fn listen(client: &async_nats::Client, shard: u16, nodes: Nodes) -> Result<(), Failure> {
    let mut messages = client.subscribe(subject(shard)).await?;
    tokio::spawn(async move {
        while let Some(message) = messages.next().await {
            let Ok(presence) = serde_json::from_slice::<Presence>(&message.payload) else { continue };
            let Presence { role, node: name, version, state, since, .. } = presence;
            nodes.hear(Seen { role, name, version, state, since });
        }
    });
    Ok(())
}

/// The nodes that say within a time that they are there, by role and name.
pub(crate) async fn gather(
    client: &async_nats::Client,
    shard: u16,
    patience: Duration,
) -> Result<Vec<Presence>, Failure> {
    let (mut messages, until) = (client.subscribe(subject(shard)).await?, Instant::now() + patience);
    let mut found: Vec<Presence> = vec![];
    while let Ok(Some(message)) = timeout_at(until, messages.next()).await {
        let Ok(presence) = serde_json::from_slice::<Presence>(&message.payload) else { continue };
        found.retain(|known| (&known.role, &known.node) != (&presence.role, &presence.node));
        found.push(presence);
    }
    found.sort_by(|one, other| (&one.role, &one.node).cmp(&(&other.role, &other.node)));
    Ok(found)
}
