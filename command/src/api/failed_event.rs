//! What operators decide about failed events. Views meet it in the log, as whoever builds them again does.

use std::sync::Arc;

use domain::{
    aggregate::Aggregate,
    context::Owner,
    failed_event::{Command as Asked, Discarded, FailedEvent, Filter, Retried},
    log_class::OfEach,
    rejection::Rejection,
};
use edge::{
    answer::Answer,
    call::Call,
    error::Error,
    handler::Mounting,
    refusal::{permission_denied, read_model},
};
use eventlog::record::AggregateKey;
use proto::system::{
    DiscardFailedEventRequest, DiscardFailedEventResponse, RetryFailedEventRequest, RetryFailedEventResponse,
    RetryFailedEventsRequest, RetryFailedEventsResponse,
};
use view::{
    failed_event::search::{self, Page},
    keyring::SYSTEM,
};

use crate::{
    authority::Object,
    execute::{Command, Commands, Deciding},
    standard::details,
    turn::{Decided, Refusal, Turn},
};

/// Mounts what is written here.
pub(super) fn mount(mounting: Mounting<Commands>) -> Mounting<Commands> {
    mounting.on(retry).on(retry_all).on(discard)
}

async fn retry(
    commands: Arc<Commands>,
    call: Call,
    request: RetryFailedEventRequest,
) -> Result<Answer<RetryFailedEventResponse>, Error> {
    let found = find(&commands, &call, &request.id).await?;
    let id = found.id.to_string();
    let command = Mend { key: key(id.clone()), what: What::Retry(vec![Filter::Id(found.id)]) };
    let answer = move |decided: &Decided, (): &()| RetryFailedEventResponse { details: Some(details(&id, decided)) };
    commands.execute(&call, &request, command, answer).await
}

/// However many the filters find, the log has one event of it, under an id of its own.
async fn retry_all(
    commands: Arc<Commands>,
    call: Call,
    request: RetryFailedEventsRequest,
) -> Result<Answer<RetryFailedEventsResponse>, Error> {
    let filters = api::failed_event::filters(request.filters.clone());
    let (_, count) = search(&commands, &call, Page { filters: filters.clone(), ..Page::default() }).await?;
    let what = if count == 0 { What::Nothing } else { What::Retry(filters) };
    let id = commands.ids.next();
    let command = Mend { key: key(id.clone()), what };
    let answer = move |decided: &Decided, (): &()| {
        let details = (count > 0).then(|| details(&id, decided));
        RetryFailedEventsResponse { details, count }
    };
    commands.execute(&call, &request, command, answer).await
}

async fn discard(
    commands: Arc<Commands>,
    call: Call,
    request: DiscardFailedEventRequest,
) -> Result<Answer<DiscardFailedEventResponse>, Error> {
    let found = find(&commands, &call, &request.id).await?;
    let (id, parked) = (found.id.to_string(), found.parked);
    let discarded = Discarded {
        view: found.projection.name.to_owned(),
        log: found.projection.class.name().to_owned(),
        sequence: parked.sequence,
        reason: request.discard.clone().unwrap_or_default().reason,
        instance_id: parked.key.instance_id,
        aggregate_type: parked.key.aggregate_type,
        aggregate_id: parked.key.id,
    };
    let command = Mend { key: key(id.clone()), what: What::Discard(discarded) };
    let answer = move |decided: &Decided, (): &()| DiscardFailedEventResponse { details: Some(details(&id, decided)) };
    commands.execute(&call, &request, command, answer).await
}

fn key(id: String) -> AggregateKey {
    AggregateKey { instance_id: SYSTEM.to_owned(), aggregate_type: FailedEvent::NAME.to_owned(), id }
}

/// The failed event of an id.
async fn find(commands: &Commands, call: &Call, id: &str) -> Result<search::FailedEvent, Error> {
    let page = Page { filters: vec![Filter::Id(api::failed_event::id(id))], limit: 1, ..Page::default() };
    let (found, _) = search(commands, call, page).await?;
    found.into_iter().next().ok_or(Rejection::NotFound(FailedEvent::NAME).into())
}

/// Only roles in the system permit it: failed events are of all instances. The turn insists on that.
async fn search(commands: &Commands, call: &Call, page: Page) -> Result<(Vec<search::FailedEvent>, u64), Error> {
    if !call.may(&Owner::system()) {
        return Err(permission_denied(call.operation.permission.unwrap_or_default()));
    }
    let found = search::search(&commands.database, call.tenant.shard, &page).await;
    Ok(found.map_err(|failure| read_model(Arc::new(failure)))?.answer)
}

/// What is asked for.
enum What {
    Retry(Vec<Filter>),
    Discard(Discarded),
    /// There is nothing to retry.
    Nothing,
}

struct Mend {
    key: AggregateKey,
    what: What,
}

impl Command for Mend {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        let current = turn.get::<FailedEvent>(&self.key).owned_by(&Owner::system());
        let asked = match &self.what {
            What::Retry(filters) => {
                let OfEach { events: until, sessions: until_of_sessions } = turn.ends();
                Asked::Retry(Retried { filters: filters.clone(), until, until_of_sessions })
            }
            What::Discard(discarded) => Asked::Discard(discarded.clone()),
            What::Nothing => {
                deciding.permit(turn, &Owner::system(), &Object::of_nobody(FailedEvent::NAME, true))?;
                return Ok((turn.nothing_decided(FailedEvent::NAME), ()));
            }
        };
        Ok((deciding.decide(turn, current, asked)?, ()))
    }
}
