//! Presence messages: every node publishes its state once a second, for `platform status`. Nothing depends on them.

use std::time::Duration;

use base::{clock, health::Health};
use futures::StreamExt;
use jiff::Timestamp;
use query::operate::{NodeStatus, Nodes};
use serde::{Deserialize, Serialize};
use server::management::state_of;
use tokio::time::{Instant, interval, timeout_at};

use crate::Failure;

const EVERY: Duration = Duration::from_secs(1);

/// The presence message of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Presence {
    pub(crate) role: String,
    pub(crate) node: String,
    pub(crate) version: String,
    /// The readiness, as on the management port.
    pub(crate) state: String,
    /// The address of the management port.
    pub(crate) management: String,
    pub(crate) since: Timestamp,
}

fn subject(shard: u16) -> String {
    format!("nodes.{shard}")
}

/// Publishes the presence of a node until the process ends.
pub(crate) fn announce(client: async_nats::Client, shard: u16, role: &'static str, node: String, health: Health) {
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
            // A message that is lost is followed by the next one.
            let _ = client.publish(subject(shard), said.into()).await;
        }
    });
}

/// Updates `nodes` from presence messages, as long as the connection lasts.
pub(crate) async fn listen(client: &async_nats::Client, shard: u16, nodes: Nodes) -> Result<(), Failure> {
    let mut messages = client.subscribe(subject(shard)).await?;
    tokio::spawn(async move {
        while let Some(message) = messages.next().await {
            let Ok(presence) = serde_json::from_slice::<Presence>(&message.payload) else { continue };
            let Presence { role, node: name, version, state, since, .. } = presence;
            nodes.receive(NodeStatus { role, name, version, state, since });
        }
    });
    Ok(())
}

/// Collects the presence messages of nodes for a time, by role and name.
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
