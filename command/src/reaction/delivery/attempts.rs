//! The last attempts to deliver to each target, on their way to Postgres, where they are written at intervals.

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

/// How often attempts are written to Postgres.
const EVERY: Duration = Duration::from_secs(1);
/// For how many targets attempts may wait until then.
const MOST_TARGETS: usize = 4096;
/// The most bytes of an error that are stored.
const LONGEST: usize = 500;
/// How many days the attempts of a target to which nothing is delivered are stored, and how often older ones are
/// removed.
const DAYS: i32 = 30;
const LOOK_EVERY: Duration = Duration::from_hours(1);

/// The attempts that are not written yet, by instance and target.
type UnsavedAttempts = HashMap<(String, String), VecDeque<Attempt>>;

/// The attempts of this process that are not written yet.
#[derive(Debug, Clone, Default)]
pub struct Attempts(Arc<Mutex<UnsavedAttempts>>);

impl Attempts {
    /// Adds an attempt.
    pub(super) fn add(&self, delivery: &Delivery, number: u32, outcome: Outcome, error: &str) {
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

    /// Writes attempts to Postgres until it is dropped. Attempts that cannot be written are lost: nothing depends on
    /// them.
    pub(super) async fn run(self, database: &Database) -> Infallible {
        let mut looks_at = Instant::now();
        loop {
            let forgets = looks_at <= Instant::now();
            if let Err(failure) = self.note(database, forgets).await {
                tracing::debug!(error = explain(&failure), "attempts to deliver events cannot be recorded");
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
                forget(&*connection, DAYS).await?;
            }
            note(&*connection, &all).await
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
            attempts.add(&delivery, number, Outcome::Failed, "é".repeat(LONGEST).as_str());
        }
        let waiting = attempts.0.lock().unwrap();
        let kept: Vec<u32> = waiting.values().flatten().map(|attempt| attempt.number).collect();
        assert_eq!(kept, (11..=30).rev().collect::<Vec<_>>());
    }
}
