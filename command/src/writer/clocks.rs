//! A node whose clock is wrong does not write: times in the log never go back, so they would be wrong for good.

use std::time::Duration;

use base::{clock, fault};
use eventlog::streams::server_time;
use tokio::time::sleep;

use super::Writer;

/// The most seconds by which the clock of NATS or Postgres may differ from that of this node.
const MOST: f64 = 5.0;

/// How often the clocks are compared.
fn every() -> Duration {
    fault::shortened(Duration::from_secs(10), Duration::from_secs(1))
}

/// A clock that is too far from that of a server.
#[derive(Debug, thiserror::Error)]
#[error(
    "the clock of this node is {:.1} s {} that of {server}, so it would write wrong times into the log: let both follow the \
     same time server (chrony, systemd-timesyncd)",
    .ahead.abs(),
    if *.ahead > 0.0 { "behind" } else { "ahead of" }
)]
pub struct WrongClock {
    server: &'static str,
    /// The seconds by which the server's clock is ahead.
    ahead: f64,
}

impl WrongClock {
    fn of(server: &'static str, ahead: Option<f64>) -> Result<(), Self> {
        match ahead {
            Some(ahead) if ahead.abs() > MOST => Err(Self { server, ahead }),
            _ => Ok(()),
        }
    }
}

/// Compares the clock of this node with those of NATS and Postgres, where they answer.
pub(super) async fn compare(writer: &Writer) -> Result<(), WrongClock> {
    let client = writer.logs.events.client();
    let nats = clock::ahead(server_time(&client, writer.logs.events.stream()));
    let (nats, postgres) = tokio::join!(nats, clock::ahead(writer.database.time()));
    WrongClock::of("NATS", nats).and(WrongClock::of("Postgres", postgres))
}

/// Completes when the clocks differ too much.
pub(super) async fn until_differ(writer: &Writer) -> WrongClock {
    loop {
        sleep(every()).await;
        if let Err(wrong) = compare(writer).await {
            return wrong;
        }
    }
}

/// Completes when the clocks agree again.
pub(super) async fn until_agree(writer: &Writer) {
    while compare(writer).await.is_err() {
        sleep(every()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_may_differ_by_five_seconds() {
        for ahead in [None, Some(0.0), Some(5.0), Some(-5.0)] {
            assert!(WrongClock::of("NATS", ahead).is_ok(), "{ahead:?}");
        }
        let slow = WrongClock::of("NATS", Some(5.2)).unwrap_err().to_string();
        assert!(slow.contains("is 5.2 s behind that of NATS"), "{slow}");
        let ahead = WrongClock::of("Postgres", Some(-60.0)).unwrap_err().to_string();
        assert!(ahead.contains("is 60.0 s ahead of that of Postgres"), "{ahead}");
    }
}
