//! Messages that targets get as JSON, and into which their answers are merged.

use action::{chain::Content, client::CallFailure};
use bytes::Bytes;
use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};
use proto::option::is_secret;
use serde_json::{Map, Value};

use crate::{described::POOL, error::Error, message::AnyMessage};

/// The member of a payload that holds the request, and the field of a request that names its context.
pub(super) const REQUEST: &str = "request";
const CONTEXT: &str = "ctx";

/// A message while targets are called with it.
pub(super) struct Merged<'a> {
    message: &'a mut dyn AnyMessage,
    /// The message in JSON.
    tree: Map<String, Value>,
    descriptor: MessageDescriptor,
    /// The member of the payload that holds it, and the other members.
    member: &'static str,
    about: Map<String, Value>,
    /// Whether a target has changed it.
    pub(super) is_changed: bool,
}

/// Converts a message to the form that targets get.
pub(super) fn to_json(message: &dyn AnyMessage, name: &str) -> Result<Value, Error> {
    let (descriptor, mut tree) = described(message, name)?;
    hide(&descriptor, &mut tree);
    Ok(Value::Object(tree))
}

fn described(message: &dyn AnyMessage, name: &str) -> Result<(MessageDescriptor, Map<String, Value>), Error> {
    let descriptor = POOL.get_message_by_name(name).ok_or_else(|| Error::internal(&Undescribed))?;
    let mut text = Vec::new();
    message.write_json(&mut text)?;
    let tree = serde_json::from_slice(&text).map_err(|failure| Error::internal(&failure))?;
    Ok((descriptor, tree))
}

/// Removes what only the caller may see.
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

impl<'a> Merged<'a> {
    pub(super) fn new(
        message: &'a mut dyn AnyMessage,
        name: &str,
        member: &'static str,
        about: Map<String, Value>,
    ) -> Result<Self, Error> {
        let (descriptor, tree) = described(message, name)?;
        Ok(Self { message, tree, descriptor, member, about, is_changed: false })
    }
}

#[derive(Debug, thiserror::Error)]
#[error("a message has no descriptor")]
struct Undescribed;

impl Content for Merged<'_> {
    fn payload(&self) -> Bytes {
        let (mut payload, mut tree) = (self.about.clone(), self.tree.clone());
        hide(&self.descriptor, &mut tree);
        payload.insert(self.member.to_owned(), Value::Object(tree));
        // Maps of JSON values are always written.
        serde_json::to_vec(&payload).unwrap_or_default().into()
    }

    fn merge(&mut self, answer: Map<String, Value>) -> Result<(), CallFailure> {
        let mut merged = self.tree.clone();
        merge(&self.descriptor, &mut merged, answer)?;
        // The caller's rights, and the targets to call, were decided by the context.
        if self.member == REQUEST && merged.get(CONTEXT) != self.tree.get(CONTEXT) {
            return Err(CallFailure::Malformed(format!("it changes {CONTEXT}, which only the caller may set")));
        }
        // A wrong type is the fault of this target, not of a later one.
        self.message.become_tree(merged.clone()).map_err(|unread| CallFailure::Malformed(unread.to_string()))?;
        self.tree = merged;
        self.is_changed = true;
        Ok(())
    }
}

/// Merges the members of an answer into a message: messages member by member, everything else as one value. `null`
/// removes a member, and a member of a oneof removes its alternatives.
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

/// The type of the single message that a field holds, if it has members.
fn nested(field: &FieldDescriptor) -> Option<MessageDescriptor> {
    message_of(field).filter(|_| !field.is_list() && !field.is_map())
}

/// The type of the message that a field holds, if it has members.
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
        let mut request: CreateTargetRequest = serde_json::from_value(message).unwrap();
        let name = "platform.resources.action.v3alpha.CreateTargetRequest";
        let mut merged = Merged::new(&mut request, name, "request", Map::new()).unwrap();
        let Value::Object(answer) = answer else { panic!("it is an object") };
        merged.merge(answer).map_err(|failure| failure.to_string())?;
        Ok(serde_json::to_value(request).unwrap()["target"].clone())
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
        let mut answer = CreateTargetResponse { details: None, signing_key: "of the caller".into() };
        let came = answer.clone();
        let name = "platform.resources.action.v3alpha.CreateTargetResponse";
        assert_eq!(to_json(&answer, name).unwrap(), json!({}));
        let mut merged = Merged::new(&mut answer, name, "response", Map::new()).unwrap();
        assert_eq!(merged.payload(), r#"{"response":{}}"#);
        for member in ["signingKey", "signing_key"] {
            let Value::Object(changed) = json!({ member: "of the target" }) else { panic!("it is an object") };
            assert!(merged.merge(changed).is_err());
        }
        assert_eq!(answer, came);
    }

    #[test]
    fn a_target_does_not_change_where_a_request_is_done() {
        let message = json!({ "ctx": { "orgId": "1" }, "organization": { "name": "a" } });
        let request: CreateOrganizationRequest = serde_json::from_value(message).unwrap();
        let merged = |answer: Value| {
            let name = "platform.resources.organization.v3alpha.CreateOrganizationRequest";
            let mut request = request.clone();
            let mut merged = Merged::new(&mut request, name, REQUEST, Map::new()).unwrap();
            let Value::Object(answer) = answer else { panic!("it is an object") };
            merged.merge(answer).map(|()| request)
        };
        for changed in [json!({ "orgId": "2" }), json!({ "org_id": "2" }), json!({ "system": true }), Value::Null] {
            let refused = merged(json!({ "ctx": changed })).unwrap_err();
            assert!(refused.to_string().contains("ctx"), "{refused}");
        }
        let same = merged(json!({ "ctx": { "orgId": "1" }, "organization": { "name": "b" } })).unwrap();
        assert_eq!((same.ctx, same.organization.unwrap().name), (request.ctx.clone(), "b".to_owned()));
    }

    #[test]
    fn what_does_not_fit_leaves_what_others_have_made() {
        let mut request = CreateTargetRequest::default();
        let name = "platform.resources.action.v3alpha.CreateTargetRequest";
        let mut merged = Merged::new(&mut request, name, REQUEST, Map::new()).unwrap();
        let mut merge = |answer: Value| {
            let Value::Object(answer) = answer else { panic!("it is an object") };
            merged.merge(answer).map_err(|failure| failure.to_string())
        };
        merge(json!({ "target": { "name": "first" } })).unwrap();
        let refused = merge(json!({ "target": { "name": "second", "timeout": 1 } })).unwrap_err();
        assert!(refused.contains("target.timeout must be "), "{refused}");
        assert_eq!(merged.payload(), r#"{"request":{"target":{"name":"first"}}}"#);
        assert_eq!(request.target.unwrap().name, "first");
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
