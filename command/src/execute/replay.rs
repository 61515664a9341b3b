//! How a repeated request with an `Idempotency-Key` is recognized and answered.

use bytes::Bytes;
use domain::context::RolePlace;
use edge::{
    call::Call, consistency::unavailable, described::without_secrets, error::Error, precondition::IfMatch,
    refusal::permission_denied,
};
use eventlog::record::owner_type;
use proto::operation::Facts;
use view::keyring::Purpose;

use super::{Commands, Encode, Respond};
use crate::{stored_answer, turn::Decided, writer::Once};

/// Binds stored answers to their purpose.
const ANSWER: &str = "answer";

/// Returns what makes a request idempotent, if its caller wants that. `shown` is the hash of a token that it shows,
/// or empty.
pub(super) async fn once(
    commands: &Commands,
    call: &Call,
    request: &Encode<'_>,
    shown: &[u8],
) -> Result<Option<Once<Respond>>, Error> {
    let Some(given) = &call.idempotency_key else { return Ok(None) };
    let (instance_id, operation) = (call.tenant.id.clone(), call.operation);
    let key = commands.keyring.key(&instance_id, Purpose::Answer).await.map_err(unavailable)?;
    let command_id = key.mac(&[instance_id.as_bytes(), call.caller.id.as_bytes(), given.as_bytes()]);
    let if_match = call.if_match.as_ref().map(IfMatch::to_bytes).unwrap_or_default();
    // Keyed, so that nobody can guess from the log what was requested.
    let context = [&owner_type(call.context.kind).to_be_bytes(), call.context.id.as_bytes()].concat();
    // The digest stays in the log, and must not allow anybody to find out a password.
    let asked = without_secrets(call.operation.request, call.original_request(request));
    let mut parts = vec![b"request", call.operation.grpc.as_bytes(), &if_match, &asked, &context];
    // A caller who shows another token does not get the answer that the first token permitted.
    parts.extend((!shown.is_empty()).then_some(shown));
    let request_digest = key.mac(&parts);
    Ok(Some(Once {
        command_id: Bytes::copy_from_slice(&command_id),
        request_digest,
        instance_id,
        answer: Box::new(move |decided, told| {
            let answer = stored_answer::encode(told(decided), status(operation, decided), decided.place.as_ref());
            key.seal_bytes(ANSWER, &answer).into()
        }),
    }))
}

/// Returns the stored answer, with its status where that is not the operation's own.
pub(super) async fn stored_answer(
    commands: &Commands,
    call: &Call,
    sealed: &[u8],
) -> Result<(Vec<u8>, Option<u16>), Error> {
    let key = commands.keyring.key(&call.tenant.id, Purpose::Answer).await.map_err(unavailable)?;
    let opened = key.open_bytes(ANSWER, sealed).map_err(|error| Error::internal(&error))?;
    // A caller who has lost the permission since does not get the answer again.
    if let Some(RolePlace { context, parts }) = stored_answer::place(&opened)
        && let Some(needed) = call.needs(&context)
        && !call.may_within(&context, &parts)
    {
        return Err(permission_denied(needed));
    }
    let status = stored_answer::status(&opened);
    Ok((opened, status))
}

/// Returns the status where it is not the operation's own: for a put that replaced an existing object.
pub(super) fn status(operation: &Facts, decided: &Decided) -> Option<u16> {
    operation.also.filter(|_| !decided.is_new)
}
