//! Makes node names and node numbers exclusive: of two running nodes with the same name and role, or with the same
//! number for generated ids, the older one goes on.
//!
//! A node publishes a claim of its name and of its number: when it starts, periodically, and when it receives that of a
//! younger node. A node that receives the claim of an older one ends. NATS users of nodes may publish claims of their
//! own role only.

use std::time::Duration;

use base::{
    clock,
    secret::{random_text, sha256},
};
use futures::StreamExt;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::{
    sync::watch,
    time::{Instant, interval, timeout_at},
};
use tokio_util::sync::CancellationToken;

use crate::Failure;

/// The role of the nodes that generate ids; a standalone node has it among others.
const WRITING: &str = "command";
const EVERY: Duration = Duration::from_secs(10);
/// How long a starting node waits for claims of older nodes. Later claims are handled when they arrive.
const PATIENCE: Duration = Duration::from_millis(250);

/// The claim of a running process. The lesser of two claims is the older one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Claim {
    since: Timestamp,
    process: String,
    role: String,
}

/// An older node has the name or number of this one.
#[derive(Debug, Clone, thiserror::Error)]
#[error("another node runs with {what} since {} (its role is {}): {remedy}, and start this one again", .by.since, .by.role)]
struct AlreadyClaimed {
    what: String,
    by: Claim,
    remedy: &'static str,
}

/// The exclusive name and number of this node.
pub(crate) struct Sole {
    taken: watch::Receiver<Option<AlreadyClaimed>>,
    settled: Instant,
}

/// A name or number that only one node may have.
struct Exclusive {
    subject: String,
    what: String,
    remedy: &'static str,
}

impl Exclusive {
    fn name(shard: u16, role: &str, name: &str) -> Self {
        // Names may have characters that subjects may not.
        let digest = hex::encode(&sha256(name.as_bytes())[..16]);
        Self {
            subject: format!("nodes.{shard}.{role}.name.{digest}"),
            what: format!("the name {name}"),
            remedy: "give each node a --node-name of its own, or none",
        }
    }

    fn number(shard: u16, number: u16) -> Self {
        Self {
            subject: format!("nodes.{shard}.{WRITING}.number.{number}"),
            what: format!("the number {number}"),
            remedy: "give each command node a --node-number of its own",
        }
    }
}

impl Sole {
    /// Claims the name of this node, and its number where it generates ids.
    pub(crate) async fn claim(
        client: &async_nats::Client,
        shard: u16,
        role: &'static str,
        name: &str,
        number: Option<u16>,
    ) -> Result<Self, Failure> {
        let claim = Claim { since: clock::now(), process: random_text(22), role: role.to_owned() };
        let (tell, taken) = watch::channel(None);
        let among = number.map_or(role, |_| WRITING);
        let owns = [Some(Exclusive::name(shard, among, name)), number.map(|number| Exclusive::number(shard, number))];
        for own in owns.into_iter().flatten() {
            let heard = client.subscribe(own.subject.clone()).await?;
            let (client, claim, tell) = (client.clone(), claim.clone(), tell.clone());
            tokio::spawn(async move {
                if let Some(taken) = publish_claim(&client, &own, &claim, heard).await {
                    tell.send_replace(Some(taken));
                }
            });
        }
        Ok(Self { taken, settled: Instant::now() + PATIENCE })
    }

    /// Waits until an older node would have answered. If one is received later, `stopping` is cancelled.
    ///
    /// # Errors
    /// When an older node has answered.
    pub(crate) async fn settle(&self, stopping: CancellationToken) -> Result<(), Failure> {
        let mut taken = self.taken.clone();
        let _ = timeout_at(self.settled, taken.wait_for(Option::is_some)).await;
        self.verdict()?;
        tokio::spawn(async move {
            if taken.wait_for(Option::is_some).await.is_ok() {
                stopping.cancel();
            }
        });
        Ok(())
    }

    /// Checks that no older node was received.
    ///
    /// # Errors
    /// When an older node was received.
    pub(crate) fn verdict(&self) -> Result<(), Failure> {
        match &*self.taken.borrow() {
            Some(taken) => Err(taken.clone().into()),
            None => Ok(()),
        }
    }
}

/// Publishes a claim until an older one is received, or the connection has ended.
async fn publish_claim(
    client: &async_nats::Client,
    own: &Exclusive,
    claim: &Claim,
    mut heard: async_nats::Subscriber,
) -> Option<AlreadyClaimed> {
    let said = serde_json::to_vec(claim).unwrap_or_default();
    let mut beat = interval(EVERY);
    loop {
        tokio::select! {
            _ = beat.tick() => {}
            message = heard.next() => match serde_json::from_slice::<Claim>(&message?.payload) {
                Ok(other) if other < *claim => {
                    tracing::error!(since = %other.since, role = other.role, "another node runs with {}", own.what);
                    return Some(AlreadyClaimed { what: own.what.clone(), by: other, remedy: own.remedy });
                }
                Ok(other) if other > *claim => {}
                _ => continue,
            },
        }
        // A claim that is lost is followed by the next one.
        let _ = client.publish(own.subject.clone(), said.clone().into()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_nodes_one_is_older() {
        let claim = |second, process: &str| Claim {
            since: Timestamp::from_second(second).unwrap(),
            process: process.to_owned(),
            role: "query".to_owned(),
        };
        assert!(claim(1, "b") < claim(2, "a"));
        assert!(claim(1, "a") < claim(1, "b"), "also where they started together");
    }

    #[test]
    fn every_name_has_a_subject() {
        let subject = Exclusive::name(0, "query", "the first.node *>").subject;
        assert!(subject.chars().all(|c| c.is_ascii_alphanumeric() || c == '.'), "{subject}");
        assert_ne!(subject, Exclusive::name(0, "query", "another").subject);
    }
}
