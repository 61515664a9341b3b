//! Events as platforms have written them, of every type and revision: every later build reads them, without losing a
//! member.
//!
//! The lines of `recorded.jsonl` stay as they are. `tests/record-events` adds events of new types and revisions.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;

use domain::{
    aggregate::Aggregate,
    catalog::{self, Visitor},
    settings::{Properties, Settings},
    standard::{Resource, Standard},
};
use eventlog::record::{Event, Recorded, decode, encode};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
struct Line {
    r#type: String,
    revision: u32,
    payload: Option<Value>,
}

impl Line {
    fn event(&self) -> Recorded {
        let payload = self.payload.as_ref().map(Value::to_string).unwrap_or_default();
        let event =
            Event { r#type: self.r#type.clone(), revision: self.revision, payload: payload.into(), ..Event::default() };
        Recorded { sequence: 1, committed_at: Timestamp::UNIX_EPOCH, event }
    }
}

/// What no platform writes: nobody changes keys and tokens, and the system and its data keys stay.
const NEVER_WRITTEN: &[&str] =
    &["app_key.changed", "user_key.changed", "personal_access_token.changed", "data_key.removed", "system.removed"];

/// Reads the recorded events of every aggregate.
struct Reader {
    lines: Vec<Line>,
    failures: Vec<String>,
    /// The types of all aggregates.
    types: BTreeSet<String>,
}

impl Reader {
    /// Reads the events of an aggregate. `strange` returns the members of its state that this build does not know.
    fn read<A: Aggregate>(&mut self, strange: impl Fn(&A::Event) -> Vec<String>) {
        let types: BTreeSet<String> = A::EVENTS.iter().map(|name| format!("{}.{name}", A::NAME)).collect();
        let mut current = BTreeSet::new();
        for line in self.lines.iter().filter(|line| types.contains(&line.r#type)) {
            let event = match decode::<A>(&line.event()) {
                Ok(event) => event,
                Err(failure) => {
                    self.failures.push(format!("{failure}: {:?}", failure.source));
                    continue;
                }
            };
            let (r#type, payload) = encode::<A>(&event);
            assert_eq!(r#type, line.r#type);
            self.failures.extend(strange(&event).iter().map(|member| format!("{type}: nobody knows {member}")));
            if line.revision == A::REVISION {
                current.insert(r#type.clone());
                let written = if payload.is_empty() { Value::Null } else { serde_json::from_slice(&payload).unwrap() };
                let lost = lost("", line.payload.as_ref().unwrap_or(&Value::Null), &written);
                self.failures.extend(lost.iter().map(|member| format!("{type} loses {member}")));
            }
        }
        let never: BTreeSet<String> = NEVER_WRITTEN.iter().map(|name| (*name).to_owned()).collect();
        let written: BTreeSet<String> = types.difference(&never).cloned().collect();
        self.failures.extend(written.difference(&current).map(|name| format!("{name} was never recorded")));
        self.failures.extend(current.intersection(&never).map(|name| format!("{name} is written after all")));
        self.types.extend(types);
    }
}

impl Visitor for Reader {
    fn resource<R: Resource>(&mut self) {
        self.read::<Standard<R>>(|event| event.clone().into_state().map_or(vec![], |state| state.unknown()));
    }

    fn settings<P: Properties>(&mut self) {
        self.read::<Settings<P>>(|event| event.clone().into_state().map_or(vec![], |state| state.unknown()));
    }

    fn other<A: Aggregate>(&mut self) {
        self.read::<A>(|_| vec![]);
    }
}

/// Returns the members of a recorded payload that another one has not, or has with another value.
fn lost(path: &str, recorded: &Value, written: &Value) -> Vec<String> {
    match (recorded, written) {
        (Value::Object(members), Value::Object(others)) => {
            let of = |(name, value): (&String, &Value)| {
                lost(&format!("{path}.{name}"), value, others.get(name).unwrap_or(&Value::Null))
            };
            members.iter().flat_map(of).collect()
        }
        (Value::Array(items), Value::Array(others)) if items.len() == others.len() => {
            items.iter().zip(others).flat_map(|(item, other)| lost(&format!("{path}[]"), item, other)).collect()
        }
        (recorded, written) if recorded == written => vec![],
        (recorded, written) => vec![format!("{path}: {recorded} is written as {written}")],
    }
}

#[test]
fn every_event_that_was_ever_written_is_read() {
    let lines: Vec<Line> =
        include_str!("recorded.jsonl").lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let names: BTreeSet<String> = lines.iter().map(|line| line.r#type.clone()).collect();
    let mut reader = Reader { lines, failures: vec![], types: BTreeSet::new() };
    catalog::visit(&mut reader);
    let gone = names.difference(&reader.types).map(|name| format!("{name} is not read any more"));
    reader.failures.extend(gone);
    assert!(reader.failures.is_empty(), "(tests/record-events adds what is missing)\n{}", reader.failures.join("\n"));
}
