//! Reads of the last attempts to deliver events to a target.

use std::sync::Arc;

use domain::resource::target::Target;
use edge::{answer::Answer, call::Call, consistency::HEADER, error::Error, handler::Mounting, refusal::read_model};
use proto::action::{DeliveryAttempt, DeliveryOutcome, ListTargetDeliveriesRequest, ListTargetDeliveriesResponse};
use view::attempts::{Attempt, Outcome, of_target};

use crate::{Queries, get};

/// Mounts the reads of this module.
pub(super) fn mount(mounting: Mounting<Queries>) -> Mounting<Queries> {
    mounting.on(list)
}

/// Lists the attempts, for callers who may read the target.
async fn list(
    queries: Arc<Queries>,
    call: Call,
    ListTargetDeliveriesRequest { id }: ListTargetDeliveriesRequest,
) -> Result<Answer<ListTargetDeliveriesResponse>, Error> {
    let Answer { mut metadata, .. } = get::get(&queries, &call, &id, |_: &Target| true, |_| ()).await?;
    metadata.retain(|(name, _)| *name == HEADER);
    let found = of_target(&queries.audit, &call.tenant.id, &id).await;
    let found = found.map_err(|failure| read_model(Arc::new(failure)))?;
    let message = ListTargetDeliveriesResponse { result: found.into_iter().map(response).collect() };
    Ok(Answer { message, status: None, metadata })
}

fn response(attempt: Attempt) -> DeliveryAttempt {
    let Attempt { delivery_id, event_type, aggregate, sequence, number, at, outcome, error } = attempt;
    let (aggregate_type, aggregate_id) = aggregate.split_once('/').unwrap_or_default();
    let outcome = match outcome {
        Outcome::Delivered => DeliveryOutcome::Delivered,
        Outcome::Failed => DeliveryOutcome::Failed,
        Outcome::GivenUp => DeliveryOutcome::GivenUp,
    };
    DeliveryAttempt {
        delivery_id,
        event_type,
        aggregate_type: aggregate_type.to_owned(),
        aggregate_id: aggregate_id.to_owned(),
        sequence,
        attempt: number,
        attempted_at: Some(at.into()),
        outcome: outcome.into(),
        error_message: error,
    }
}
