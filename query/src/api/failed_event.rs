//! Failed events and views as they are read, by operators of the platform, and by owners of an instance what is of that.

use std::sync::Arc;

use api::failed_event::State as Wanted;
use domain::{
    aggregate::Aggregate,
    context::Owner,
    failed_event::{FailedEvent as Decided, Filter},
    log_class::OfEach,
    rejection::Rejection,
};
use edge::{
    answer::Answer,
    call::Call,
    consistency::{HEADER, unavailable},
    error::Error,
    handler::Mounting,
    refusal::{permission_denied, read_model},
};
use proto::{
    event::Event,
    failed_event::{
        GetInstanceFailedEventRequest, GetInstanceFailedEventResponse, SearchInstanceFailedEventsRequest,
        SearchInstanceFailedEventsResponse,
    },
    object::{ListDetails, ListQuery},
    system::{
        FailedEvent, FailedEventSearchFilter, FailedEventState, GetFailedEventRequest, GetFailedEventResponse,
        SearchFailedEventsRequest, SearchFailedEventsResponse, SearchViewsRequest, SearchViewsResponse, View,
        ViewState,
    },
};
use view::{
    failed_event::{
        ParkedAt,
        decided::with_followers,
        delivery,
        search::{self, Among, Indexed, Page, State},
        stand::{Stand, stands},
    },
    projection::{HISTORY, Kind, PROJECTIONS, Projection},
    rows::Fresh,
};

use super::event;
use crate::{
    Queries,
    search::{Counted, bounded, page_details},
};

/// Mounts what is read here.
pub(super) fn mount(mounting: Mounting<Queries>) -> Mounting<Queries> {
    mounting.on(search_failed).on(search_of_instance).on(get).on(get_of_instance).on(views)
}

async fn search_failed(
    queries: Arc<Queries>,
    call: Call,
    SearchFailedEventsRequest { query, filters }: SearchFailedEventsRequest,
) -> Result<Answer<SearchFailedEventsResponse>, Error> {
    insist_on(&call, &Owner::system())?;
    let answer = |(details, result)| SearchFailedEventsResponse { details: Some(details), result };
    find(&queries, &call, (query, filters, vec![]), answer).await
}

async fn search_of_instance(
    queries: Arc<Queries>,
    call: Call,
    SearchInstanceFailedEventsRequest { query, filters }: SearchInstanceFailedEventsRequest,
) -> Result<Answer<SearchInstanceFailedEventsResponse>, Error> {
    insist_on(&call, &Owner::instance(&call.tenant.id))?;
    let answer = |(details, result)| SearchInstanceFailedEventsResponse { details: Some(details), result };
    find(&queries, &call, (query, filters, within(&call)), answer).await
}

async fn find<O>(
    queries: &Queries,
    call: &Call,
    (query, filters, within): (Option<ListQuery>, Vec<FailedEventSearchFilter>, Vec<Filter>),
    answer: impl FnOnce((ListDetails, Vec<FailedEvent>)) -> O,
) -> Result<Answer<O>, Error> {
    let (query, limit) = bounded(query, queries.bounds.limits)?;
    let mut wanted = api::failed_event::wanted(filters);
    wanted.filters.extend(within);
    let among = match wanted.state {
        None => Among::Waiting,
        Some(Wanted::Failed) => Among::Failed,
        Some(Wanted::Retrying) => Among::Retrying,
        Some(Wanted::Discarded) => Among::Discarded,
        Some(Wanted::Several) => {
            wanted.filters.push(Filter::Id(u64::MAX));
            Among::Waiting
        }
    };
    let page = Page { filters: wanted.filters, among, ascending: query.asc, offset: query.offset, limit };
    let Fresh { processed, timestamp, answer: (events, total), .. } = read(queries, call, &page).await?;
    let counted = Counted { found: events.len(), total };
    let details = page_details((query.offset, limit), counted, (processed, timestamp));
    let message = answer((details, events.into_iter().map(response).collect()));
    let token = queries.tokens.mint(processed).await.map_err(unavailable)?;
    Ok(Answer { message, status: None, metadata: vec![(HEADER, token)] })
}

async fn read(queries: &Queries, call: &Call, page: &Page) -> Result<Fresh<(Vec<search::FailedEvent>, u64)>, Error> {
    let indexed = indexed(queries);
    queries.as_fresh(call, &HISTORY, || search::search(&queries.database, (call.tenant.shard, &indexed), page)).await
}

/// How far the search indexes are that this node has.
fn indexed(queries: &Queries) -> Indexed {
    let place = |projection: &'static Projection| {
        let shown = queries.indexes.of(projection)?.borrow().clone()?;
        Some((projection, shown.position.sequence, shown.committed_at))
    };
    PROJECTIONS.iter().filter_map(place).collect()
}

/// Nothing of other instances.
fn within(call: &Call) -> Vec<Filter> {
    vec![Filter::InstanceId(call.tenant.id.clone())]
}

async fn get(
    queries: Arc<Queries>,
    call: Call,
    GetFailedEventRequest { id }: GetFailedEventRequest,
) -> Result<Answer<GetFailedEventResponse>, Error> {
    insist_on(&call, &Owner::system())?;
    let answer = |(failed_event, event, waiting)| GetFailedEventResponse { failed_event, event, waiting };
    one(&queries, &call, (id, vec![]), answer).await
}

async fn get_of_instance(
    queries: Arc<Queries>,
    call: Call,
    GetInstanceFailedEventRequest { id }: GetInstanceFailedEventRequest,
) -> Result<Answer<GetInstanceFailedEventResponse>, Error> {
    insist_on(&call, &Owner::instance(&call.tenant.id))?;
    let answer = |(failed_event, event, waiting)| GetInstanceFailedEventResponse { failed_event, event, waiting };
    one(&queries, &call, (id, within(&call)), answer).await
}

