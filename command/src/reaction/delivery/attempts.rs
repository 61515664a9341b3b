//! The last attempts to deliver to each target, on their way to Postgres: once in a while, and not with each.

use std::{
    collections::{HashMap, VecDeque},
    convert::Infallible,
    mem,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use base::{clock, explain::explain};
use tokio::time::{Instant, sleep};
use view::{
    attempts::{Attempt, KEPT, OfTarget, Outcome, forget, note},
    database::{Database, DatabaseFailure},
};

use super::payload::Delivery;

/// How often they are noted.
const EVERY: Duration = Duration::from_secs(1);
/// Of how many targets they are kept until then.
const MOST_TARGETS: usize = 4096;
/// How many bytes of an error are kept.
const LONGEST: usize = 500;
/// For how many days those of a target are kept to which nothing is delivered, and how often that is looked at.
const DAYS: i32 = 30;
const LOOK_EVERY: Duration = Duration::from_hours(1);

/// Those that are not noted yet, by instance and target.
type Waiting = HashMap<(String, String), VecDeque<Attempt>>;

/// The attempts of this process.
#[derive(Debug, Clone, Default)]
pub struct Attempts(Arc<Mutex<Waiting>>);

impl Attempts {
    /// Adds one.
    pub(super) fn add(&self, delivery: &Delivery, number: u32, (outcome, error): (Outcome, &str)) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (delivery.instance_id.clone(), delivery.target_id.clone());
        if waiting.len() >= MOST_TARGETS && !waiting.contains_key(&key) {
            return;
        }
        let of_target = waiting.entry(key).or_default();
        of_target.truncate(KEPT - 1);
        of_target.push_front(Attempt {
            delivery_id: delivery.id.clone(),
            event_type: delivery.event_type.clone(),
            aggregate: delivery.aggregate.clone(),
            sequence: delivery.sequence,
            number,
            at: clock::now(),
            outcome,
            error: error[..error.floor_char_boundary(LONGEST)].replace('\0', "\u{fffd}"),
        });
    }

    /// Notes them as long as it runs. Those that Postgres does not take are lost: nothing depends on them.
    pub(super) async fn run(self, database: &Database) -> Infallible {
        let mut looks_at = Instant::now();
        loop {
            let forgets = looks_at <= Instant::now();
            if let Err(failure) = self.note(database, forgets).await {
                tracing::debug!(error = explain(&failure), "attempts to deliver events are not noted");
            }
            if forgets {
                looks_at = Instant::now() + LOOK_EVERY;
            }
            sleep(EVERY).await;
        }
    }

    async fn note(&self, database: &Database, forgets: bool) -> Result<(), DatabaseFailure> {
        let waiting = mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        if waiting.is_empty() && !forgets {
            return Ok(());
        }
        let of_target = |((instance_id, target_id), attempts): ((String, String), VecDeque<Attempt>)| OfTarget {
            instance_id,
            target_id,
            attempts: attempts.into(),
        };
        let all: Vec<OfTarget> = waiting.into_iter().map(of_target).collect();
        let write = async {
            let connection = database.connection().await?;
            if forgets {
                forget(&connection, DAYS).await?;
            }
            note(&connection, &all).await
        };
        database.within(write).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_of_a_target_are_kept() {
        let attempts = Attempts::default();
        let text = || "x".to_owned();
        let delivery = Delivery {
            id: text(),
            instance_id: text(),
            target_id: text(),
            aggregate: text(),
            event_type: text(),
            sequence: 7,
            depth: 0,
            trace_context: text(),
            body: None,
        };
        for number in 1..=30 {
            attempts.add(&delivery, number, (Outcome::Failed, "é".repeat(LONGEST).as_str()));
        }
        let waiting = attempts.0.lock().unwrap();
        let kept: Vec<u32> = waiting.values().flatten().map(|attempt| attempt.number).collect();
        assert_eq!(kept, (11..=30).rev().collect::<Vec<_>>());
    }
}
