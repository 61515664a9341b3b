//! A message that targets see as JSON, and onto which their answers are merged.

use std::{marker::PhantomData, sync::LazyLock};

use action::{chain::Content, client::CallFailure};
use bytes::Bytes;
use prost_reflect::{DescriptorPool, FieldDescriptor, Kind, MessageDescriptor};
use proto::option::is_secret;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::error::Error;

static POOL: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(proto::DESCRIPTORS).expect("the build has made them"));

/// The member of a payload that a request is, and the field of a request that says which context it is about.
pub(super) const REQUEST: &str = "request";
const CONTEXT: &str = "ctx";

/// A message while targets are called with it.
pub(super) struct Merged<M> {
    message: Map<String, Value>,
    descriptor: MessageDescriptor,
    /// The member of the payload that it is, and the others.
    member: &'static str,
    about: Map<String, Value>,
    /// Whether a target has changed it.
    pub(super) is_changed: bool,
    types: PhantomData<fn() -> M>,
}

/// A message as targets are told of it.
pub(super) fn told(message: &impl Serialize, name: &str) -> Result<Value, Error> {
    let (descriptor, mut message) = described(message, name)?;
    hide(&descriptor, &mut message);
    Ok(Value::Object(message))
}

fn described(message: &impl Serialize, name: &str) -> Result<(MessageDescriptor, Map<String, Value>), Error> {
    let descriptor = POOL.get_message_by_name(name).ok_or_else(|| Error::internal(&Undescribed))?;
    match serde_json::to_value(message).map_err(|failure| Error::internal(&failure))? {
        Value::Object(message) => Ok((descriptor, message)),
        _ => Err(Error::internal(&Undescribed)),
    }
}

/// Takes out what only its caller may see.
fn hide(descriptor: &MessageDescriptor, message: &mut Map<String, Value>) {
    for field in descriptor.fields() {
        if is_secret(&field) {
            message.remove(field.json_name());
        } else if let (Some(nested), Some(value)) = (message_of(&field), message.get_mut(field.json_name())) {
            let of_list = value.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut);
            of_list.for_each(|item| hide(&nested, item));
            if let Value::Object(members) = value
                && !field.is_map()
            {
                hide(&nested, members);
            }
        }
    }
}

impl<M: Serialize + DeserializeOwned> Merged<M> {
    pub(super) fn new(
        message: &M,
        name: &str,
        (member, about): (&'static str, Map<String, Value>),
    ) -> Result<Self, Error> {
        let (descriptor, message) = described(message, name)?;
        Ok(Self { message, descriptor, member, about, is_changed: false, types: PhantomData })
    }

    /// The message as the targets have made it.
    pub(super) fn read(self) -> Result<M, Error> {
        serde_json::from_value(Value::Object(self.message)).map_err(|failure| Error::internal(&failure))
    }
}

#[derive(Debug, thiserror::Error)]
#[error("a message has no description")]
struct Undescribed;

impl<M: Serialize + DeserializeOwned> Content for Merged<M> {
    fn payload(&self) -> Bytes {
        let (mut payload, mut message) = (self.about.clone(), self.message.clone());
        hide(&self.descriptor, &mut message);
        payload.insert(self.member.to_owned(), Value::Object(message));
        // Maps of JSON values are always written.
        serde_json::to_vec(&payload).unwrap_or_default().into()
    }

