//! The memory of the writer: hot aggregates, claims and answers, and the end of the log.

use std::{any::Any, sync::Arc};

use bytes::Bytes;
use domain::{
    catalog::class_of,
    links::links_to,
    log_class::{LogClass, OfEach},
    reference::Link,
};
use eventlog::record::{AggregateKey, Answer, Event, Recorded};
use jiff::Timestamp;
use view::history::{ClaimHash, Counted, ReferenceChange, Referred, Referrers, Snapshot, StoredAnswer};

use super::Head;
use crate::{cache::Cache, tail::Tail};

/// How many aggregates, claims and answers are cached, each.
const HOT: usize = 100_000;
/// About how many bytes of aggregates are cached, by the size of their events.
const MOST_BYTES: usize = 128 * 1024 * 1024;
/// For how many aggregates the referrers are cached.
const MOST_REFERRED: usize = 10_000;
/// Of how many kinds of objects in a context the number is cached.
const MOST_COUNTED: usize = 10_000;

/// What the writer knows without a load.
pub(crate) struct Memory {
    pub(super) aggregates: Cache<AggregateKey, Entry>,
    pub(super) claims: Cache<ClaimHash, Option<AggregateKey>>,
    pub(super) referrers: Cache<Referred, Referrers>,
    counts: Cache<Counted, Number>,
    answers: Cache<Bytes, Option<StoredAnswer>>,
    /// The records of each log that its history may not have.
    pub(crate) tails: OfEach<Tail>,
}

pub(super) enum Entry {
    /// The events, whose type is known only to the command that requested them.
    Loaded(Vec<Arc<Recorded>>),
    Cached(Cached),
}

/// An aggregate at the end of the log.
#[derive(Clone)]
pub(super) struct Cached {
    pub(super) state: Arc<dyn Any + Send + Sync>,
    pub(super) head: Head,
}

/// How many objects there are.
struct Number {
    objects: u64,
    /// Whether that may be too many: the tail had references that were noted again.
    is_doubtful: bool,
}

impl Memory {
    /// Creates a memory that knows the tails only.
    pub(crate) fn new(tails: OfEach<Tail>) -> Self {
        Self {
            aggregates: Cache::new(HOT).within(MOST_BYTES),
            claims: Cache::new(HOT),
            referrers: Cache::new(MOST_REFERRED),
            counts: Cache::new(MOST_COUNTED),
            answers: Cache::new(HOT),
            tails,
        }
    }

    /// Returns about how many bytes the tails have.
    pub(crate) fn tail_bytes(&self) -> usize {
        self.tails.events.bytes() + self.tails.sessions.bytes()
    }

    /// Adds what was loaded, brought up to the ends of the logs. The snapshot must connect to the tails. Only
    /// aggregates of the log that is kept for ever take claims and name others.
    pub(crate) fn learn(&mut self, snapshot: Snapshot) {
        let reached = snapshot.checkpoints.map(|checkpoint| checkpoint.position);
        let (tail, from) = (&self.tails.events, reached.events);
        for (key, mut events) in snapshot.aggregates {
            if self.aggregates.get(&key).is_none() {
                let class = class_of(&key.aggregate_type);
                events.extend(self.tails[class].events_after(&key, reached[class]).cloned());
                let bytes = events.iter().map(|recorded| recorded.event.payload.len()).sum();
                self.aggregates.insert_weighing(key, Entry::Loaded(events), bytes);
            }
        }
        for (claim, holder) in snapshot.claims {
            if self.claims.get(&claim).is_none() {
                let holder = tail.claim_after(&claim, from).unwrap_or(holder);
                self.claims.insert(claim, holder);
            }
        }
        for (referred, mut referrers) in snapshot.referrers {
            if self.referrers.get(&referred).is_none() {
                for change in tail.references_after(&referred, from) {
                    referrers.apply(&change.referrer, change.is_taken);
                }
                self.referrers.insert(referred, referrers);
            }
        }
        for (counted, before) in snapshot.counts {
            if self.counts.get(&counted).is_none() {
                let mut changes = tail.references_after(&counted.referred, from).peekable();
                let is_doubtful = changes.peek().is_some();
                let objects = counted.after(before, changes);
                self.counts.insert(counted, Number { objects, is_doubtful });
            }
        }
        for (command, answer) in snapshot.commands {
            let answer = answer_in(&self.tails, &command).cloned().or(answer);
            self.answers.insert(command, answer);
        }
    }

