//! What the writer keeps in memory: hot aggregates, claims and answers, and the end of the log.

use std::{any::Any, sync::Arc};

use bytes::Bytes;
use jiff::Timestamp;
use store::{
    history::{Answered, ClaimHash, Snapshot},
    record::{Answer, Key, Recorded},
};

use super::Place;
use crate::{cache::Cache, tail::Tail};

/// How many aggregates, claims and answers are kept in memory, each.
const HOT: usize = 100_000;

/// What the writer knows without asking anybody.
pub(crate) struct Memory {
    pub(super) aggregates: Cache<Key, Entry>,
    pub(super) claims: Cache<ClaimHash, Option<Key>>,
    answers: Cache<Bytes, Option<Answered>>,
    /// The records that history may not have.
    pub(crate) tail: Tail,
}

pub(super) enum Entry {
    /// The events, of a type that only the command knows that asked for them.
    Loaded(Vec<Arc<Recorded>>),
    Held(Held),
}

/// An aggregate at the end of the log.
#[derive(Clone)]
pub(super) struct Held {
    pub(super) state: Arc<dyn Any + Send + Sync>,
    pub(super) place: Place,
}

impl Memory {
    /// A memory that knows the tail only.
    pub(crate) fn new(tail: Tail) -> Self {
        Self { aggregates: Cache::new(HOT), claims: Cache::new(HOT), answers: Cache::new(HOT), tail }
    }

    /// Takes up what was loaded, brought up to the end of the log. The snapshot must reach the tail.
    pub(crate) fn learn(&mut self, snapshot: Snapshot) {
        let from = snapshot.checkpoint.position;
        for (key, mut events) in snapshot.aggregates {
            if self.aggregates.get(&key).is_none() {
                events.extend(self.tail.events_behind(&key, from).cloned());
                self.aggregates.insert(key, Entry::Loaded(events));
            }
        }
        for (claim, holder) in snapshot.claims {
            if self.claims.get(&claim).is_none() {
                let holder = self.tail.claim_behind(&claim, from).unwrap_or(holder);
                self.claims.insert(claim, holder);
            }
        }
        for (command, answer) in snapshot.commands {
            let answer = self.tail.answer(&command).cloned().or(answer);
            self.answers.insert(command, answer);
        }
    }

    /// The answer to an idempotent command: `None` when it must be loaded first.
    pub(crate) fn answer(&mut self, command_id: &Bytes) -> Option<Option<Answered>> {
        match self.tail.answer(command_id) {
            Some(answered) => Some(Some(answered.clone())),
            None => self.answers.get(command_id).map(|answered| answered.clone()),
        }
    }

    /// Takes up the answers of a record that was committed.
    pub(crate) fn remember_answers(&mut self, answers: &[Answer], committed_at: Timestamp) {
        for answer in answers {
            let answered = Answered { answer: answer.clone(), committed_at };
            self.answers.insert(answer.command_id.clone(), Some(answered));
        }
    }

    /// Forgets everything that may rest on a record that was not committed.
    pub(crate) fn forget(&mut self) {
        self.aggregates.clear();
        self.claims.clear();
        self.answers.clear();
    }
}
