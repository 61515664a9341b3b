//! Reads of failed events and views: by operators of the platform, and of an instance by its administrators.

use std::{sync::Arc, time::Duration};

use api::failed_event::FailedEventQuery;
use domain::{
    aggregate::Aggregate,
    context::Owner,
    failed_event::{FailedEvent as Aggregated, Filter, State},
    log_class::{LogClass, OfEach},
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
use proto::{
    event::Event,
    failed_event::{
        GetInstanceFailedEventRequest, GetInstanceFailedEventResponse, SearchInstanceFailedEventsRequest,
        SearchInstanceFailedEventsResponse,
    },
    object::{ListDetails, ListQuery},
    system::{
        FailedEvent, FailedEventSearchFilter, GetFailedEventRequest, GetFailedEventResponse, Reaction, ReactionState,
        SearchFailedEventsRequest, SearchFailedEventsResponse, SearchViewsRequest, SearchViewsResponse, View,
        ViewCheck, ViewGeneration, ViewGenerationPlace, ViewState,
    },
};
use view::{
    failed_event::{
        ParkedAt, View as Failing,
        decided::with_followers,
        search::{self, Decided, Page, ProjectionProgress},
    },
    generation::{Generation, Verified, generations},
    projection::{GenerationSlot, HISTORY},
    reaction::{self, REACTIONS},
    rows::Fresh,
    scrub::{Scrub, scrubs},
};

use crate::{
    Queries, get,
    search::{Counted, bounded, page_details},
};

/// Mounts the reads of this module.
pub(super) fn mount(mounting: Mounting<Queries>) -> Mounting<Queries> {
    mounting.on(search_failed).on(search_of_instance).on(get).on(get_of_instance).on(views)
}

async fn search_failed(
    queries: Arc<Queries>,
    call: Call,
    SearchFailedEventsRequest { query, filters }: SearchFailedEventsRequest,
) -> Result<Answer<SearchFailedEventsResponse>, Error> {
    insist_on_right(&call, &Owner::system())?;
    let answer = |(details, result)| SearchFailedEventsResponse { details: Some(details), result };
    find(&queries, &call, query, search_of(filters), answer).await
}

async fn search_of_instance(
    queries: Arc<Queries>,
    call: Call,
    SearchInstanceFailedEventsRequest { query, filters }: SearchInstanceFailedEventsRequest,
) -> Result<Answer<SearchInstanceFailedEventsResponse>, Error> {
    let within = of_instance(&call)?;
    let answer = |(details, result)| SearchInstanceFailedEventsResponse { details: Some(details), result };
    find(&queries, &call, query, Page { within: Some(within), ..search_of(filters) }, answer).await
}

/// Returns the search for failed events of all instances that match these filters.
fn search_of(wanted: Vec<FailedEventSearchFilter>) -> Page {
    let FailedEventQuery { filters, state } = api::failed_event::query(wanted);
    Page { filters, state, ..Page::default() }
}

async fn find<O>(
    queries: &Queries,
    call: &Call,
    query: Option<ListQuery>,
    search: Page,
    answer: impl FnOnce((ListDetails, Vec<FailedEvent>)) -> O,
) -> Result<Answer<O>, Error> {
    let (query, limit) = bounded(query, queries.bounds.limits)?;
    let is_within = search.within.is_some();
    let page = Page { ascending: query.asc, offset: query.offset, limit, ..search };
    let read = || get::in_turn(queries, call, search::search(&queries.audit, call.tenant.shard, &page));
    let Fresh { processed, timestamp, answer: (events, total), .. } =
        get::as_fresh(queries, call, &HISTORY, read).await?;
    let counted = Counted { found: events.len(), total };
    let details = page_details(query.offset, limit, counted, processed, timestamp);
    let message = answer((details, events.into_iter().map(|event| response(event, is_within)).collect()));
    let token = call.token_at(&queries.tokens, LogClass::Events, processed).await?;
    Ok(Answer { message, status: None, metadata: vec![(HEADER, token)] })
}

async fn get(
    queries: Arc<Queries>,
    call: Call,
    GetFailedEventRequest { id }: GetFailedEventRequest,
) -> Result<Answer<GetFailedEventResponse>, Error> {
    insist_on_right(&call, &Owner::system())?;
    let answer = |(failed_event, event, waiting)| GetFailedEventResponse { failed_event, event, waiting };
    find_one(&queries, &call, &id, None, answer).await
}

async fn get_of_instance(
    queries: Arc<Queries>,
    call: Call,
    GetInstanceFailedEventRequest { id }: GetInstanceFailedEventRequest,
) -> Result<Answer<GetInstanceFailedEventResponse>, Error> {
    let within = of_instance(&call)?;
    let answer = |(failed_event, event, waiting)| GetInstanceFailedEventResponse { failed_event, event, waiting };
    find_one(&queries, &call, &id, Some(within), answer).await
}

/// Finds a failed event, or else a discarded one, with the event itself and how many of its aggregate wait.
async fn find_one<O>(
    queries: &Queries,
    call: &Call,
    id: &str,
    within: Option<String>,
    answer: impl FnOnce((Option<FailedEvent>, Option<Event>, u64)) -> O,
) -> Result<Answer<O>, Error> {
    let is_within = within.is_some();
    let filters = vec![Filter::Id(api::failed_event::id(id))];
    let page = Page { filters, within, limit: 1, ..Page::default() };
    let discarded = Page { state: Some(State::Discarded), ..page.clone() };
    let either = || async {
        let waiting = search::search(&queries.audit, call.tenant.shard, &page).await?;
        if !waiting.answer.0.is_empty() {
            return Ok(waiting);
        }
        search::search(&queries.audit, call.tenant.shard, &discarded).await
    };
    let read = || get::in_turn(queries, call, either());
    let Fresh { processed, answer: (found, _), .. } = get::as_fresh(queries, call, &HISTORY, read).await?;
    let token = call.token_at(&queries.tokens, LogClass::Events, processed).await?;
    let Some(found) = found.into_iter().next() else {
        return Err(Error::from(Rejection::NotFound(Aggregated::NAME)).header(HEADER, token));
    };
    let (key, sequence) = (&found.parked.key, found.parked.sequence);
    let waiting_events = with_followers(&queries.audit, key, sequence).await;
    let (event, behind) = waiting_events.map_err(|failure| read_model(Arc::new(failure)))?;
    let waits_alone = matches!(found.view, Failing::Deliveries) || found.state == State::Discarded;
    let waiting = if waits_alone { 0 } else { behind };
    // The same rule as in the search of events.
    let event = event.filter(|event| !is_within || event.is_for_instance());
    let message = answer((Some(response(found, is_within)), event.map(api::event::closed), waiting));
    Ok(Answer { message, status: None, metadata: vec![(HEADER, token)] })
}

/// Returns the instance of the call, if its caller may administer that.
fn of_instance(call: &Call) -> Result<String, Error> {
    insist_on_right(call, &Owner::instance(&call.tenant.id))?;
    Ok(call.tenant.id.clone())
}

async fn views(
    queries: Arc<Queries>,
    call: Call,
    SearchViewsRequest {}: SearchViewsRequest,
) -> Result<Answer<SearchViewsResponse>, Error> {
    insist_on_right(&call, &Owner::system())?;
    let read = || search::progress(&queries.audit, call.tenant.shard);
    let Fresh { processed, timestamp, answer: stands, .. } = get::as_fresh(&queries, &call, &HISTORY, read).await?;
    let beside = generations(&queries.audit, call.tenant.shard).await;
    let beside = beside.map_err(|failure| read_model(Arc::new(failure)))?;
    let checks = scrubs(&queries.audit, call.tenant.shard).await;
    let checks = checks.map_err(|failure| read_model(Arc::new(failure)))?;
    let total = stands.len();
    let limit = u32::try_from(total).unwrap_or(u32::MAX);
    let counted = Counted { found: total, total: total as u64 };
    let details = Some(page_details(0, limit, counted, processed, timestamp));
    let mut ends = OfEach::<u64>::default();
    for ProjectionProgress { projection, sequence, .. } in &stands {
        ends[projection.class] = ends[projection.class].max(*sequence);
    }
    let result = stands.into_iter().map(|stand| view(&queries, &stand, &beside, &checks, &ends)).collect();
    let token = call.token_at(&queries.tokens, LogClass::Events, processed).await?;
    let reactions = REACTIONS.iter().map(|name| reaction(&queries, name)).collect();
    let message = SearchViewsResponse { details, result, reactions };
    Ok(Answer { message, status: None, metadata: vec![(HEADER, token)] })
}

fn view(
    queries: &Queries,
    ProjectionProgress { projection, sequence, committed_at, failed }: &ProjectionProgress,
    beside: &[Generation],
    checks: &[Scrub],
    ends: &OfEach<u64>,
) -> View {
    let stopped = queries.progress.stopped(projection);
    let shown = queries.indexes.of(projection).and_then(|index| index.borrow().clone());
    let (sequence, at) =
        shown.map_or((*sequence, *committed_at), |snapshot| (snapshot.position.sequence, snapshot.committed_at));
    View {
        database: Failing::Projection(projection).database().to_owned(),
        view_name: projection.name.to_owned(),
        version: u32::try_from(projection.version).unwrap_or_default(),
        state: if stopped.is_some() { ViewState::Stopped } else { ViewState::Serving }.into(),
        stopped_reason: stopped.unwrap_or_default(),
        lag: ends[projection.class].saturating_sub(sequence),
        processed_sequence: sequence,
        timestamp: Some(at.into()),
        failed_event_count: *failed,
        log: projection.class.name().to_owned(),
        generations: beside.iter().filter(|other| other.projection.view == projection.name).map(generation).collect(),
        check: checks.iter().find(|scrub| scrub.projection.name == projection.name).map(check),
    }
}

fn check(Scrub { checked_at, checked, repaired_at, repaired, examples, .. }: &Scrub) -> ViewCheck {
    ViewCheck {
        checked_at: checked_at.map(Into::into),
        checked_rows: *checked,
        repaired_at: repaired_at.map(Into::into),
        repaired_rows: *repaired,
        repaired_examples: examples.clone(),
    }
}

/// Returns how far a reaction is, as its node has reported it.
fn reaction(queries: &Queries, name: &str) -> Reaction {
    let reported = queries.progress.reactions.of(name);
    let state = if reported.is_some() { ReactionState::Working } else { ReactionState::Silent };
    let reaction::Reaction { sequence, lag_events, lag_seconds, waiting, given_up, .. } = reported.unwrap_or_default();
    Reaction {
        name: name.to_owned(),
        state: state.into(),
        log: LogClass::Events.name().to_owned(),
        processed_sequence: sequence,
        lag: lag_events,
        // A duration that does not fit counts as the longest one.
        lag_seconds: Duration::try_from_secs_f64(lag_seconds.max(0.0)).unwrap_or(Duration::MAX).as_secs(),
        waiting,
        failed_event_count: given_up,
    }
}

fn generation(Generation { place, since, checkpoint, failed, verified, .. }: &Generation) -> ViewGeneration {
    let place = match place {
        GenerationSlot::Next => ViewGenerationPlace::Next,
        GenerationSlot::Previous => ViewGenerationPlace::Previous,
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

/// Refuses a caller without the permission in this context.
fn insist_on_right(call: &Call, context: &Owner) -> Result<(), Error> {
    if call.may(context) {
        return Ok(());
    }
    Err(permission_denied(call.operation.permission.unwrap_or_default()))
}

/// Within an instance, what operators of the platform have decided is returned without their names and reasons.
fn response(found: search::FailedEvent, is_within: bool) -> FailedEvent {
    let search::FailedEvent { id, view, parked, failure_count, first_failed, target_id, state, decided } = found;
    let at = decided.as_ref().map(|decided| decided.at.into());
    let (by, reason) = decided
        .filter(|decided| !is_within || !decided.is_of_system)
        .map(|Decided { by, reason, .. }| (by, reason))
        .unwrap_or_default();
    let ((retried_by, retried_at), (discarded_by, discarded_at)) = match state {
        State::Retrying => ((by, at), Default::default()),
        State::Failed | State::Discarded => (Default::default(), (by, at)),
    };
    let ParkedAt { key, sequence, error, last_failed, .. } = parked;
    FailedEvent {
        database: view.database().to_owned(),
        view_name: view.name().to_owned(),
        failed_sequence: sequence,
        failure_count,
        error_message: error,
        first_failed: Some(first_failed.into()),
        last_failed: last_failed.map(Into::into),
        id: id.to_string(),
        instance_id: key.instance_id,
        aggregate_type: key.aggregate_type,
        aggregate_id: key.id,
        sequence,
        tries: u32::try_from(failure_count).unwrap_or(u32::MAX),
        state: api::failed_event::state(state).into(),
        log: view.class().name().to_owned(),
        target_id,
        discarded_by,
        discarded_at,
        reason,
        retried_by,
        retried_at,
    }
}
