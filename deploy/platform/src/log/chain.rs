//! The rules that must hold from record to record of a log.

use std::collections::{HashMap, HashSet, VecDeque};

use domain::{catalog::class_of, log_class::LogClass};
use eventlog::record::{AggregateKey, Broken, CommitRecord, Position, Record};
use jiff::Timestamp;
use serde::de::IgnoredAny;
use view::history::SESSIONS_KEPT;

/// How many record ids are remembered: a duplicate of a record follows it closely.
const RECENT: usize = 65_536;
const RESTORE: &str = "stop the command nodes, restore the log from a backup (docs/operations.md), and let nobody else publish \
                       to it or delete from it (docs/nats-permissions.md)";
const FOREIGN: &str = "something other than the platform published it; docs/nats-permissions.md explains under \"When \
                       there is a foreign message\" how to go on";

/// The first fault of a log.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "message {place} of the log (its stream sequence): {rule}: found {found}, expected {expected}. What to do: {remedy}"
)]
pub(super) struct Violation {
    place: u64,
    rule: &'static str,
    found: String,
    expected: String,
    remedy: &'static str,
}

/// A checker of consecutive records, which remembers the version of every aggregate.
#[derive(Default)]
pub(super) struct Chain {
    /// The position of the last record that was checked.
    pub(super) at: Position,
    /// The record before, without its events; `None` before the first.
    pub(super) header: Option<CommitRecord>,
    /// Whether the check began at the beginning of the log: otherwise versions before it are unknown.
    is_whole: bool,
    /// The version of the last event of each aggregate, and when that was committed.
    versions: HashMap<AggregateKey, (u64, Timestamp)>,
    /// The latest record ids of this epoch, the oldest first.
    recent: (VecDeque<[u8; 16]>, HashSet<[u8; 16]>),
    /// How many records were checked.
    pub(super) records: u64,
    /// How many epochs have begun in these records.
    pub(super) epochs: u64,
}

impl Chain {
    /// Begins after a record, which is not checked itself.
    pub(super) fn after(record: Record) -> Self {
        Self { at: record.position(), header: Some(record.commit), ..Self::default() }
    }

    /// Begins before the first record that a purge has left, or that of a log that was never purged.
    pub(super) fn at(beginning: Position) -> Self {
        Self { at: beginning, is_whole: beginning.stream_sequence == 0, ..Self::default() }
    }

    /// Returns how many aggregates have events in these records.
    pub(super) fn aggregates(&self) -> usize {
        self.versions.len()
    }

    /// Checks the stream sequence of the next message.
    pub(super) fn check_place(&self, place: u64) -> Result<(), Violation> {
        let next = self.at.stream_sequence + 1;
        if place == next {
            return Ok(());
        }
        let found = format!("message {place} after message {}", self.at.stream_sequence);
        Err(fault(next, "it is missing", found, format!("message {next}")))
    }

    /// Returns the fault where the stream goes on, but has no next message.
    pub(super) fn missing(&self, end: u64) -> Violation {
        let next = self.at.stream_sequence + 1;
        fault(next, "it is missing", format!("nothing, in a stream that ends at {end}"), format!("message {next}"))
    }

    /// Checks the next record, and moves on to it.
    pub(super) fn check(&mut self, record: &Record) -> Result<(), Violation> {
        self.check_place(record.stream_sequence)?;
        self.check_links(record)?;
        if let Some(before) = &self.header {
            check_header(record, before)?;
        }
        self.check_epoch(record)?;
        self.check_id(record)?;
        self.check_events(record)?;
        (self.at, self.header) = (record.position(), Some(CommitRecord { answers: vec![], ..record.commit.clone() }));
        self.records += 1;
        Ok(())
    }

    fn check_links(&self, record: &Record) -> Result<(), Violation> {
        let place = record.stream_sequence;
        if let Some(before) = &self.header
            && before.log_id != record.commit.log_id
        {
            let (found, expected) = (hex::encode(&record.commit.log_id), hex::encode(&before.log_id));
            return Err(fault(
                place,
                "it is from another log",
                format!("log id {found}"),
                format!("log id {expected}"),
            ));
        }
        let (found, expected) = (record.commit.first_sequence, self.at.sequence + 1);
        if found != expected {
            let rule = "events are missing or duplicated";
            return Err(fault(
                place,
                rule,
                format!("a record that begins with event {found}"),
                format!("event {expected}"),
            ));
        }
        let expected: &[u8] = if self.at.stream_sequence == 0 { &[] } else { &self.at.digest };
        let found = &record.commit.previous_digest;
        if **found != *expected {
            let told = |digest: &[u8]| if digest.is_empty() { "none".to_owned() } else { hex::encode(digest) };
            let rule = "it was not written after the record before it";
            let (found, expected) = (format!("the digest {}", told(found)), format!("the digest {}", told(expected)));
            return Err(fault(place, rule, found, expected));
        }
        Ok(())
    }

