//! Handlers by which operators build, exchange and drop generations of views. None of that is in the log: it concerns
//! what is built from the log, and is lost with that.

use std::{sync::Arc, time::Duration};

use base::explain::explain;
use domain::{context::Owner, rejection::Rejection};
use edge::{
    answer::Answer,
    call::Call,
    error::{Error, Reason},
    handler::Mounting,
    refusal::{permission_denied, read_model},
};
use index::{
    IndexFailure,
    generation::{Exchange, ExchangeFailure, exchange as exchange_index},
};
use proto::system::{
    DropViewGenerationRequest, DropViewGenerationResponse, ReplayViewRequest, ReplayViewResponse, RollBackViewRequest,
    RollBackViewResponse, SwitchViewRequest, SwitchViewResponse, VerifyViewRequest, VerifyViewResponse,
    ViewGenerationPlace,
};
use view::{
    database::DatabaseFailure,
    generation::{self, Exchanged},
    projection::{GenerationSlot, Kind, PROJECTIONS, Projection},
};

use crate::execute::Commands;

/// When to try again while NATS does not answer.
const RETRY: Duration = Duration::from_secs(1);
const UNREADABLE: &str =
    "what is published of the index is of another version of the platform; ask a node of that version";
const BUSY: &str = "the generations of the view are in use: others read, compare or change them; try again";

/// Mounts the operations of this module.
pub(super) fn mount(mounting: Mounting<Commands>) -> Mounting<Commands> {
    mounting.on(replay).on(verify).on(switch).on(roll_back).on(drop_generation)
}

async fn replay(
    commands: Arc<Commands>,
    call: Call,
    ReplayViewRequest { view_name }: ReplayViewRequest,
) -> Result<Answer<ReplayViewResponse>, Error> {
    let view = find_view(&call, &view_name)?;
    if generation::replay(&commands.audit, view).await.map_err(unavailable)? {
        tracing::info!(view = view.name, user = call.caller.id, "a view is being rebuilt");
    }
    Ok(Answer::from(ReplayViewResponse {}))
}

async fn verify(
    commands: Arc<Commands>,
    call: Call,
    VerifyViewRequest { view_name, place }: VerifyViewRequest,
) -> Result<Answer<VerifyViewResponse>, Error> {
    let view = find_view(&call, &view_name)?;
    let is_there = generation::verify_again(&commands.audit, view, at(place)).await.map_err(unavailable)?;
    if is_there { Ok(Answer::from(VerifyViewResponse {})) } else { Err(absent(at(place)).into()) }
}

async fn switch(
    commands: Arc<Commands>,
    call: Call,
    SwitchViewRequest { view_name, force }: SwitchViewRequest,
) -> Result<Answer<SwitchViewResponse>, Error> {
    exchange(&commands, &call, &view_name, GenerationSlot::Next, force).await?;
    Ok(Answer::from(SwitchViewResponse {}))
}

async fn roll_back(
    commands: Arc<Commands>,
    call: Call,
    RollBackViewRequest { view_name, force }: RollBackViewRequest,
) -> Result<Answer<RollBackViewResponse>, Error> {
    exchange(&commands, &call, &view_name, GenerationSlot::Previous, force).await?;
    Ok(Answer::from(RollBackViewResponse {}))
}

async fn exchange(
    commands: &Commands,
    call: &Call,
    view_name: &str,
    place: GenerationSlot,
    is_forced: bool,
) -> Result<(), Error> {
    let view = find_view(call, view_name)?;
    let exchanged = if let Kind::Index(table) = &view.kind {
        let of_index = Exchange { place, shard: call.tenant.shard, is_forced };
        let (database, indexes) = (commands.audit.clone(), commands.indexes.clone());
        // Once it has begun, it is completed, whether its caller waits or not.
        let exchanging = async move { exchange_index(&database, &indexes, view, table, of_index).await };
        let exchanged = tokio::spawn(exchanging).await.map_err(|failure| Error::internal(&failure))?;
        exchanged.map_err(unpublished)?
    } else {
        generation::exchange(&commands.audit, view, place, is_forced).await.map_err(unavailable)?
    };
    let reason = match exchanged {
        Exchanged::Done => {
            let (view, place, user) = (view.name, place.name(), &call.caller.id);
            tracing::info!(view, place, user, "a view has switched to another generation");
            return Ok(());
        }
        Exchanged::Absent => return Err(absent(place).into()),
        Exchanged::Lagging => "it lags the active generation; search the views for its progress and try again",
        Exchanged::Fails => "it failed on events that the active generation processed; fix them, or set force",
    };
    Err(Rejection::Precondition(reason).into())
}

async fn drop_generation(
    commands: Arc<Commands>,
    call: Call,
    DropViewGenerationRequest { view_name, place }: DropViewGenerationRequest,
) -> Result<Answer<DropViewGenerationResponse>, Error> {
    let (view, place) = (find_view(&call, &view_name)?, at(place));
    if !generation::drop_at(&commands.audit, view, place).await.map_err(unavailable)? {
        return Err(absent(place).into());
    }
    tracing::info!(view = view.name, place = place.name(), user = call.caller.id, "a generation of a view was dropped");
    Ok(Answer::from(DropViewGenerationResponse {}))
}

/// Returns the view with a name. Only roles in the system permit that, since views span all instances.
fn find_view(call: &Call, name: &str) -> Result<&'static Projection, Error> {
    if !call.may(&Owner::system()) {
        return Err(permission_denied(call.operation.permission.unwrap_or_default()));
    }
    Ok(PROJECTIONS.iter().find(|projection| projection.name == name).ok_or(Rejection::NotFound("view"))?)
}

fn at(place: i32) -> GenerationSlot {
    if place == i32::from(ViewGenerationPlace::Previous) { GenerationSlot::Previous } else { GenerationSlot::Next }
}

fn absent(place: GenerationSlot) -> Rejection {
    Rejection::Precondition(match place {
        GenerationSlot::Next => "no generation of the view is being built; replay it first",
        GenerationSlot::Previous => "there is no previous generation of the view",
    })
}

fn unavailable(failure: DatabaseFailure) -> Error {
    if failure.is_of_locks() { Rejection::Precondition(BUSY).into() } else { read_model(Arc::new(failure)) }
}

fn unpublished(failure: ExchangeFailure) -> Error {
    match failure {
        ExchangeFailure::Database(failure) => unavailable(failure),
        ExchangeFailure::Index(IndexFailure::Unreadable) => Rejection::Precondition(UNREADABLE).into(),
        ExchangeFailure::Index(failure) => {
            tracing::warn!(error = %explain(&failure), "the generations of a search index cannot be exchanged");
            let message = "the search index that is published cannot be read or replaced at the moment";
            Error::new(Reason::ReadModelUnavailable, message).retry_after(RETRY)
        }
    }
}
