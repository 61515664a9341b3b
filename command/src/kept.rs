//! How the answer to an idempotent command is kept: the message, and the status where it is not the operation's own.

use prost::Message;

/// The status stands behind the message, as a field that no message has: a version that does not know it reads the
/// message all the same.
#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(uint32, optional, tag = "536870911")]
    status: Option<u32>,
}

/// A message and its status as bytes.
pub(crate) fn encode(message: &impl Message, status: Option<u16>) -> Vec<u8> {
    let mut bytes = message.encode_to_vec();
    bytes.extend(Status { status: status.map(u32::from) }.encode_to_vec());
    bytes
}

/// The status that was kept.
pub(crate) fn status(bytes: &[u8]) -> Option<u16> {
    Status::decode(bytes).ok()?.status?.try_into().ok()
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
            let bytes = encode(&message, kept);
            assert_eq!((PutExecutionResponse::decode(&bytes[..]), status(&bytes)), (Ok(message.clone()), kept));
        }
    }
}
