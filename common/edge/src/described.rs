//! Messages as their proto files describe them: which of their fields hold secrets.

use std::{
    collections::{HashMap, HashSet},
    sync::LazyLock,
};

use prost::{decode_length_delimiter, encode_length_delimiter};
use prost_reflect::{DescriptorPool, Kind, MessageDescriptor};
use proto::{operation::OPERATIONS, option::is_secret};

/// The descriptors of all messages.
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
        && message
            .fields()
            .any(|field| is_secret(&field) || matches!(field.kind(), Kind::Message(inner) if has_secrets(&inner, seen)))
}

/// Removes the secrets from a request in protobuf, given the name of its message. A digest of the rest can be stored:
/// it helps nobody to find a password by trying. The rest stays in place, so the same request has the same digest.
pub fn without_secrets(request: &str, message: Vec<u8>) -> Vec<u8> {
    let Some(descriptor) = WITH_SECRETS.get(request) else { return message };
    let mut left = Vec::with_capacity(message.len());
    // What cannot be parsed is dropped.
    copy(descriptor, &message, &mut left).map_or_else(Vec::new, |()| left)
}

/// Copies the fields of a message that are not secret; `None` if it is malformed.
fn copy(descriptor: &MessageDescriptor, mut message: &[u8], left: &mut Vec<u8>) -> Option<()> {
    while !message.is_empty() {
        let begin = message;
        let key = decode_length_delimiter(&mut message).ok()?;
        let after_key = message;
        let length = match key & 7 {
            0 => decode_length_delimiter(&mut message).ok().map(|_| 0)?,
            1 => 8,
            2 => decode_length_delimiter(&mut message).ok()?,
            5 => 4,
            _ => return None,
        };
        let (content, rest) = message.split_at_checked(length)?;
        message = rest;
        let field = u32::try_from(key >> 3).ok().and_then(|number| descriptor.get_field(number));
        match field.map(|field| (is_secret(&field), field.kind())) {
            Some((true, _)) => {}
            Some((false, Kind::Message(inner))) if key & 7 == 2 => {
                let mut nested = vec![];
                copy(&inner, content, &mut nested)?;
                left.extend_from_slice(&begin[..begin.len() - after_key.len()]);
                encode_length_delimiter(nested.len(), left).ok()?;
                left.append(&mut nested);
            }
            _ => left.extend_from_slice(&begin[..begin.len() - rest.len()]),
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use prost::Message;
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
            let password = Some(NewPassword { kind, change_required: true, ..NewPassword::default() });
            // Members of a map have an order that must stay.
            let data: serde_json::Map<_, _> = (0..20).map(|number| (number.to_string(), number.into())).collect();
            let (schema_id, data) = ("human".into(), Some(data.into()));
            let human = HumanUser { schema_id, data, password, ..HumanUser::default() };
            let user = User { username: "ada".into(), r#type: Some(user::Type::Human(human)) };
            CreateUserRequest { user: Some(user), ..CreateUserRequest::default() }.encode_to_vec()
        };
        for kind in [Kind::Password("a-hive-of-27-bees".into()), Kind::Hash("$2b$04$".into())] {
            assert_eq!(without_secrets(CREATE_USER.facts.request, create(Some(kind))), create(None));
        }
        assert_eq!(without_secrets(CREATE_TARGET.facts.request, vec![255]), [255], "it has none");
        let cut_off = create(None);
        for length in 0..cut_off.len() {
            without_secrets(CREATE_USER.facts.request, cut_off[..length].to_vec());
        }
        assert_eq!(without_secrets(SET_PASSWORD.facts.request, vec![255]), [0; 0], "what cannot be read is not kept");
    }
}
