//! The default organization of an instance.

use std::sync::Arc;

use api::standard::Readable;
use domain::{
    rejection::Rejection,
    resource::{instance::Instance, organization::Organization},
};
use edge::{answer::Answer, call::Call, error::Error, handler::Mounting};
use proto::organization::{GetInstanceDefaultRequest, GetInstanceDefaultResponse};

use crate::{Queries, get};

/// Mounts the reads of this module.
pub(super) fn mount(mounting: Mounting<Queries>) -> Mounting<Queries> {
    mounting.on(instance_default)
}

async fn instance_default(
    queries: Arc<Queries>,
    call: Call,
    GetInstanceDefaultRequest { ctx: _ }: GetInstanceDefaultRequest,
) -> Result<Answer<GetInstanceDefaultResponse>, Error> {
    let instance = get::fresh::<Instance>(&queries, &call, &call.tenant.id).await?.answer;
    let id =
        instance.and_then(|found| found.state.default_organization_id).ok_or(Rejection::NotFound("organization"))?;
    let answer = |found| GetInstanceDefaultResponse { organization: Some(Organization::to_proto(&found)) };
    get::get::<Organization, _>(&queries, &call, &id, |_| true, answer).await
}
