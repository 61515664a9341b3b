//! The read of settings services, from memory.

use std::{convert::Infallible, future::ready, sync::Arc};

use api::settings::{ResolvedSettings, check_level, details};
use domain::{log_class::LogClass, rejection::Rejection};
use edge::{
    answer::Answer,
    call::Call,
    consistency::{HEADER, waited},
    error::Error,
    handler::Mounting,
    refusal::permission_denied,
};
use proto::shape::{Request, Resolve};

use crate::Queries;

/// Mounts the read of a settings service.
pub(crate) fn mount<P: ResolvedSettings>(mounting: Mounting<Queries>) -> Mounting<Queries> {
    mounting.on(resolve::<P>)
}

/// Shows the effective settings of the context that a request names.
async fn resolve<P: ResolvedSettings>(
    queries: Arc<Queries>,
    call: Call,
    request: P::Resolve,
) -> Result<Answer<<P::Resolve as Request>::Response>, Error> {
    let (instance_id, context) = (&call.tenant.id, &call.context);
    check_level::<P>(context)?;
    if !call.belongs_to(context) && !call.may(context) {
        return Err(permission_denied(call.needs(context).unwrap_or_default()));
    }
    let look =
        || ready(Ok::<_, Infallible>(queries.settings.effective_of::<P>(instance_id, context, request.variant())));
    let consistency = call.consistency.events;
    let seen =
        consistency.look_until_fresh(queries.settings.position().changes(), look, |seen| Some(seen.processed)).await;
    let Ok(seen) = seen;
    waited(consistency, Some(seen.processed));
    consistency.accept(seen.processed)?;
    if queries.ended.is_removed(instance_id, context) {
        return Err(Rejection::NotFound("organization").into());
    }
    let token = call.token_at(&queries.tokens, LogClass::Events, seen.processed).await?;
    let message =
        P::Resolve::response(details(context, seen.sequence, seen.changed_at), P::resolved(context, &seen.chain));
    // There is no entity tag, since inherited values change without it.
    Ok(Answer { message, status: None, metadata: vec![(HEADER, token)] })
}
