//! Searches: take filters, order and page, and return documents and their freshness.

use std::{sync::Arc, time::Duration};

use base::clock;
use domain::{
    context::{Owner, OwnerType},
    standard::Resource,
};
use edge::{
    answer::Answer,
    call::Call,
    consistency::{HEADER, waited},
    error::{Error, Reason},
    freshness::Consistency,
    page::Limits,
    refusal::too_many_searches,
};
use index::{Bounds, Filter, Hits, IndexFailure, Page, Search, SearchInterrupted, Snapshot, SnapshotReceiver, SortKey};
use jiff::Timestamp;
use proto::object::{ListDetails, ListQuery};
use view::projection::index_of;

use crate::{Queries, SearchBounds};

/// The parameters of a list request, for any resource.
pub(crate) struct List<R: 'static> {
    pub(crate) query: Option<ListQuery>,
    pub(crate) key: SortKey<R>,
    pub(crate) filters: Vec<Filter<R>>,
}

/// The number of results on a page, and in all.
pub(crate) struct Counted {
    pub(crate) found: usize,
    pub(crate) total: u64,
}

/// The details of a page. If it had no room for everything that was requested, the limit is the number of its results,
/// so that a client that adds it to the offset misses nothing.
pub(crate) fn page_details(
    offset: u64,
    limit: u32,
    Counted { found, total }: Counted,
    processed: u64,
    committed_at: Timestamp,
) -> ListDetails {
    let found = u32::try_from(found).unwrap_or(u32::MAX);
    let end_of_list = offset.saturating_add(found.into()) >= total;
    ListDetails {
        applied_limit: if end_of_list { limit } else { limit.min(found) },
        end_of_list,
        total_result: total,
        processed_sequence: processed,
        timestamp: Some(committed_at.into()),
    }
}

/// The part of an index that a caller requests and may read. It is part of the search, so that totals are right.
pub(crate) struct Visible<R: 'static> {
    /// The instances; `None` for all of the system.
    pub(crate) instances: Option<Vec<String>>,
    /// The filters within these instances.
    pub(crate) filters: Vec<Filter<R>>,
}

/// Searches an index, as fresh as the caller requires, and makes an answer of the results.
pub(crate) async fn search<R: Resource, O>(
    queries: &Queries,
    call: &Call,
    list: List<R>,
    answer: impl FnOnce(ListDetails, Hits<R>) -> O,
) -> Result<Answer<O>, Error> {
    let visible = visible::<R>(queries, call);
    search_in(queries, call, visible, list, answer).await
}

/// Searches an index within a visible part of it.
pub(crate) async fn search_in<R: Resource, O>(
    queries: &Queries,
    call: &Call,
    visible: Visible<R>,
    list: List<R>,
    answer: impl FnOnce(ListDetails, Hits<R>) -> O,
) -> Result<Answer<O>, Error> {
    let (ListQuery { offset, asc, .. }, limit) = bounded(list.query, queries.bounds.limits)?;
    let page = Page {
        key: list.key,
        ascending: asc,
        offset: usize::try_from(offset).unwrap_or(usize::MAX / 2),
        limit: limit as usize,
    };
    let index = queries.indexes.of(index_of::<R>()).ok_or_else(not_here)?;
    let consistency = call.consistency[R::CLASS];
    let snapshot = fresh(consistency, index).await;
    waited(consistency, snapshot.as_ref().ok().map(|snapshot| snapshot.position.sequence));
    let snapshot = snapshot?;
    let (processed, committed_at) = (snapshot.position.sequence, snapshot.committed_at);
    let Visible { instances, mut filters } = visible;
    let now = clock::now().as_millisecond();
    filters.extend(R::EXPIRES_AT.map(|column| Filter::Above { column, value: now }));
    filters.extend(without_removed(queries, instances.as_deref()));
    filters.extend(list.filters);
    let search = Search { instances, filters, page };
    let seat = queries.searches.take(&call.tenant.id).await.ok_or_else(too_many_searches)?;
    let bounds = Bounds::new(queries.bounds.time, queries.bounds.documents);
    // Bound to this request, which is dropped when its client has gone.
    let _caller = bounds.caller();
    let hits = tokio::task::spawn_blocking(move || {
        let _seat = seat;
        snapshot.search(&search, &bounds)
    })
    .await;
    let hits = hits.map_err(|error| Error::internal(&error))?.map_err(|failure| stopped(&failure, queries.bounds))?;
    let counted = Counted { found: hits.page.len(), total: hits.total as u64 };
    let details = page_details(offset, limit, counted, processed, committed_at);
    let token = call.token_at(&queries.tokens, R::CLASS, processed).await?;
    Ok(Answer { message: answer(details, hits), status: None, metadata: vec![(HEADER, token)] })
}

