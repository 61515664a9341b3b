//! Reads of events.

use std::{sync::Arc, time::Duration};

use api::event::closed;
use base::clock;
use domain::{
    context::{Owner, OwnerType},
    log_class::LogClass,
};
use edge::{
    answer::Answer, call::Call, consistency::HEADER, error::Error, handler::Mounting, refusal::permission_denied,
};
use jiff::Timestamp;
use proto::{
    event::{
        Event, EventSearchFilter, EventTimeFilter, SearchEventsRequest, SearchEventsResponse, event_search_filter,
    },
    object::{ListDetails, ListQuery, TimestampFilterMethod},
    system::{SearchSystemEventsRequest, SearchSystemEventsResponse},
};
use view::{
    history::audit::{self, Audit, Comparison, Filter},
    projection::HISTORY,
};

use crate::{
    Queries, get,
    search::{Counted, bounded, page_details},
};

/// Mounts the reads of this module.
pub(super) fn mount(mounting: Mounting<Queries>) -> Mounting<Queries> {
    mounting.on(search).on(search_system)
}

async fn search(
    queries: Arc<Queries>,
    call: Call,
    SearchEventsRequest { ctx: _, query, filters }: SearchEventsRequest,
) -> Result<Answer<SearchEventsResponse>, Error> {
    if call.context.kind == OwnerType::Instance && !call.may(&call.context) {
        return Err(permission_denied(call.operation.permission.unwrap_or_default()));
    }
    let answer = |(details, result)| SearchEventsResponse { details: Some(details), result };
    let filters = within(&call).into_iter().chain(filters.into_iter().filter_map(filter)).collect();
    find(&queries, &call, query, filters, answer).await
}

/// Searches events of the system, which only roles in the system permit.
async fn search_system(
    queries: Arc<Queries>,
    call: Call,
    SearchSystemEventsRequest { query, filters }: SearchSystemEventsRequest,
) -> Result<Answer<SearchSystemEventsResponse>, Error> {
    if !call.may(&Owner::system()) {
        return Err(permission_denied(call.operation.permission.unwrap_or_default()));
    }
    let answer = |(details, result)| SearchSystemEventsResponse { details: Some(details), result };
    let filters = filters.into_iter().filter_map(filter).collect();
    find(&queries, &call, query, filters, answer).await
}

async fn find<O>(
    queries: &Queries,
    call: &Call,
    query: Option<ListQuery>,
    filters: Vec<Filter>,
    answer: impl FnOnce((ListDetails, Vec<Event>)) -> O,
) -> Result<Answer<O>, Error> {
    let (query, limit) = bounded(query, queries.bounds.limits)?;
    let audit = Audit { filters, ascending: query.asc, offset: query.offset, limit };
    let read = || get::in_turn(queries, call, audit::search(&queries.audit, call.tenant.shard, &audit));
    let fresh = get::as_fresh(queries, call, &HISTORY, read).await?;
    let (events, total) = fresh.answer;
    let counted = Counted { found: events.len(), total };
    let details = page_details(query.offset, limit, counted, fresh.processed, fresh.timestamp);
    let token = call.token_at(&queries.tokens, LogClass::Events, fresh.processed).await?;
    let message = answer((details, events.into_iter().map(closed).collect()));
    Ok(Answer { message, status: None, metadata: vec![(HEADER, token)] })
}

/// What the caller may see: everything of the system, or what the audit log of an instance retains.
fn within(call: &Call) -> Vec<Filter> {
    let mut filters = vec![];
    if call.context.kind == OwnerType::System {
        return filters;
    }
    filters.push(Filter::Within(call.tenant.id.clone()));
    if call.context.kind == OwnerType::Organization {
        filters.push(Filter::Owner(call.context.clone()));
    }
    if let Some(seconds) = call.tenant.instance.limits.audit_log_retention_s {
        let kept_since = clock::now().checked_sub(Duration::from_secs(seconds)).unwrap_or(Timestamp::MIN);
        filters.push(Filter::Committed(Comparison::GreaterOrEqual, kept_since));
    }
    filters
}

fn filter(filter: EventSearchFilter) -> Option<Filter> {
    use event_search_filter::Filter as Wanted;
    Some(match filter.filter? {
        Wanted::Type(name) => Filter::Type(name),
        Wanted::AggregateType(name) => Filter::AggregateType(name),
        Wanted::AggregateId(id) => Filter::AggregateId(id),
        Wanted::ActorId(id) => Filter::Actor(id),
        Wanted::InstanceId(id) => Filter::Instance(id),
        Wanted::AfterSequence(sequence) => Filter::After(sequence),
        Wanted::CreationDate(wanted) => Filter::Committed(comparison(wanted.method()), at(wanted)),
    })
}

fn at(wanted: EventTimeFilter) -> Timestamp {
    // Validation has refused what is not a time.
    wanted.creation_date.and_then(|at| Timestamp::try_from(at).ok()).unwrap_or_default()
}

fn comparison(method: TimestampFilterMethod) -> Comparison {
    match method {
        TimestampFilterMethod::Equals => Comparison::Equal,
        TimestampFilterMethod::Greater => Comparison::Greater,
        TimestampFilterMethod::GreaterOrEquals => Comparison::GreaterOrEqual,
        TimestampFilterMethod::Less => Comparison::Less,
        TimestampFilterMethod::LessOrEquals => Comparison::LessOrEqual,
    }
}
