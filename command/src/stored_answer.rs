//! The stored answer to an idempotent command: the message, the status where it is not the operation's own, and the
//! place in which a role permitted it.

use domain::context::{Part, PartKind, RolePlace};
use eventlog::record::{owner_of, owner_type};
use prost::Message;

/// What is stored after the message, as fields that no message has: a version that does not know them still reads the
/// message.
#[derive(Clone, PartialEq, Message)]
struct Addition {
    #[prost(uint32, optional, tag = "536870911")]
    status: Option<u32>,
    #[prost(int32, optional, tag = "536870910")]
    context_type: Option<i32>,
    #[prost(string, tag = "536870909")]
    context_id: String,
    #[prost(string, repeated, tag = "536870908")]
    projects: Vec<String>,
    #[prost(string, repeated, tag = "536870907")]
    project_grants: Vec<String>,
}

/// Adds status and place to a message in protobuf.
pub(crate) fn encode(mut message: Vec<u8>, status: Option<u16>, place: Option<&RolePlace>) -> Vec<u8> {
    let mut addition = Addition { status: status.map(u32::from), ..Addition::default() };
    if let Some(RolePlace { context, parts }) = place {
        addition.context_type = Some(owner_type(context.kind));
        addition.context_id.clone_from(&context.id);
        let of = |kind| parts.iter().filter(move |part| part.kind == kind).map(|part| part.id.clone()).collect();
        (addition.projects, addition.project_grants) = (of(PartKind::Project), of(PartKind::ProjectGrant));
    }
    message.extend(addition.encode_to_vec());
    message
}

/// Returns the status that was stored.
pub(crate) fn status(bytes: &[u8]) -> Option<u16> {
    Addition::decode(bytes).ok()?.status?.try_into().ok()
}

/// Returns the place that was stored; answers of older builds have none, and neither have those that the token of an
/// object permitted.
pub(crate) fn place(bytes: &[u8]) -> Option<RolePlace> {
    let Addition { context_type, context_id, projects, project_grants, .. } = Addition::decode(bytes).ok()?;
    let granted = project_grants.into_iter().map(Part::project_grant);
    let parts = projects.into_iter().map(Part::project).chain(granted).collect();
    Some(RolePlace { context: owner_of(context_type?, context_id), parts })
}

#[cfg(test)]
mod tests {
    use domain::context::Owner;
    use proto::action::PutExecutionResponse;

    use super::*;

    #[test]
    fn a_status_is_stored_and_does_not_disturb() {
        let details = proto::object::Details { id: "7".into(), sequence: 3, ..Default::default() };
        let message = PutExecutionResponse { details: Some(details) };
        for stored in [None, Some(200)] {
            let parts = vec![Part::project("8"), Part::project_grant("9")];
            let permitted = RolePlace { context: Owner::organization("7"), parts };
            let bytes = encode(message.encode_to_vec(), stored, Some(&permitted));
            assert_eq!((PutExecutionResponse::decode(&bytes[..]), status(&bytes)), (Ok(message.clone()), stored));
            assert_eq!(place(&bytes), Some(permitted));
            assert_eq!(place(&encode(message.encode_to_vec(), stored, None)), None);
        }
    }
}
