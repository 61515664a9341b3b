//! Events in the API's words. What is secret is told to nobody.

use domain::{
    catalog::{is_event_type, without_secrets},
    person::without_sealed,
};
use eventlog::record::Recorded;
use proto::event::Event;
use serde_json::{Map, Value};

use crate::details;

/// An event as its readers see it, without what is personal.
pub fn closed(recorded: Recorded) -> Event {
    let mut payload = payload(&recorded);
    without_sealed(&mut payload);
    opened(recorded, payload)
}

/// An event as somebody sees it to whom what is personal is shown: with its [`payload`] in which that was opened.
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

/// The payload, with what is secret and what is sealed. Of an event that this node does not know it does not know what is secret:
/// then it is empty.
pub fn payload(recorded: &Recorded) -> Value {
    if !is_event_type(&recorded.event.r#type) {
        return Value::Object(Map::new());
    }
    serde_json::from_slice(&recorded.event.payload).unwrap_or_default()
}
