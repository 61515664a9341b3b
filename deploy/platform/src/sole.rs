//! No two running nodes of a role have one name, and no two that make ids have one number: who ran first goes on.
//!
//! A node says under its name and under its number that it runs: when it starts, now and then, and when it hears that of a
//! younger one. Who hears an older one ends. The users that nodes have at NATS can say so for their own role only.

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

/// The role of the nodes that make ids; a standalone has it among others.
const WRITING: &str = "command";
const EVERY: Duration = Duration::from_secs(10);
/// How long a node that starts listens for older ones. Those that are slower to answer are heard later.
const PATIENCE: Duration = Duration::from_millis(250);

/// That a process runs. Of two the lesser is the older.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Claim {
    since: Timestamp,
    process: String,
    role: String,
}

/// An older node has what this one was to have for itself.
#[derive(Debug, Clone, thiserror::Error)]
#[error("another node runs with {what} since {} (its role is {}): {remedy}, and start this one again", .by.since, .by.role)]
struct Taken {
    what: String,
    by: Claim,
    remedy: &'static str,
}

/// What this node has for itself.
pub(crate) struct Sole {
    taken: watch::Receiver<Option<Taken>>,
    settled: Instant,
}

/// Something that a node has for itself.
struct Own {
    subject: String,
    what: String,
    remedy: &'static str,
}

impl Own {
    fn name(shard: u16, role: &str, name: &str) -> Self {
        // Names have characters that subjects have not.
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
    /// Says that this node runs under a name, and under a number where it makes ids.
    pub(crate) async fn claim(
        client: &async_nats::Client,
        shard: u16,
        (role, name, number): (&'static str, &str, Option<u16>),
    ) -> Result<Self, Failure> {
        let claim = Claim { since: clock::now(), process: random_text(22), role: role.to_owned() };
        let (tell, taken) = watch::channel(None);
        let among = number.map_or(role, |_| WRITING);
        let owns = [Some(Own::name(shard, among, name)), number.map(|number| Own::number(shard, number))];
        for own in owns.into_iter().flatten() {
            let heard = client.subscribe(own.subject.clone()).await?;
            let (client, claim, tell) = (client.clone(), claim.clone(), tell.clone());
            tokio::spawn(async move {
                if let Some(taken) = keep(&client, &own, &claim, heard).await {
                    tell.send_replace(Some(taken));
                }
            });
        }
        Ok(Self { taken, settled: Instant::now() + PATIENCE })
    }

    /// Waits until an older node would have answered. Where one is heard later, `stopping` is cancelled.
    ///
    /// # Errors
    /// When one has answered.
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

    /// Whether this node still has all to itself.
    ///
    /// # Errors
    /// When an older node was heard.
    pub(crate) fn verdict(&self) -> Result<(), Failure> {
        match &*self.taken.borrow() {
            Some(taken) => Err(taken.clone().into()),
            None => Ok(()),
        }
    }
}

/// Says it until an older one is heard, or the connection has ended.
async fn keep(
    client: &async_nats::Client,
    own: &Own,
    claim: &Claim,
    mut heard: async_nats::Subscriber,
) -> Option<Taken> {
    let said = serde_json::to_vec(claim).unwrap_or_default();
    let mut beat = interval(EVERY);
    loop {
        tokio::select! {
            _ = beat.tick() => {}
            message = heard.next() => match serde_json::from_slice::<Claim>(&message?.payload) {
                Ok(other) if other < *claim => {
                    tracing::error!(since = %other.since, role = other.role, "another node runs with {}", own.what);
                    return Some(Taken { what: own.what.clone(), by: other, remedy: own.remedy });
                }
                Ok(other) if other > *claim => {}
                _ => continue,
            },
        }
        // Who hears nothing now hears the next one.
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
        let subject = Own::name(0, "query", "the first.node *>").subject;
        assert!(subject.chars().all(|c| c.is_ascii_alphanumeric() || c == '.'), "{subject}");
        assert_ne!(subject, Own::name(0, "query", "another").subject);
    }
}
