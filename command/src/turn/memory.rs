//! What the writer keeps in memory: hot aggregates, claims and answers, and the end of the log.

use std::{any::Any, collections::HashMap, sync::Arc};

use bytes::Bytes;
use eventlog::record::{AggregateKey, Answer, Recorded};
use jiff::Timestamp;
use view::history::{Answered, ClaimHash, Snapshot};

use super::Head;
use crate::{cache::Cache, tail::Tail};

/// How many aggregates, claims and answers are kept in memory, each.
const HOT: usize = 100_000;
/// Of how many users and organizations it is remembered when roles were given.
const MOST_GIVEN: usize = 10_000;

/// What the writer knows without asking anybody.
pub(crate) struct Memory {
    pub(super) aggregates: Cache<AggregateKey, Entry>,
    pub(super) claims: Cache<ClaimHash, Option<AggregateKey>>,
    answers: Cache<Bytes, Option<Answered>>,
    /// The records that history may not have.
    pub(crate) tail: Tail,
    pub(super) given: Given,
}

/// When users, and those of an organization, were last given roles beyond their own organization. The read model may not
/// have heard of them yet, and no claim leads there, because nobody knows for which context to ask.
#[derive(Debug)]
pub(super) struct Given {
    /// The sequences of the memberships.
    holders: HashMap<AggregateKey, u64>,
    /// What was given up to this sequence is not remembered.
    forgotten: u64,
}

pub(super) enum Entry {
    /// The events, of a type that only the command knows that asked for them.
    Loaded(Vec<Arc<Recorded>>),
    Cached(Cached),
}

/// An aggregate at the end of the log.
#[derive(Clone)]
pub(super) struct Cached {
    pub(super) state: Arc<dyn Any + Send + Sync>,
    pub(super) head: Head,
}

impl Memory {
    /// A memory that knows the tail only.
    pub(crate) fn new(tail: Tail) -> Self {
        let given = Given::after(tail.end().sequence);
        Self { aggregates: Cache::new(HOT), claims: Cache::new(HOT), answers: Cache::new(HOT), tail, given }
    }

    /// Takes up what was loaded, brought up to the end of the log. The snapshot must reach the tail.
    pub(crate) fn learn(&mut self, snapshot: Snapshot) {
        let from = snapshot.checkpoint.position;
        for (key, mut events) in snapshot.aggregates {
            if self.aggregates.get(&key).is_none() {
                events.extend(self.tail.events_after(&key, from).cloned());
                self.aggregates.insert(key, Entry::Loaded(events));
            }
        }
        for (claim, holder) in snapshot.claims {
            if self.claims.get(&claim).is_none() {
                let holder = self.tail.claim_after(&claim, from).unwrap_or(holder);
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

impl Given {
    fn after(sequence: u64) -> Self {
        Self { holders: HashMap::new(), forgotten: sequence }
    }

    /// Remembers that roles were given at a sequence.
    pub(super) fn note(&mut self, holder: AggregateKey, sequence: u64) {
        if self.holders.len() == MOST_GIVEN {
            *self = Self::after(sequence);
        }
        self.holders.insert(holder, sequence);
    }

    /// The sequence at or before which roles were last given.
    pub(super) fn last(&self, holder: &AggregateKey) -> u64 {
        self.holders.get(holder).copied().unwrap_or(self.forgotten)
    }
}

#[cfg(test)]
mod tests {
    use eventlog::record::Position;

    use super::*;
    use crate::turn::{Draft, Turn};

    #[test]
    fn what_was_not_given_after_all_is_not_remembered() {
        let key = AggregateKey { instance_id: "1".into(), aggregate_type: "user".into(), id: "2".into() };
        let (mut memory, mut draft) = (Memory::new(Tail::at(Position::default())), Draft::default());
        for (is_done, last) in [(false, 0), (true, 5)] {
            let mut turn = Turn::new(&mut memory, &mut draft, Timestamp::UNIX_EPOCH);
            turn.gave_roles(key.clone(), 5);
            if is_done {
                turn.finish(1).expect("nothing is written");
            }
            assert_eq!(memory.given.last(&key), last);
        }
    }

    #[test]
    fn what_was_given_and_is_forgotten_counts_as_given_to_all() {
        let user = |number: u64| AggregateKey {
            instance_id: "1".into(),
            aggregate_type: "user".into(),
            id: number.to_string(),
        };
        let mut given = Given::after(7);
        assert_eq!(given.last(&user(1)), 7);
        for number in 1..=MOST_GIVEN as u64 {
            given.note(user(number), 100 + number);
        }
        assert_eq!((given.last(&user(1)), given.last(&user(0))), (101, 7));
        given.note(user(0), 20_000);
        assert_eq!((given.last(&user(1)), given.last(&user(0))), (20_000, 20_000));
    }
}
