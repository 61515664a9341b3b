//! Failed events and views as they are read, by operators of the platform.

use std::sync::Arc;

use domain::{
    aggregate::Aggregate,
    context::Owner,
    failed_event::{FailedEvent as Decided, Filter},
    log_class::LogClass,
    rejection::Rejection,
};
use edge::{
    answer::Answer,
    call::Call,
    consistency::HEADER,
    error::Error,
    handler::Mounting,
    refusal::{permission_denied, read_model},
};
use proto::system::{
    FailedEvent, FailedEventState, GetFailedEventRequest, GetFailedEventResponse, SearchFailedEventsRequest,
    SearchFailedEventsResponse, SearchViewsRequest, SearchViewsResponse, View, ViewGeneration, ViewGenerationPlace,
    ViewState,
};
use view::{
    failed_event::{
        ParkedAt,
        decided::with_followers,
        search::{self, Page, Stand},
    },
    generation::{Generation, Verified, generations},
    projection::{HISTORY, Kind, Place, Projection},
    rows::Fresh,
};

use super::event;
use crate::{
    Queries,
    search::{Counted, bounded, page_details},
};

/// Mounts what is read here.
pub(super) fn mount(mounting: Mounting<Queries>) -> Mounting<Queries> {
    mounting.on(search_failed).on(get).on(views)
}

async fn search_failed(
    queries: Arc<Queries>,
    call: Call,
    SearchFailedEventsRequest { query, filters }: SearchFailedEventsRequest,
) -> Result<Answer<SearchFailedEventsResponse>, Error> {
    insist_on_operator(&call)?;
    let (query, limit) = bounded(query, queries.bounds.limits)?;
    let page = Page { filters: api::failed_event::filters(filters), ascending: query.asc, offset: query.offset, limit };
    let read = || search::search(&queries.database, call.tenant.shard, &page);
    let Fresh { processed, timestamp, answer: (events, total) } = queries.as_fresh(&call, &HISTORY, read).await?;
    let counted = Counted { found: events.len(), total };
    let details = Some(page_details((query.offset, limit), counted, (processed, timestamp)));
    let message = SearchFailedEventsResponse { details, result: events.into_iter().map(response).collect() };
    let token = call.token_at(&queries.tokens, (LogClass::Events, processed)).await?;
    Ok(Answer { message, status: None, metadata: vec![(HEADER, token)] })
}

/// With the event itself, and how many of its aggregate wait behind it.
async fn get(
    queries: Arc<Queries>,
    call: Call,
    GetFailedEventRequest { id }: GetFailedEventRequest,
) -> Result<Answer<GetFailedEventResponse>, Error> {
    insist_on_operator(&call)?;
    let page = Page { filters: vec![Filter::Id(api::failed_event::id(&id))], limit: 1, ..Page::default() };
    let read = || search::search(&queries.database, call.tenant.shard, &page);
    let Fresh { processed, answer: (found, _), .. } = queries.as_fresh(&call, &HISTORY, read).await?;
    let token = call.token_at(&queries.tokens, (LogClass::Events, processed)).await?;
    let Some(found) = found.into_iter().next() else {
        return Err(Error::from(Rejection::NotFound(Decided::NAME)).header(HEADER, token));
    };
    let (key, sequence) = (&found.parked.key, found.parked.sequence);
    let behind = with_followers(&queries.database, key, sequence).await;
    let (event, waiting) = behind.map_err(|failure| read_model(Arc::new(failure)))?;
    let (failed_event, event) = (Some(response(found)), event.map(event::response));
    let message = GetFailedEventResponse { failed_event, event, waiting };
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
    let beside = generations(&queries.database, call.tenant.shard).await;
    let beside = beside.map_err(|failure| read_model(Arc::new(failure)))?;
    let total = stands.len();
    let limit = u32::try_from(total).unwrap_or(u32::MAX);
    let counted = Counted { found: total, total: total as u64 };
    let details = Some(page_details((0, limit), counted, (processed, timestamp)));
    let result = stands.into_iter().map(|stand| view(&queries, &stand, &beside)).collect();
    let token = call.token_at(&queries.tokens, (LogClass::Events, processed)).await?;
    let message = SearchViewsResponse { details, result };
    Ok(Answer { message, status: None, metadata: vec![(HEADER, token)] })
}

fn view(
    queries: &Queries,
    Stand { projection, sequence, committed_at, failed }: &Stand,
    beside: &[Generation],
) -> View {
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
        log: projection.class.name().to_owned(),
        generations: beside.iter().filter(|other| other.projection.view == projection.name).map(generation).collect(),
    }
}

fn generation(Generation { place, since, checkpoint, failed, verified, .. }: &Generation) -> ViewGeneration {
    let place = match place {
        Place::Next => ViewGenerationPlace::Next,
        Place::Previous => ViewGenerationPlace::Previous,
    };
    let Verified { differing, examples, .. } = verified.clone().unwrap_or_default();
    ViewGeneration {
        place: place.into(),
        since: Some((*since).into()),
        processed_sequence: checkpoint.map_or(0, |checkpoint| checkpoint.position.sequence),
        timestamp: checkpoint.map(|checkpoint| checkpoint.committed_at.into()),
        failed_event_count: *failed,
        verified_at: verified.as_ref().map(|verified| verified.at.into()),
        differing_rows: differing,
        differing_examples: examples,
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
        log: projection.class.name().to_owned(),
    }
}
