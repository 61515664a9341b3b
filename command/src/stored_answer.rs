//! The stored answer to an idempotent command: the message, the status where it is not the operation's own, and the
//! context in which a role permitted it.

use domain::context::Owner;
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
}

/// Adds status and context to a message in protobuf.
pub(crate) fn encode(mut message: Vec<u8>, status: Option<u16>, context: Option<&Owner>) -> Vec<u8> {
    let (context_type, context_id) = context.map(|context| (owner_type(context.kind), context.id.clone())).unzip();
    let context_id = context_id.unwrap_or_default();
    message.extend(Addition { status: status.map(u32::from), context_type, context_id }.encode_to_vec());
    message
}

/// The status that was stored.
pub(crate) fn status(bytes: &[u8]) -> Option<u16> {
    Addition::decode(bytes).ok()?.status?.try_into().ok()
}

/// The context that was stored; answers of older builds have none, nor what the token of an object permitted.
pub(crate) fn context(bytes: &[u8]) -> Option<Owner> {
    let Addition { context_type, context_id, .. } = Addition::decode(bytes).ok()?;
    Some(owner_of(context_type?, context_id))
}

#[cfg(test)]
mod tests {
    use proto::action::PutExecutionResponse;

    use super::*;

    #[test]
    fn a_status_is_stored_and_does_not_disturb() {
        let details = proto::object::Details { id: "7".into(), sequence: 3, ..Default::default() };
        let message = PutExecutionResponse { details: Some(details) };
        for stored in [None, Some(200)] {
            let bytes = encode(message.encode_to_vec(), stored, Some(&Owner::organization("7")));
            assert_eq!((PutExecutionResponse::decode(&bytes[..]), status(&bytes)), (Ok(message.clone()), stored));
            assert_eq!(context(&bytes), Some(Owner::organization("7")));
            assert_eq!(context(&encode(message.encode_to_vec(), stored, None)), None);
        }
    }
}