    fn merge(&mut self, answer: Map<String, Value>) -> Result<(), CallFailure> {
        let mut merged = self.message.clone();
        merge(&self.descriptor, &mut merged, answer)?;
        // It was decided on the context whether the caller may do this, and whose targets are called.
        if self.member == REQUEST && merged.get(CONTEXT) != self.message.get(CONTEXT) {
            return Err(CallFailure::Malformed(format!("it changes {CONTEXT}, which only the caller says")));
        }
        // What is of the wrong type is the fault of this target, not of a later one.
        serde_json::from_value::<M>(Value::Object(merged.clone()))
            .map_err(|error| CallFailure::Malformed(error.to_string()))?;
        self.message = merged;
        self.is_changed = true;
        Ok(())
    }
}

/// Merges the members of an answer onto a message: messages member by member, everything else as a whole. `null` takes a
/// member out, and a member of a oneof takes the others out.
fn merge(
    descriptor: &MessageDescriptor,
    message: &mut Map<String, Value>,
    answer: Map<String, Value>,
) -> Result<(), CallFailure> {
    for (name, value) in answer {
        let by_name = || descriptor.get_field_by_name(&name);
        let field = descriptor.get_field_by_json_name(&name).or_else(by_name);
        let Some(field) = field.filter(|field| !is_secret(field)) else {
            return Err(CallFailure::Malformed(format!("{} has no member {name}", descriptor.name())));
        };
        let known = field.json_name();
        if value.is_null() {
            message.remove(known);
            continue;
        }
        for other in field.containing_oneof().into_iter().flat_map(|oneof| oneof.fields().collect::<Vec<_>>()) {
            if other.number() != field.number() {
                message.remove(other.json_name());
            }
        }
        match (nested(&field), message.get_mut(known), value) {
            (Some(nested), Some(Value::Object(current)), Value::Object(members)) => merge(&nested, current, members)?,
            (_, _, value) => drop(message.insert(known.to_owned(), value)),
        }
    }
    Ok(())
}

/// The message that a field holds alone, if it is one with members.
fn nested(field: &FieldDescriptor) -> Option<MessageDescriptor> {
    message_of(field).filter(|_| !field.is_list() && !field.is_map())
}

/// The message that a field holds, if it is one with members.
fn message_of(field: &FieldDescriptor) -> Option<MessageDescriptor> {
    match field.kind() {
        Kind::Message(message) => (!message.full_name().starts_with("google.protobuf.")).then_some(message),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proto::{
        action::{CreateTargetRequest, CreateTargetResponse},
        organization::CreateOrganizationRequest,
    };
    use serde_json::json;

    use super::*;

    fn merged(answer: Value) -> Result<Value, String> {
        let message = json!({ "target": {
            "name": "hook", "restWebhook": { "url": "https://a.example" }, "timeout": "3s", "isAsync": true
        } });
        let request: CreateTargetRequest = serde_json::from_value(message).unwrap();
        let name = "platform.resources.action.v3alpha.CreateTargetRequest";
        let mut merged = Merged::new(&request, name, ("request", Map::new())).unwrap();
        let Value::Object(answer) = answer else { panic!("it is an object") };
        merged.merge(answer).map_err(|failure| failure.to_string())?;
        Ok(serde_json::to_value(merged.read().unwrap()).unwrap()["target"].clone())
    }

    #[test]
    fn an_answer_is_merged_member_by_member() {
        let target = |answer: Value| merged(json!({ "target": answer }));
        let hook =
            |url: &str| json!({ "name": "hook", "restWebhook": { "url": url }, "timeout": "3s", "isAsync": true });
        assert_eq!(merged(json!({})).unwrap(), hook("https://a.example"));
        let by_either_name = json!({ "rest_webhook": { "url": "https://b.example" } });
        assert_eq!(target(by_either_name).unwrap(), hook("https://b.example"));
        let other = target(json!({ "restRequestResponse": { "url": "https://c.example" }, "interruptOnError": true }));
        let expected = json!({ "name": "hook", "restRequestResponse": { "url": "https://c.example" }, "timeout": "3s",
            "interruptOnError": true });
        assert_eq!(other.unwrap(), expected);
        let without = target(json!({ "timeout": null, "isAsync": false, "name": "" })).unwrap();
        assert_eq!(without, json!({ "restWebhook": { "url": "https://a.example" }, "isAsync": false }));
    }

    #[test]
    fn a_secret_is_neither_told_nor_changed() {
        let answer = CreateTargetResponse { details: None, signing_key: "of the caller".into() };
        let name = "platform.resources.action.v3alpha.CreateTargetResponse";
        assert_eq!(told(&answer, name).unwrap(), json!({}));
        let mut merged = Merged::new(&answer, name, ("response", Map::new())).unwrap();
        assert_eq!(merged.payload(), r#"{"response":{}}"#);
        for member in ["signingKey", "signing_key"] {
            let Value::Object(changed) = json!({ member: "of the target" }) else { panic!("it is an object") };
            assert!(merged.merge(changed).is_err());
        }
        assert_eq!(merged.read().unwrap(), answer);
    }

    #[test]
    fn a_target_does_not_change_where_a_request_is_done() {
        let message = json!({ "ctx": { "orgId": "1" }, "organization": { "name": "a" } });
        let request: CreateOrganizationRequest = serde_json::from_value(message).unwrap();
        let merged = |answer: Value| {
            let name = "platform.resources.organization.v3alpha.CreateOrganizationRequest";
            let mut merged = Merged::new(&request, name, (REQUEST, Map::new())).unwrap();
            let Value::Object(answer) = answer else { panic!("it is an object") };
            merged.merge(answer).map(|()| merged.read().unwrap())
        };
        for changed in [json!({ "orgId": "2" }), json!({ "org_id": "2" }), json!({ "system": true }), Value::Null] {
            let refused = merged(json!({ "ctx": changed })).unwrap_err();
            assert!(refused.to_string().contains("ctx"), "{refused}");
        }
        let same = merged(json!({ "ctx": { "orgId": "1" }, "organization": { "name": "b" } })).unwrap();
        assert_eq!((same.ctx, same.organization.unwrap().name), (request.ctx.clone(), "b".to_owned()));
    }

    #[test]
    fn what_does_not_fit_is_told() {
        for wrong in [
            json!({ "nothing": 1 }),
            json!({ "target": { "nothing": 1 } }),
            json!({ "target": { "name": 1 } }),
            json!({ "target": [] }),
            json!({ "target": { "timeout": "soon" } }),
        ] {
            assert!(merged(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
