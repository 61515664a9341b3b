//! Failed events and views as they are read, by operators of the platform.

use std::sync::Arc;

use domain::context::Owner;
use edge::{
    answer::Answer,
    call::Call,
    consistency::{HEADER, unavailable},
    error::Error,
    handler::Mounting,
    refusal::permission_denied,
};
use proto::system::{
    FailedEvent, FailedEventSearchFilter, FailedEventState, SearchFailedEventsRequest, SearchFailedEventsResponse,
    SearchViewsRequest, SearchViewsResponse, View, ViewState, failed_event_search_filter,
};
use view::{
    failed_event::{
        ParkedAt,
        search::{self, Filter, Page, Stand},
    },
    projection::{HISTORY, Kind, Projection},
    rows::Fresh,
};

use crate::{
    Queries,
    search::{Counted, bounded, page_details},
};

/// Mounts what is read here.
pub(super) fn mount(mounting: Mounting<Queries>) -> Mounting<Queries> {
    mounting.on(search_failed).on(views)
}

async fn search_failed(
    queries: Arc<Queries>,
    call: Call,
    SearchFailedEventsRequest { query, filters }: SearchFailedEventsRequest,
) -> Result<Answer<SearchFailedEventsResponse>, Error> {
    insist_on_operator(&call)?;
    let (query, limit) = bounded(query, queries.bounds.limits)?;
    let filters = filters.into_iter().filter_map(filter).collect();
    let page = Page { filters, ascending: query.asc, offset: query.offset, limit };
    let read = || search::search(&queries.database, call.tenant.shard, &page);
    let Fresh { processed, timestamp, answer: (events, total) } = queries.as_fresh(&call, &HISTORY, read).await?;
    let counted = Counted { found: events.len(), total };
    let details = Some(page_details((query.offset, limit), counted, (processed, timestamp)));
    let message = SearchFailedEventsResponse { details, result: events.into_iter().map(response).collect() };
    let token = queries.tokens.mint(processed).await.map_err(unavailable)?;
    Ok(Answer { message, status: None, metadata: vec![(HEADER, token)] })
}

async fn views(
    queries: Arc<Queries>,
    call: Call,
    SearchViewsRequest {}: SearchViewsRequest,
) -> Result<Answer<SearchViewsResponse>, Error> {
    insist_on_operator(&call)?;
    let read = || search::stands(&queries.database, call.tenant.shard);
    let Fresh { processed, timestamp, answer: stands } = queries.as_fresh(&call, &HISTORY, read).await?;
    let total = stands.len();
    let limit = u32::try_from(total).unwrap_or(u32::MAX);
    let counted = Counted { found: total, total: total as u64 };
    let details = Some(page_details((0, limit), counted, (processed, timestamp)));
    let result = stands.into_iter().map(|stand| view(&queries, &stand)).collect();
    let token = queries.tokens.mint(processed).await.map_err(unavailable)?;
    let message = SearchViewsResponse { details, result };
    Ok(Answer { message, status: None, metadata: vec![(HEADER, token)] })
}

fn view(queries: &Queries, Stand { projection, sequence, committed_at, failed }: &Stand) -> View {
    let shown = queries.indexes.of(projection).and_then(|index| index.borrow().clone());
    let (sequence, at) =
        shown.map_or((*sequence, *committed_at), |snapshot| (snapshot.position.sequence, snapshot.committed_at));
    View {
        database: database(projection).to_owned(),
        view_name: projection.name.to_owned(),
        version: u32::try_from(projection.version).unwrap_or_default(),
        state: ViewState::Serving.into(),
        processed_sequence: sequence,
        timestamp: Some(at.into()),
        failed_event_count: *failed,
    }
}

/// Only roles in the system permit it: failed events are of all instances.
fn insist_on_operator(call: &Call) -> Result<(), Error> {
    if call.may(&Owner::system()) {
        return Ok(());
    }
    Err(permission_denied(call.operation.permission.unwrap_or_default()))
}

const fn database(projection: &Projection) -> &'static str {
    if matches!(projection.kind, Kind::Index(_)) { "tantivy" } else { "postgres" }
}

fn by_id(id: &str) -> Filter {
    id.parse().map_or(Filter::Nothing, Filter::Id)
}

fn filter(filter: FailedEventSearchFilter) -> Option<Filter> {
    use failed_event_search_filter::Filter as Wanted;
    Some(match filter.filter? {
        Wanted::Id(id) => by_id(&id),
        Wanted::ViewName(name) => Filter::View(name),
        Wanted::InstanceId(id) => Filter::Instance(id),
        Wanted::AggregateType(name) => Filter::AggregateType(name),
        Wanted::AggregateId(id) => Filter::AggregateId(id),
        Wanted::State(state) if state == i32::from(FailedEventState::Failed) => return None,
        Wanted::State(_) => Filter::Nothing,
    })
}

fn response(found: search::FailedEvent) -> FailedEvent {
    let search::FailedEvent { id, projection, parked, failure_count } = found;
    let ParkedAt { key, sequence, error, last_failed, .. } = parked;
    FailedEvent {
        database: database(projection).to_owned(),
        view_name: projection.name.to_owned(),
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
    }
}
