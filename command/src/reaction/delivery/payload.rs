//! The body that a target gets for an event.

use std::{collections::HashMap, sync::Arc};

use action::executions::Called;
use bytes::Bytes;
use domain::{
    catalog::{is_event_type, without_secrets},
    person::sealed_in,
    resource::user::User,
    standard::Resource,
};
use eventlog::record::{AggregateKey, Recorded};
use serde::{Deserialize, Serialize};
use serde_json::{
    Map, Value, json,
    value::{RawValue, to_raw_value},
};
use view::persons::{PersonFailure, Persons};

/// An event on its way to a target.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    /// The same whenever it is tried again.
    pub id: String,
    /// The instance.
    pub instance_id: String,
    /// The target.
    pub target_id: String,
    /// Type and id of the aggregate, whose deliveries keep their order.
    pub aggregate: String,
    /// The type of the event.
    pub event_type: String,
    /// The sequence of the event.
    pub sequence: u64,
    /// How many calls of targets it is nested in.
    pub depth: u32,
    /// The W3C `traceparent` that it belongs to.
    pub trace_context: String,
    /// The payload.
    pub body: Box<RawValue>,
}

impl Delivery {
    /// The body with what is personal in clear, as it is when its target is called: absent where the user was removed since.
    pub(super) async fn opened(&self, persons: &Persons) -> Result<Bytes, PersonFailure> {
        let sealed = self.body.get();
        let (aggregate_type, id) = self.aggregate.split_once('/').unwrap_or_default();
        let is_user = aggregate_type == User::NAME;
        let mut body: Value = if is_user { serde_json::from_str(sealed).unwrap_or_default() } else { Value::Null };
        if sealed_in(&mut body["event_payload"]).is_none() {
            return Ok(Bytes::from(sealed.to_owned()));
        }
        let (instance_id, aggregate_type, id) = (self.instance_id.clone(), aggregate_type.to_owned(), id.to_owned());
        let user = AggregateKey { instance_id, aggregate_type, id };
        let payload = body["event_payload"].take();
        body["event_payload"] = persons.opened((&user, self.sequence), payload).await?;
        Ok(Bytes::from(body.to_string()))
    }
}

/// The deliveries of an event to the targets of an execution, one after another. An event that this node does not know has
/// none: a newer one knows what of it may be told.
pub(super) fn deliveries<'a>(
    recorded: &'a Recorded,
    chain: &'a [Arc<Called>],
    depth: u32,
) -> impl Iterator<Item = Delivery> + Send + use<'a> {
    let event = &recorded.event;
    let chain = if is_event_type(&event.r#type) { chain } else { &[] };
    // JSON values are always written.
    let body = to_raw_value(&payload(recorded)).ok();
    let mut named: HashMap<&str, usize> = HashMap::new();
    chain.iter().filter_map(move |called| {
        // A target that is named twice is called twice.
        let before = named.entry(&called.id).or_default();
        let again = if *before == 0 { String::new() } else { format!(".{before}") };
        *before += 1;
        Some(Delivery {
            id: format!("{}.{}{again}", event.id, called.id),
            instance_id: called.instance_id.clone(),
            target_id: called.id.clone(),
            aggregate: format!("{}/{}", event.aggregate_type, event.aggregate_id),
            event_type: event.r#type.clone(),
            sequence: recorded.sequence,
            depth,
            trace_context: event.trace_context.clone(),
            body: body.clone()?,
        })
    })
}

fn payload(recorded: &Recorded) -> Value {
    let event = &recorded.event;
    let mut payload = serde_json::from_slice(&event.payload).unwrap_or_default();
    without_secrets(&mut payload);
    let payload = if payload.is_object() { payload } else { Value::Object(Map::new()) };
    json!({
        "aggregateID": event.aggregate_id,
        "aggregateType": event.aggregate_type,
        "resourceOwner": event.owner_id,
        "instanceID": event.instance_id,
        "version": event.version,
        "sequence": recorded.sequence,
        "event_type": event.r#type,
        "created_at": recorded.committed_at.to_string(),
        "userID": event.actor,
        "event_payload": payload,
    })
}

#[cfg(test)]
mod tests {
    use domain::resource::target::{Mode, Target, TargetKind};
    use eventlog::record::Event;
    use jiff::Timestamp;
    use tokio::sync::Semaphore;

    use super::*;

    #[test]
    fn an_event_that_is_not_known_is_told_to_nobody() {
        let target = Target {
            name: "hook".to_owned(),
            kind: TargetKind::RestWebhook,
            url: "https://example.com".to_owned(),
            timeout_ms: 1000,
            mode: Mode::Continue,
            signing_keys: vec![],
        };
        let (id, seats, share) = ("7".to_owned(), Arc::new(Semaphore::new(1)), Arc::default());
        let chain = [Arc::new(Called { instance_id: "1".to_owned(), id, target, seats, share })];
        for (name, count) in [("target.added", 1), ("target.exploded", 0), ("user.password_set", 0), ("target", 0)] {
            let event = Event { payload: "{}".into(), r#type: name.into(), ..Event::default() };
            let recorded = Recorded { sequence: 7, committed_at: Timestamp::UNIX_EPOCH, event };
            assert_eq!(deliveries(&recorded, &chain, 0).count(), count, "{name}");
        }
    }

    #[test]
    fn a_payload_has_no_secret() {
        let payload_of = |text: &str| {
            let event = Event { payload: text.to_owned().into(), r#type: "target.added".into(), ..Event::default() };
            payload(&Recorded { sequence: 7, committed_at: Timestamp::UNIX_EPOCH, event })
        };
        let told = payload_of(r#"{"to":{"name":"x","signing_keys":[{"sealed":"s","valid_until":1}],"secret":"h"}}"#);
        assert_eq!(told["event_payload"], json!({ "to": { "name": "x", "signing_keys": [{ "valid_until": 1 }] } }));
        assert_eq!((&told["sequence"], &told["created_at"]), (&json!(7), &json!("1970-01-01T00:00:00Z")));
        assert_eq!(payload_of("")["event_payload"], json!({}));
    }
}
