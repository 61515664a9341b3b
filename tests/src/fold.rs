//! A fold of the log without the platform's own code: by the types of events and their payloads as JSON. It is
//! independent of the projector, so that the projector can be compared with it.

use std::{collections::BTreeMap, sync::Arc};

use eventlog::record::Recorded;
use serde_json::Value;

/// A resource that exists at the end of a log.
#[derive(Debug, Clone, PartialEq)]
pub struct Living {
    /// The owner: the kind of context, as a number, and its id.
    pub owner: (i32, String),
    /// The sequence of its last event.
    pub sequence: u64,
    /// When it was created, in microseconds since the Unix epoch.
    pub created_at: i64,
    /// When its last event was committed, in microseconds since the Unix epoch.
    pub changed_at: i64,
    /// The state.
    pub state: Value,
}

impl Living {
    /// Whether it is a person, of whom the log has ciphertext only.
    pub fn is_person(&self) -> bool {
        self.state["human"].is_object()
    }
}

/// Removes the rows of people, of whom the log has ciphertext only.
pub fn without_people(rows: Vec<String>) -> Vec<String> {
    rows.into_iter().filter(|row| !row.contains("\"human\":{")).collect()
}

/// The instance of a resource, and its id.
pub type FoldKey = (String, String);

/// Returns the resources of a type that exist after these events, without people.
pub fn fold(events: &[Arc<Recorded>], aggregate_type: &str) -> BTreeMap<FoldKey, Living> {
    let mut living: BTreeMap<FoldKey, Living> = BTreeMap::new();
    for recorded in events.iter().filter(|recorded| recorded.event.aggregate_type == aggregate_type) {
        let event = &recorded.event;
        let place = (event.instance_id.clone(), event.aggregate_id.clone());
        let payload = || serde_json::from_slice::<Value>(&event.payload).expect("payloads are JSON");
        let state = match event.r#type.rsplit('.').next() {
            Some("added" | "deactivated" | "reactivated" | "locked" | "unlocked" | "sessions_ended") => payload(),
            Some("changed" | "impersonated") => payload()["to"].take(),
            Some("removed") => {
                living.remove(&place);
                continue;
            }
            _ => panic!("{} is new: say here what it makes of its resource", event.r#type),
        };
        let changed_at = recorded.committed_at.as_microsecond();
        let created_at = living.get(&place).map_or(event.created_at, |before| before.created_at);
        let owner = (event.owner_type, event.owner_id.clone());
        living.insert(place, Living { owner, sequence: recorded.sequence, created_at, changed_at, state });
    }
    living.retain(|_, living| !living.is_person());
    living
}