/// Filters that leave out what depends on removed objects, which a sweep may remove later.
fn without_removed<R: Resource>(queries: &Queries, instances: Option<&[String]>) -> Vec<Filter<R>> {
    let gone = R::STANDS_ON.iter().map(|(kind, column)| (column, queries.ended.removed_lately(instances, kind)));
    let gone = gone.filter(|(_, ids)| !ids.is_empty());
    gone.map(|(column, ids)| Filter::NoneOf { column, texts: ids }).collect()
}

/// The visible part of an index of resources that belong to one context each.
fn visible<R: Resource>(queries: &Queries, call: &Call) -> Visible<R> {
    let is_operator = call.may(&Owner::system());
    let (instances, removed) = match call.instance_for::<R>() {
        // Only operators of the platform find instances, and they see all of them.
        None if is_operator => return Visible { instances: None, filters: vec![] },
        Some(_) if is_operator && call.context.kind == OwnerType::System => (None, queries.ended.removed_anywhere()),
        Some(id) if call.context.kind != OwnerType::System => (Some(vec![id.to_owned()]), queries.ended.removed(id)),
        _ => return Visible { instances: None, filters: vec![Filter::In(vec![])] },
    };
    let removed = (!removed.is_empty()).then_some(Filter::NotIn(removed));
    Visible { instances, filters: within(call).into_iter().chain(removed).collect() }
}

/// The requested part of a list, and the limit of results.
pub(crate) fn bounded(query: Option<ListQuery>, limits: Limits) -> Result<(ListQuery, u32), Error> {
    let query = query.unwrap_or_default();
    match query.limit {
        0 => Ok((query, limits.default)),
        limit if limit <= limits.largest => Ok((query, limit)),
        limit => Err(limit_exceeded(limit, limits.largest)),
    }
}

/// The part of the context of a call that its caller may read.
fn within<R>(call: &Call) -> Option<Filter<R>> {
    match (call.context.kind, call.contexts()) {
        // Admission has checked the caller, for whom roles in a part of it suffice.
        (OwnerType::Organization, _) if call.may(&call.context) || call.belongs_to(&call.context) => {
            Some(Filter::In(vec![call.context.clone()]))
        }
        (OwnerType::Organization, _) => {
            let parts = call.parts().into_iter().filter(|(context, _)| *context == call.context);
            Some(Filter::Within { contexts: vec![], parts: parts.collect() })
        }
        (OwnerType::System, _) => None,
        (OwnerType::Instance, Some(contexts)) => Some(Filter::Within { contexts, parts: call.parts() }),
        (OwnerType::Instance, None) if call.may(&Owner::system()) => None,
        (OwnerType::Instance, None) => Some(Filter::NotIn(vec![Owner::system()])),
    }
}

/// The newest snapshot that is fresh enough, waited for without polling.
async fn fresh(consistency: Consistency, index: SnapshotReceiver) -> Result<Arc<Snapshot>, Error> {
    let newest = index.clone();
    let look = || std::future::ready(Ok::<_, Error>(newest.borrow().clone()));
    let processed = |seen: &Option<Arc<Snapshot>>| seen.as_ref().map(|snapshot| snapshot.position.sequence);
    let snapshot = consistency.look_until_fresh(index, look, processed).await?.ok_or_else(not_here)?;
    consistency.accept(snapshot.position.sequence)?;
    Ok(snapshot)
}

fn not_here() -> Error {
    let message = "the search index is not available on this node yet";
    Error::new(Reason::ReadModelUnavailable, message).retry_after(Duration::from_secs(1))
}

/// The error for a search that exceeded its bounds, or failed.
fn stopped(failure: &IndexFailure, SearchBounds { time, documents, .. }: SearchBounds) -> Error {
    match failure {
        IndexFailure::Stopped(SearchInterrupted::TooMany) => {
            let message = format!("the search matches more than {documents} objects; narrow it with filters");
            Error::new(Reason::InvalidRequest, message).violation("filters", "must match fewer objects")
        }
        IndexFailure::Stopped(SearchInterrupted::Late | SearchInterrupted::Gone) => {
            let message = format!("the search took more than {} ms; narrow it with filters", time.as_millis());
            Error::new(Reason::DeadlineExceeded, message)
        }
        failure => Error::internal(failure),
    }
}

fn limit_exceeded(limit: u32, largest: u32) -> Error {
    let message = format!("the limit is {limit}, at most {largest} is allowed");
    Error::new(Reason::InvalidRequest, message)
        .violation("query.limit", format!("must be at most {largest}"))
        .with("given", limit.to_string())
        .with("allowed", largest.to_string())
}
