//! Messages as their proto files describe them: which of their fields hold secrets.

use std::{
    collections::{HashMap, HashSet},
    sync::LazyLock,
};

use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, Kind, MessageDescriptor, ReflectMessage, Value};
use proto::{operation::OPERATIONS, option::is_secret};

/// All of them.
pub(crate) static POOL: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(proto::DESCRIPTORS).expect("the build has made them"));

/// The requests that hold secrets, by their names.
static WITH_SECRETS: LazyLock<HashMap<&str, MessageDescriptor>> = LazyLock::new(|| {
    let described =
        OPERATIONS.iter().filter_map(|facts| Some((facts.request, POOL.get_message_by_name(facts.request)?)));
    described.filter(|(_, request)| has_secrets(request, &mut HashSet::new())).collect()
});

fn has_secrets(message: &MessageDescriptor, seen: &mut HashSet<String>) -> bool {
    let is_new = seen.insert(message.full_name().to_owned());
    is_new
        && message.fields().any(|field| match field.kind() {
            Kind::Message(inner) => has_secrets(&inner, seen),
            _ => is_secret(&field),
        })
}

/// A request in protobuf, by the name of its message, without what is secret in it. A digest of that can be kept: whoever has it and its
/// key cannot find out a password by trying.
pub fn without_secrets(request: &str, message: Vec<u8>) -> Vec<u8> {
    let Some(descriptor) = WITH_SECRETS.get(request) else { return message };
    let Ok(mut message) = DynamicMessage::decode(descriptor.clone(), message.as_slice()) else { return vec![] };
    hide(&mut message);
    message.encode_to_vec()
}

fn hide(message: &mut DynamicMessage) {
    for field in message.descriptor().fields() {
        if is_secret(&field) {
            message.clear_field(&field);
        } else if message.has_field(&field) {
            match message.get_field_mut(&field) {
                Value::Message(inner) => hide(inner),
                Value::List(items) => items.iter_mut().filter_map(Value::as_message_mut).for_each(hide),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proto::{
        operation::{CREATE_TARGET, CREATE_USER, SET_PASSWORD},
        user::{
            CreateUserRequest, HumanUser, NewPassword, SetPassword, SetPasswordRequest, User, new_password::Kind, user,
        },
    };

    use super::*;

    #[test]
    fn what_is_secret_goes_however_deep_it_is_and_the_rest_stays() {
        let set = |new_password: &str| SetPasswordRequest {
            id: "7".into(),
            password: Some(SetPassword {
                new_password: new_password.into(),
                change_required: true,
                ..SetPassword::default()
            }),
        };
        let without =
            |request: &SetPasswordRequest| without_secrets(SET_PASSWORD.facts.request, request.encode_to_vec());
        assert_eq!(without(&set("a-hive-of-27-bees")), set("").encode_to_vec());
        let create = |kind| {
            let password = Some(NewPassword { kind, change_required: true });
            let human = HumanUser { schema_id: "human".into(), password, ..HumanUser::default() };
            let user = User { username: "ada".into(), r#type: Some(user::Type::Human(human)) };
            CreateUserRequest { user: Some(user), ..CreateUserRequest::default() }.encode_to_vec()
        };
        for kind in [Kind::Password("a-hive-of-27-bees".into()), Kind::Hash("$2b$04$".into())] {
            assert_eq!(without_secrets(CREATE_USER.facts.request, create(Some(kind))), create(None));
        }
        assert_eq!(without_secrets(CREATE_TARGET.facts.request, vec![255]), [255], "it has none");
        assert_eq!(without_secrets(SET_PASSWORD.facts.request, vec![255]), [0; 0], "what cannot be read is not kept");
    }
}