    /// Returns the answer to an idempotent command; `None` if it must be loaded first.
    pub(crate) fn answer(&mut self, command_id: &Bytes) -> Option<Option<StoredAnswer>> {
        match answer_in(&self.tails, command_id) {
            Some(answered) => Some(Some(answered.clone())),
            None => self.answers.get(command_id).map(|answered| answered.clone()),
        }
    }

    /// Caches an aggregate as these events have left it.
    pub(super) fn cache(&mut self, key: AggregateKey, cached: Cached, events: &[Event]) {
        let bytes = events.last().map_or(0, |event| event.payload.len());
        self.aggregates.insert_weighing(key, Entry::Cached(cached), bytes);
    }

    /// Applies that a reference was taken or released.
    pub(super) fn change_reference(&mut self, change: &ReferenceChange) {
        let ReferenceChange { referred, referrer, is_taken } = change;
        if let Some(referrers) = self.referrers.get(referred) {
            referrers.apply(referrer, *is_taken);
        }
        if referred.link == Link::INSTANCE.name {
            let counted = Counted { referred: referred.clone(), aggregate_type: referrer.aggregate_type.clone() };
            if let Some(number) = self.counts.get(&counted) {
                number.objects = counted.after(number.objects, [change]);
            }
        }
    }

    /// Returns how many objects there are, if that is known.
    pub(super) fn number_of(&mut self, counted: &Counted) -> Option<u64> {
        self.counts.get(counted).map(|number| number.objects)
    }

    /// Has objects counted anew for the next command, if there may be fewer.
    pub(super) fn count_anew(&mut self, counted: &Counted) {
        if self.counts.get(counted).is_some_and(|number| number.is_doubtful) {
            self.counts.remove(counted);
        }
    }

    /// Forgets how many objects there are: references are noted that may have been noted before.
    pub(super) fn forget_counts(&mut self) {
        self.counts.clear();
    }

    /// Returns the aggregates that refer to one, if they are known. What is left of a page that is short is returned
    /// once, and read anew after that.
    pub(super) fn referrers(&mut self, referred: &Referred) -> Option<Referrers> {
        let found = self.referrers.get(referred)?.clone();
        if found.is_short() {
            self.referrers.remove(referred);
        }
        Some(found)
    }

    /// Records that an aggregate is new, so that nothing can refer to it yet.
    pub(super) fn has_no_referrers(&mut self, key: &AggregateKey) {
        for link in links_to(&key.aggregate_type) {
            let referred = Referred { key: key.clone(), link: link.name.to_owned() };
            if self.referrers.get(&referred).is_none() {
                self.referrers.insert(referred, Referrers::default());
            }
        }
    }

    /// Caches the answers of a record that was committed.
    pub(crate) fn remember_answers(&mut self, answers: &[Answer], committed_at: Timestamp) {
        for answer in answers {
            let answered = StoredAnswer { answer: answer.clone(), committed_at };
            self.answers.insert(answer.command_id.clone(), Some(answered));
        }
    }

    /// Removes everything that may depend on a record that was not committed.
    pub(crate) fn forget(&mut self) {
        self.aggregates.clear();
        self.claims.clear();
        self.referrers.clear();
        self.counts.clear();
        self.answers.clear();
    }
}

/// Returns the answer to a command that one of the tails has, whichever log it was about.
fn answer_in<'a>(tails: &'a OfEach<Tail>, command_id: &Bytes) -> Option<&'a StoredAnswer> {
    LogClass::ALL.into_iter().find_map(|class| tails[class].answer(command_id))
}
