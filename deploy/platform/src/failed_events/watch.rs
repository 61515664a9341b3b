//! `platform failed-events watch`: prints failed events as they occur.

use std::{collections::HashSet, time::Duration};

use base::clock;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::{LISTED, filters, last_failed, line, search, time};
use crate::{Failure, cli, operator::Operator, output};

/// The interval of requests, and the longest one while the platform does not answer.
const EVERY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(16));
/// How long after its failure an event may become visible.
const LATE: SignedDuration = SignedDuration::from_secs(30);

/// Prints failed events as they occur, until `shutdown`.
pub(crate) async fn watch(options: cli::ListFailedEvents, shutdown: CancellationToken) -> Result<(), Failure> {
    let operator = Operator::new(&options.at)?;
    let mut seen = Printed { begin: clock::now(), printed: HashSet::new() };
    let mut pause = EVERY.0;
    loop {
        let asked = tokio::select! {
            asked = seen.unprinted(&operator, filters(&options.which)) => asked,
            () = shutdown.cancelled() => return Ok(()),
        };
        match asked {
            Ok(events) => {
                for event in events {
                    output::print(if options.json { event.to_string() } else { line(&event) });
                }
                pause = EVERY.0;
            }
            Err(error) => {
                pause = (pause * 2).min(EVERY.1);
                output::notice(format_args!("{error}; trying again in {} s", pause.as_secs()));
            }
        }
        tokio::select! {
            () = sleep(pause) => {}
            () = shutdown.cancelled() => return Ok(()),
        }
    }
}

/// The failures that were printed recently.
struct Printed {
    begin: Timestamp,
    /// The ids, and when each failed.
    printed: HashSet<(String, Timestamp)>,
}

impl Printed {
    /// Returns the failures that were not printed yet. An event that fails again is a new failure.
    async fn unprinted(&mut self, operator: &Operator, mut wanted: Vec<Value>) -> Result<Vec<Value>, Failure> {
        let newest = self.printed.iter().map(|(_, failed)| *failed).max().unwrap_or(self.begin);
        let from = (newest - LATE).max(self.begin);
        wanted.push(last_failed(&from.to_string(), "GREATER_OR_EQUALS"));
        let mut events = search(operator, wanted, json!({ "limit": LISTED })).await?.events;
        self.printed.retain(|(_, failed)| *failed >= from);
        events.reverse();
        events.retain(|event| self.is_new(event));
        Ok(events)
    }

    fn is_new(&mut self, event: &Value) -> bool {
        let (id, failed) = (event["id"].as_str().unwrap_or_default(), time(event).unwrap_or_default());
        self.printed.insert((id.to_owned(), failed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_again_is_new_and_nothing_else_is() {
        let mut seen = Printed { begin: Timestamp::UNIX_EPOCH, printed: HashSet::new() };
        let event = |second: u32| json!({ "id": "7", "lastFailed": format!("2026-11-24T00:00:{second:02}Z") });
        assert!(seen.is_new(&event(1)) && !seen.is_new(&event(1)) && seen.is_new(&event(2)));
    }
}
