//! The tail of the log: the records that history in Postgres may not have yet.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use bytes::Bytes;
use eventlog::record::{AggregateKey, Position, Record, Recorded};
use prost::Message;
use view::history::{ClaimHash, ReferenceChange, Referred, StoredAnswer, hashes, reference_changes};

/// The last records of the log, in order and without holes, found by aggregate, claim and command.
#[derive(Debug)]
pub(crate) struct Tail {
    /// Where the tail begins: the record before its first.
    begin: Position,
    /// Where the log ends.
    end: Position,
    records: VecDeque<TailRecord>,
    events: HashMap<AggregateKey, VecDeque<Arc<Recorded>>>,
    claims: HashMap<ClaimHash, VecDeque<(u64, Option<AggregateKey>)>>,
    references: HashMap<Referred, VecDeque<(u64, ReferenceChange)>>,
    answers: HashMap<Bytes, StoredAnswer>,
    bytes: usize,
}

#[derive(Debug)]
struct TailRecord {
    position: Position,
    events: Vec<Arc<Recorded>>,
    answers: Vec<Bytes>,
    bytes: usize,
}

impl Tail {
    /// Creates an empty tail at a position of the log.
    pub(crate) fn at(begin: Position) -> Self {
        Self {
            begin,
            end: begin,
            records: VecDeque::new(),
            events: HashMap::new(),
            claims: HashMap::new(),
            references: HashMap::new(),
            answers: HashMap::new(),
            bytes: 0,
        }
    }

    /// Returns where the tail begins.
    pub(crate) fn begin(&self) -> Position {
        self.begin
    }

    /// Returns where the log ends.
    pub(crate) fn end(&self) -> Position {
        self.end
    }

    /// Returns about how many bytes the tail holds.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a snapshot of history together with this tail is the complete past.
    pub(crate) fn continues(&self, snapshot: Position) -> bool {
        snapshot.stream_sequence >= self.begin.stream_sequence
    }

    /// Appends a record. The caller has checked that it continues the log.
    pub(crate) fn push(&mut self, record: &Record) {
        let position = record.position();
        let committed_at = record.committed_at();
        let mut answers = vec![];
        for answer in &record.commit.answers {
            answers.push(answer.command_id.clone());
            self.answers.insert(answer.command_id.clone(), StoredAnswer { answer: answer.clone(), committed_at });
        }
        let events = record.events.clone();
        let of_answers: usize = record.commit.answers.iter().map(|answer| answer.encoded_len() + 128).sum();
        let bytes = of_answers + events.iter().map(|recorded| kept_bytes(recorded)).sum::<usize>();
        for recorded in &events {
            let key = recorded.key();
            for released in hashes(&recorded.event.claims_released) {
                self.claims.entry(released).or_default().push_back((position.stream_sequence, None));
            }
            for taken in hashes(&recorded.event.claims_taken) {
                self.claims.entry(taken).or_default().push_back((position.stream_sequence, Some(key.clone())));
            }
            for change in reference_changes(&key, &recorded.event) {
                let referred = change.referred.clone();
                self.references.entry(referred).or_default().push_back((position.stream_sequence, change));
            }
            self.events.entry(key).or_default().push_back(recorded.clone());
        }
        self.bytes += bytes;
        self.records.push_back(TailRecord { position, events, answers, bytes });
        self.end = position;
    }

    /// Removes the records that history has.
    pub(crate) fn trim(&mut self, through_stream_sequence: u64) {
        while let Some(kept) =
            self.records.pop_front_if(|kept| kept.position.stream_sequence <= through_stream_sequence)
        {
            for recorded in &kept.events {
                self.forget(recorded, kept.position.stream_sequence);
            }
            for command in &kept.answers {
                self.answers.remove(command);
            }
            self.bytes -= kept.bytes;
            self.begin = kept.position;
        }
    }