/// With the event itself, and how many of its aggregate wait behind it. Where none waits it may be one that was left out.
async fn one<O>(
    queries: &Queries,
    call: &Call,
    (id, mut filters): (String, Vec<Filter>),
    answer: impl FnOnce((Option<FailedEvent>, Option<Event>, u64)) -> O,
) -> Result<Answer<O>, Error> {
    filters.push(Filter::Id(api::failed_event::id(&id)));
    let mut page = Page { filters, limit: 1, ..Page::default() };
    let mut found = read(queries, call, &page).await?;
    if found.answer.0.is_empty() {
        page.among = Among::Discarded;
        found = read(queries, call, &page).await?;
    }
    let Fresh { processed, answer: (found, _), .. } = found;
    let token = queries.tokens.mint(processed).await.map_err(unavailable)?;
    let Some(found) = found.into_iter().next() else {
        return Err(Error::from(Rejection::NotFound(Decided::NAME)).header(HEADER, token));
    };
    let (key, sequence) = (&found.parked.key, found.parked.sequence);
    let behind = with_followers(&queries.database, key, sequence).await;
    let (event, behind) = behind.map_err(|failure| read_model(Arc::new(failure)))?;
    // Behind a delivery that was given up nothing waits.
    let nothing_waits = matches!(found.state, State::Discarded(..)) || found.view == delivery::VIEW;
    let waiting = if nothing_waits { 0 } else { behind };
    let message = answer((Some(response(found)), event.map(event::response), waiting));
    Ok(Answer { message, status: None, metadata: vec![(HEADER, token)] })
}

async fn views(
    queries: Arc<Queries>,
    call: Call,
    SearchViewsRequest {}: SearchViewsRequest,
) -> Result<Answer<SearchViewsResponse>, Error> {
    insist_on(&call, &Owner::system())?;
    // They follow the logs by themselves, so they know where those end.
    let (events, sessions) = (queries.settings.reached(), queries.ended.revoked().reached());
    let ends = OfEach { events: *events.changes().borrow(), sessions: *sessions.changes().borrow() };
    let indexed = indexed(&queries);
    let read = || stands(&queries.database, (call.tenant.shard, &indexed), ends);
    let Fresh { processed, timestamp, answer: stands, .. } = queries.as_fresh(&call, &HISTORY, read).await?;
    let total = stands.len();
    let limit = u32::try_from(total).unwrap_or(u32::MAX);
    let counted = Counted { found: total, total: total as u64 };
    let details = Some(page_details((0, limit), counted, (processed, timestamp)));
    let result = stands.into_iter().map(view).collect();
    let token = queries.tokens.mint(processed).await.map_err(unavailable)?;
    let message = SearchViewsResponse { details, result };
    Ok(Answer { message, status: None, metadata: vec![(HEADER, token)] })
}

fn view(stand: Stand) -> View {
    let Stand { projection, is_there, sequence, committed_at, failed, stopped, lag_events, lag } = stand;
    let state = match (&stopped, is_there) {
        (Some(_), _) => ViewState::Stopped,
        (None, false) => ViewState::Building,
        (None, true) => ViewState::Serving,
    };
    let (error_message, stopped_since) =
        stopped.map_or_else(Default::default, |stopped| (stopped.error, Some(stopped.since.into())));
    View {
        database: database(projection.name).to_owned(),
        view_name: projection.name.to_owned(),
        version: u32::try_from(projection.version).unwrap_or_default(),
        state: state.into(),
        processed_sequence: sequence,
        timestamp: Some(committed_at.into()),
        failed_event_count: failed,
        error_message,
        stopped_since,
        lag_events,
        lag: lag.try_into().ok(),
    }
}

/// Only roles there permit it.
fn insist_on(call: &Call, context: &Owner) -> Result<(), Error> {
    if call.may(context) {
        return Ok(());
    }
    Err(permission_denied(call.operation.permission.unwrap_or_default()))
}

fn database(view: &str) -> &'static str {
    if view == delivery::VIEW {
        return "nats";
    }
    let is_index = search::projection(view).is_some_and(|known| matches!(known.kind, Kind::Index(_)));
    if is_index { "tantivy" } else { "postgres" }
}

fn response(found: search::FailedEvent) -> FailedEvent {
    let search::FailedEvent { id, view, parked, failure_count, target_id, state } = found;
    let ParkedAt { key, sequence, error, last_failed, .. } = parked;
    let mut response = FailedEvent {
        database: database(&view).to_owned(),
        view_name: view,
        failed_sequence: sequence,
        failure_count,
        error_message: error,
        last_failed: last_failed.map(Into::into),
        id: id.to_string(),
        instance_id: key.instance_id,
        aggregate_type: key.aggregate_type,
        aggregate_id: key.id,
        sequence,
        tries: u32::try_from(failure_count).unwrap_or(u32::MAX),
        state: FailedEventState::Failed.into(),
        target_id,
        ..FailedEvent::default()
    };
    match state {
        State::Failed => {}
        State::Retrying(search::Decided { by, at }) => {
            response.state = FailedEventState::Retrying.into();
            (response.retried_by, response.retried_at) = (by, Some(at.into()));
        }
        State::Discarded(search::Decided { by, at }, reason) => {
            response.state = FailedEventState::Discarded.into();
            (response.discarded_by, response.discarded_at, response.reason) = (by, Some(at.into()), reason);
        }
    }
    response
}
