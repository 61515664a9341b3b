//! How the answer to an idempotent command is kept: the message, the status where it is not the operation's own, and the
//! context in which it was permitted.

use domain::context::Owner;
use eventlog::record::{owner_of, owner_type};
use prost::Message;

/// They stand behind the message, as fields that no message has: a version that does not know them reads the
/// message all the same.
#[derive(Clone, PartialEq, Message)]
struct Beside {
    #[prost(uint32, optional, tag = "536870911")]
    status: Option<u32>,
    #[prost(int32, optional, tag = "536870910")]
    context_type: Option<i32>,
    #[prost(string, tag = "536870909")]
    context_id: String,
}

/// All of it as bytes.
pub(crate) fn encode(message: &impl Message, status: Option<u16>, context: &Owner) -> Vec<u8> {
    let mut bytes = message.encode_to_vec();
    let (context_type, context_id) = (Some(owner_type(context.kind)), context.id.clone());
    bytes.extend(Beside { status: status.map(u32::from), context_type, context_id }.encode_to_vec());
    bytes
}

/// The status that was kept.
pub(crate) fn status(bytes: &[u8]) -> Option<u16> {
    Beside::decode(bytes).ok()?.status?.try_into().ok()
}

/// The context that was kept; answers of older builds have none.
pub(crate) fn context(bytes: &[u8]) -> Option<Owner> {
    let Beside { context_type, context_id, .. } = Beside::decode(bytes).ok()?;
    Some(owner_of(context_type?, context_id))
}

#[cfg(test)]
mod tests {
    use proto::action::PutExecutionResponse;

    use super::*;

    #[test]
    fn a_status_is_kept_and_does_not_disturb() {
        let details = proto::object::Details { id: "7".into(), sequence: 3, ..Default::default() };
        let message = PutExecutionResponse { details: Some(details) };
        for kept in [None, Some(200)] {
            let bytes = encode(&message, kept, &Owner::organization("7"));
            assert_eq!((PutExecutionResponse::decode(&bytes[..]), status(&bytes)), (Ok(message.clone()), kept));
            assert_eq!(context(&bytes), Some(Owner::organization("7")));
        }
    }
}