    fn forget(&mut self, recorded: &Recorded, stream_sequence: u64) {
        let key = recorded.key();
        if let Some(events) = self.events.get_mut(&key) {
            events.pop_front();
            if events.is_empty() {
                self.events.remove(&key);
            }
        }
        let event = &recorded.event;
        for claim in hashes(&event.claims_released).chain(hashes(&event.claims_taken)) {
            if let Some(changes) = self.claims.get_mut(&claim) {
                changes.retain(|(at, _)| *at > stream_sequence);
                if changes.is_empty() {
                    self.claims.remove(&claim);
                }
            }
        }
        for ReferenceChange { referred, .. } in reference_changes(&recorded.key(), &recorded.event) {
            if let Some(changes) = self.references.get_mut(&referred) {
                while changes.pop_front_if(|(at, _)| *at <= stream_sequence).is_some() {}
                if changes.is_empty() {
                    self.references.remove(&referred);
                }
            }
        }
    }

    /// Returns the events of an aggregate after a position.
    pub(crate) fn events_after(&self, key: &AggregateKey, position: Position) -> impl Iterator<Item = &Arc<Recorded>> {
        let events = self.events.get(key).into_iter().flatten();
        events.filter(move |recorded| recorded.sequence > position.sequence)
    }

    /// Returns the holder of a claim after its last change since a position; `None` if it did not change.
    pub(crate) fn claim_after(&self, claim: &ClaimHash, position: Position) -> Option<Option<AggregateKey>> {
        let (at, holder) = self.claims.get(claim)?.back()?;
        (*at > position.stream_sequence).then(|| holder.clone())
    }

    /// Returns the changes of the references to an aggregate since a position, in order.
    pub(crate) fn references_after(
        &self,
        referred: &Referred,
        position: Position,
    ) -> impl Iterator<Item = &ReferenceChange> {
        let changes = self.references.get(referred).into_iter().flatten();
        changes.filter(move |(at, _)| *at > position.stream_sequence).map(|(_, change)| change)
    }

    /// Returns the answer to a command.
    pub(crate) fn answer(&self, command_id: &Bytes) -> Option<&StoredAnswer> {
        self.answers.get(command_id)
    }
}

fn kept_bytes(recorded: &Recorded) -> usize {
    let event = &recorded.event;
    let references = event.references_taken.len() + event.references_released.len();
    size_of::<Recorded>() + event.payload.len() + 256 + references * 256
}

#[cfg(test)]
mod tests {
    use eventlog::record::{CommitRecord, Event};

    use super::*;

    fn record(stream_sequence: u64, first_sequence: u64, events: Vec<Event>) -> Record {
        let commit = CommitRecord { first_sequence, events, ..CommitRecord::default() };
        Record::new(stream_sequence, [0; 32], commit)
    }

    fn event(id: &str, taken: &[ClaimHash], released: &[ClaimHash]) -> Event {
        let bytes = |claims: &[ClaimHash]| claims.iter().map(|claim| Bytes::copy_from_slice(claim)).collect();
        Event {
            aggregate_id: id.into(),
            claims_taken: bytes(taken),
            claims_released: bytes(released),
            ..Event::default()
        }
    }

    fn key(id: &str) -> AggregateKey {
        AggregateKey { instance_id: String::new(), aggregate_type: String::new(), id: id.into() }
    }

    #[test]
    fn gives_what_came_after_a_snapshot_and_forgets_what_history_has() {
        let claim = [7; 32];
        let mut tail = Tail::at(Position::default());
        tail.push(&record(1, 1, vec![event("a", &[claim], &[]), event("b", &[], &[])]));
        tail.push(&record(2, 3, vec![event("a", &[], &[claim])]));
        let after_first = Position { sequence: 2, stream_sequence: 1, ..Position::default() };
        let sequences = |tail: &Tail, from| {
            tail.events_after(&key("a"), from).map(|recorded| recorded.sequence).collect::<Vec<_>>()
        };
        assert_eq!(sequences(&tail, Position::default()), [1, 3]);
        assert_eq!(sequences(&tail, after_first), [3]);
        assert_eq!(tail.claim_after(&claim, after_first), Some(None));

        tail.trim(1);
        assert!(tail.continues(after_first) && !tail.continues(Position::default()));
        assert_eq!(sequences(&tail, after_first), [3]);
        tail.trim(2);
        assert_eq!((tail.bytes(), tail.claim_after(&claim, after_first)), (0, None));
        assert!(tail.events.is_empty() && tail.claims.is_empty());
    }
}
