//! Converts events to the API. Secrets are never shown.

use domain::{
    catalog::{is_event_type, without_secrets},
    person::without_sealed,
};
use eventlog::record::Recorded;
use proto::event::Event;
use serde_json::{Map, Value};

use crate::details;

/// Converts an event without personal data.
pub fn closed(recorded: Recorded) -> Event {
    let mut payload = payload(&recorded);
    without_sealed(&mut payload);
    opened(recorded, payload)
}

/// Converts an event with its [`payload`] in which personal data was opened, for a reader who may see it.
pub fn opened(recorded: Recorded, mut payload: Value) -> Event {
    let owner = recorded.owner();
    let event = recorded.event;
    without_secrets(&mut payload);
    Event {
        sequence: recorded.sequence,
        r#type: event.r#type,
        aggregate_type: event.aggregate_type,
        aggregate_id: event.aggregate_id,
        version: event.version,
        instance_id: event.instance_id,
        resource_owner: Some(details::owner(&owner)),
        actor_id: event.actor,
        creation_date: Some(recorded.committed_at.into()),
        payload: payload.to_string(),
    }
}

/// Returns the payload, including secret and sealed members. For an event type that this node does not know it is
/// empty, because its secret members are not known either.
pub fn payload(recorded: &Recorded) -> Value {
    if !is_event_type(&recorded.event.r#type) {
        return Value::Object(Map::new());
    }
    serde_json::from_slice(&recorded.event.payload).unwrap_or_default()
}
