//! The body that a target gets for an event.

use std::{collections::HashMap, sync::Arc};

use action::executions::CallableTarget;
use base::fault;
use bytes::Bytes;
use domain::{
    aggregate::Aggregate,
    catalog::{is_event_type, without_secrets},
    failed_event::FailedEvent,
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
use view::{
    database::{Database, DatabaseFailure},
    failed_event::decided::event,
    history::Needs,
    persons::{PersonFailure, Persons},
};

/// An event on its way to a target.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Delivery {
    /// The id, which is the same for every try.
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
    /// The W3C `traceparent` that the event belongs to.
    pub trace_context: String,
    /// The payload. It is absent if the build that queued the delivery did not know the event; then it is made upon
    /// delivery, by a build that knows what of the event may be disclosed. Earlier builds cannot read a delivery
    /// without it, and leave it in the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<Box<RawValue>>,
}

/// Why a body cannot be made at the moment.
#[derive(Debug, thiserror::Error)]
pub(super) enum BodyFailure {
    #[error("personal data cannot be decrypted")]
    Person(#[from] PersonFailure),
    #[error(transparent)]
    Database(#[from] DatabaseFailure),
    #[error("history does not have the event yet")]
    HistoryLags,
    #[error("history has no such event")]
    Absent,
    #[error("this build does not know events of the type {0}; a newer one does")]
    Unknown(String),
}

impl BodyFailure {
    /// Whether something is temporarily unavailable, and nothing is wrong with the body itself. Waiting for that does
    /// not count as a try.
    pub(super) fn is_outage(&self) -> bool {
        match self {
            Self::Person(PersonFailure::Database(failure)) | Self::Database(failure) => {
                !failure.is_of_values() && !matches!(failure, DatabaseFailure::Inconsistent { .. })
            }
            Self::Person(PersonFailure::Unopened | PersonFailure::DataKey(_)) | Self::Absent | Self::Unknown(_) => {
                false
            }
            Self::Person(_) | Self::HistoryLags => true,
        }
    }
}

impl Delivery {
    /// Returns the body for a call of the target; `None` if no target may get the event. One that is not in the queue is
    /// read from history, and then stays for the next try.
    pub(super) async fn complete(
        &mut self,
        database: &Database,
        persons: &Persons,
        shard: u16,
    ) -> Result<Option<Bytes>, BodyFailure> {
        let body = match &self.body {
            Some(body) => body,
            None => match self.read(database, shard).await? {
                Some(read) => self.body.insert(read),
                None => return Ok(None),
            },
        };
        let sealed = body.get().to_owned();
        Ok(Some(self.opened(sealed, persons).await?))
    }

    /// Reads the body from history; `None` if no target may get the event.
    async fn read(&self, database: &Database, shard: u16) -> Result<Option<Box<RawValue>>, BodyFailure> {
        if !is_known(&self.event_type) {
            return Err(BodyFailure::Unknown(self.event_type.clone()));
        }
        let Some(recorded) = event(database, &self.key(), self.sequence).await? else {
            return Err(absent(database, shard, self.sequence).await?);
        };
        let body = || to_raw_value(&payload(&recorded)).expect("JSON values are always written");
        Ok(may_be_delivered(&recorded).then(body))
    }

    /// Decrypts the personal data in a body; it is absent if the user was removed since.
    async fn opened(&self, sealed: String, persons: &Persons) -> Result<Bytes, PersonFailure> {
        let user = self.key();
        let is_user = user.aggregate_type == User::NAME;
        let mut body: Value = if is_user { serde_json::from_str(&sealed).unwrap_or_default() } else { Value::Null };
        if sealed_in(&mut body["event_payload"]).is_none() {
            return Ok(Bytes::from(sealed));
        }
        let payload = body["event_payload"].take();
        body["event_payload"] = persons.opened(&user, self.sequence, payload).await?;
        Ok(Bytes::from(body.to_string()))
    }

    /// Returns the key of the aggregate of the event.
    pub(super) fn key(&self) -> AggregateKey {
        let (aggregate_type, id) = self.aggregate.split_once('/').unwrap_or_default();
        let (aggregate_type, id) = (aggregate_type.to_owned(), id.to_owned());
        AggregateKey { instance_id: self.instance_id.clone(), aggregate_type, id }
    }
}

/// Returns why history does not have the event of a sequence.
async fn absent(database: &Database, shard: u16, sequence: u64) -> Result<BodyFailure, DatabaseFailure> {
    let history = database.within(Needs::default().load(database, shard, None)).await?;
    let has_passed = history.is_some_and(|history| history.checkpoints.events.position.sequence >= sequence);
    Ok(if has_passed { BodyFailure::Absent } else { BodyFailure::HistoryLags })
}

/// Whether this build knows what of an event of this type may be disclosed.
fn is_known(event_type: &str) -> bool {
    is_event_type(event_type) && !fault::does_not_know(event_type)
}

/// Whether targets may get an event. Decisions about deliveries are excluded: they would lead to more deliveries,
/// without an end.
pub(super) fn may_be_delivered(recorded: &Recorded) -> bool {
    recorded.is_for_instance() && recorded.event.aggregate_type != FailedEvent::NAME
}

/// Returns the deliveries of an event to the targets of an execution, in order. Deliveries of an event that this build
/// does not know have no body: they wait for a newer build, which knows what of the event may be disclosed.
pub(super) fn deliveries<'a>(
    recorded: &'a Recorded,
    chain: &'a [Arc<CallableTarget>],
    depth: u32,
) -> impl Iterator<Item = Delivery> + Send + use<'a> {
    let event = &recorded.event;
    // JSON values are always written.
    let body = is_known(&event.r#type).then(|| to_raw_value(&payload(recorded)).ok()).flatten();
    let mut named: HashMap<&str, usize> = HashMap::new();
    chain.iter().map(move |called| {
        // A target that is named twice is called twice.
        let before = named.entry(&called.id).or_default();
        let again = if *before == 0 { String::new() } else { format!(".{before}") };
        *before += 1;
        Delivery {
            id: format!("{}.{}{again}", event.id, called.id),
            instance_id: called.instance_id.clone(),
            target_id: called.id.clone(),
            aggregate: format!("{}/{}", event.aggregate_type, event.aggregate_id),
            event_type: event.r#type.clone(),
            sequence: recorded.sequence,
            depth,
            trace_context: event.trace_context.clone(),
            body: body.clone(),
        }
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
    fn what_stays_wrong_counts_tries() {
        let unreadable = || DatabaseFailure::Inconsistent { table: "events", instance_id: "1".into(), id: "7".into() };
        let stays = [
            BodyFailure::Database(unreadable()),
            BodyFailure::Person(PersonFailure::Database(unreadable())),
            BodyFailure::Person(PersonFailure::Unopened),
            BodyFailure::Person(PersonFailure::DataKey("1".into())),
            BodyFailure::Absent,
            BodyFailure::Unknown("gadget.added".into()),
        ];
        assert!(!stays.iter().any(BodyFailure::is_outage));
        let passes = [
            BodyFailure::Database(DatabaseFailure::Silent),
            BodyFailure::Person(PersonFailure::Database(DatabaseFailure::Silent)),
            BodyFailure::HistoryLags,
        ];
        assert!(passes.iter().all(BodyFailure::is_outage));
    }

    #[test]
    fn an_event_that_is_not_known_is_queued_without_a_body() {
        let target = Target {
            name: "hook".to_owned(),
            kind: TargetKind::RestWebhook,
            url: "https://example.com".to_owned(),
            timeout_ms: 1000,
            mode: Mode::Continue,
            signing_keys: vec![],
        };
        let (id, seats, share) = ("7".to_owned(), Arc::new(Semaphore::new(1)), Arc::default());
        let chain = [Arc::new(CallableTarget { instance_id: "1".to_owned(), id, target, seats, share })];
        let unknown = ["target.exploded", "gadget.added", "user.password_set", "target"].map(|name| (name, false));
        for (name, is_told) in [("target.added", true)].into_iter().chain(unknown) {
            let event = Event { payload: "{}".into(), r#type: name.into(), ..Event::default() };
            let recorded = Recorded { sequence: 7, committed_at: Timestamp::UNIX_EPOCH, event };
            let made: Vec<_> = deliveries(&recorded, &chain, 0).collect();
            assert_eq!((made.len(), made[0].body.is_some()), (1, is_told), "{name}");
            let written = serde_json::to_string(&made[0]).expect("it can be written");
            assert_eq!(written.contains("\"body\""), is_told, "earlier builds cannot read it");
            let read: Delivery = serde_json::from_str(&written).expect("it can be read");
            assert_eq!(read.body.is_some(), is_told);
        }
    }

    #[test]
    fn nobody_is_told_of_what_is_decided_about_deliveries() {
        for (name, is_told) in [("target", true), (FailedEvent::NAME, false)] {
            let event = Event { aggregate_type: name.into(), instance_id: "1".into(), ..Event::default() };
            let recorded = Recorded { sequence: 7, committed_at: Timestamp::UNIX_EPOCH, event };
            assert_eq!(may_be_delivered(&recorded), is_told, "{name}");
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
