//! Targets as they are read.

use std::time::Duration;

use domain::resource::target::{Mode, Target, TargetKind};
use proto::action::{
    self, GetTarget, GetTargetRequest, GetTargetResponse, SetRestRequestResponse, SetRestWebhook,
    target::{ExecutionType, TargetType},
};
use store::{projection::TARGETS, rows::Found};
use transport::{details, edge::Call, error::Error, mount::Answer};

use crate::Queries;

pub(super) async fn get(
    queries: Queries,
    call: Call,
    request: GetTargetRequest,
) -> Result<Answer<GetTargetResponse>, Error> {
    let answer = |found| GetTargetResponse { target: Some(response(&found)) };
    queries.get::<Target, _>(&call, &TARGETS, &request.id, answer).await
}

fn response(found: &Found<Target>) -> GetTarget {
    let Target { name, kind, url, timeout_ms, mode, signing_keys: _ } = found.state.clone();
    let target = action::Target {
        name,
        target_type: Some(match kind {
            TargetKind::RestWebhook => TargetType::RestWebhook(SetRestWebhook { url }),
            TargetKind::RestRequestResponse => TargetType::RestRequestResponse(SetRestRequestResponse { url }),
        }),
        timeout: Duration::from_millis(timeout_ms).try_into().ok(),
        execution_type: match mode {
            Mode::Continue => None,
            Mode::Async => Some(ExecutionType::IsAsync(true)),
            Mode::InterruptOnError => Some(ExecutionType::InterruptOnError(true)),
        },
    };
    GetTarget { details: Some(details::of(found)), target: Some(target) }
}