    /// Checks that an epoch begins with a barrier record, which is empty.
    fn check_epoch(&mut self, record: &Record) -> Result<(), Violation> {
        let epoch = record.commit.epoch;
        // The first record that a purge has left need not begin its epoch.
        if self.header.is_none() && self.at.stream_sequence > 0 {
            return Ok(());
        }
        if self.header.as_ref().is_some_and(|before| before.epoch == epoch) {
            return Ok(());
        }
        let (events, answers) = (record.events.len(), record.commit.answers.len());
        if events + answers > 0 {
            let found = format!("{events} events and {answers} answers");
            let rule = "it begins an epoch and is not a barrier record";
            return Err(fault(
                record.stream_sequence,
                rule,
                found,
                format!("an empty record, the first of epoch {epoch}"),
            ));
        }
        self.epochs += 1;
        self.recent = Default::default();
        Ok(())
    }

    fn check_id(&mut self, record: &Record) -> Result<(), Violation> {
        let id: [u8; 16] = record.commit.record_id.as_ref().try_into().unwrap_or_default();
        let (order, known) = &mut self.recent;
        if !known.insert(id) {
            let found = format!("record id {} a second time", hex::encode(id));
            let rule = "the same record was written before";
            return Err(fault(record.stream_sequence, rule, found, "an id of its own".to_owned()));
        }
        order.push_back(id);
        if order.len() > RECENT
            && let Some(oldest) = order.pop_front()
        {
            known.remove(&oldest);
        }
        Ok(())
    }

    fn check_events(&mut self, record: &Record) -> Result<(), Violation> {
        let place = record.stream_sequence;
        for recorded in &record.events {
            let (event, sequence) = (&recorded.event, recorded.sequence);
            let name = format!("{} {} of instance {:?}", event.aggregate_type, event.aggregate_id, event.instance_id);
            let (version, at) = self.versions.entry(recorded.key()).or_default();
            // An aggregate whose events have aged out may begin again at version 1.
            let is_aged = class_of(&event.aggregate_type) == LogClass::Sessions
                && recorded.committed_at.duration_since(*at) > SESSIONS_KEPT;
            let is_free = *version == 0 && !self.is_whole || is_aged && event.version == 1;
            let expected = if is_free { event.version } else { *version + 1 };
            if event.version != expected {
                let found = format!("version {} in event {sequence}", event.version);
                let rule = "the versions of an aggregate have a hole or go back";
                return Err(fault(place, rule, found, format!("version {expected} of {name}")));
            }
            (*version, *at) = (expected, recorded.committed_at);
            let is_json = || serde_json::from_slice::<IgnoredAny>(&event.payload).is_ok();
            if !event.payload.is_empty() && !is_json() {
                let found = format!("other bytes in event {sequence} ({})", event.r#type);
                return Err(fault(place, "a payload cannot be read", found, format!("JSON, as all of {name}")));
            }
        }
        Ok(())
    }
}

/// Checks the header fields that never decrease from a record to the next.
fn check_header(record: &Record, before: &CommitRecord) -> Result<(), Violation> {
    let (place, commit) = (record.stream_sequence, &record.commit);
    let least = |least: String| format!("{least} or more, as in the record before it");
    if commit.incarnation < before.incarnation {
        let (found, expected) = (format!("incarnation {}", commit.incarnation), least(before.incarnation.to_string()));
        return Err(fault(place, "it is from an older copy of the log", found, expected));
    }
    if commit.epoch < before.epoch {
        let (found, expected) = (format!("epoch {}", commit.epoch), least(before.epoch.to_string()));
        return Err(fault(place, "a writer wrote after another one had taken over", found, expected));
    }
    // A build without purges writes 0.
    let says_less = commit.purged_to < before.purged_to && !(commit.purged_to == 0 && commit.epoch > before.epoch);
    if says_less || commit.purged_to > 0 && commit.purged_to >= place {
        let (found, least) = (format!("up to message {}", commit.purged_to), before.purged_to);
        let rule = "it permits another purge than a writer does";
        return Err(fault(place, rule, found, format!("from message {least} to {}", place - 1)));
    }
    if commit.committed_at < before.committed_at {
        let time =
            |micros| jiff::Timestamp::from_microsecond(micros).map_or_else(|_| micros.to_string(), |at| at.to_string());
        let expected = format!("{} or later, as in the record before it", time(before.committed_at));
        return Err(fault(place, "its commit time goes back", time(commit.committed_at), expected));
    }
    Ok(())
}

impl From<Broken> for Violation {
    fn from(broken: Broken) -> Self {
        let place = match broken {
            Broken::MessageHole { last, found } => {
                let (found, expected) = (format!("message {found}"), format!("message {}", last + 1));
                return fault(last + 1, "it is missing", found, expected);
            }
            Broken::Lost { at, lost, end } => {
                let found = format!("{lost} of {end} messages are missing");
                return fault(at, "it is missing", found, "all of them".to_owned());
            }
            Broken::NoRecord { stream_sequence }
            | Broken::EventHole { stream_sequence, .. }
            | Broken::OtherLog { stream_sequence }
            | Broken::OldEpoch { stream_sequence, .. }
            | Broken::OtherHistory { stream_sequence } => stream_sequence,
        };
        let (found, expected) = ("another message".to_owned(), "a commit record".to_owned());
        Self { remedy: FOREIGN, ..fault(place, "it is not a commit record", found, expected) }
    }
}

fn fault(place: u64, rule: &'static str, found: String, expected: String) -> Violation {
    Violation { place, rule, found, expected, remedy: RESTORE }
}

#[cfg(test)]
mod tests;
