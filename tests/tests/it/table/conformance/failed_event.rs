//! The rows of what operators of the platform see of projections. Events that really fail are in `fault::parking`.

use futures::{FutureExt, future::BoxFuture};
use proto::{
    object::ListQuery,
    operation::{
        DISCARD_FAILED_EVENT, GET_FAILED_EVENT, RETRY_FAILED_EVENT, RETRY_FAILED_EVENTS, SEARCH_FAILED_EVENTS,
        SEARCH_VIEWS,
    },
    system::{
        Discard, DiscardFailedEventRequest, FailedEventSearchFilter, FailedEventState, GetFailedEventRequest,
        RetryFailedEventRequest, RetryFailedEventsRequest, SearchFailedEventsRequest, SearchViewsRequest,
        failed_event_search_filter::Filter,
    },
};
use tests::auditor::connect;

use super::{
    a_target,
    row::{Check, Subject, row},
    wire::World,
};

/// A target whose event is noted as failed, by hand: it takes the id of the target.
fn a_failed_event(world: &World) -> BoxFuture<'_, Subject> {
    async move {
        let target = a_target(world).await;
        let id: i64 = target.id.parse().expect("ids are numbers");
        let sequence = i64::try_from(target.sequence).expect("it is small");
        let text = "insert into platform.failed_events select 'targets', max(version), 0, '1', 'target', $1, $2, $3, \
                    0, 0, '', 1, 'made by hand', now(), now() from platform.checkpoints where projection = 'targets'";
        let postgres = connect(&world.postgres_url).await;
        postgres.execute(text, &[&target.id, &id, &sequence]).await.expect("the table is there");
        target
    }
    .boxed()
}

fn found(filters: Vec<Filter>) -> SearchFailedEventsRequest {
    let filters = filters.into_iter().map(|filter| FailedEventSearchFilter { filter: Some(filter) }).collect();
    SearchFailedEventsRequest { filters, query: None }
}

fn retry(filters: Vec<Filter>) -> RetryFailedEventsRequest {
    RetryFailedEventsRequest { filters: found(filters).filters }
}

fn discard(id: &str, reason: &str) -> DiscardFailedEventRequest {
    DiscardFailedEventRequest { id: id.to_owned(), discard: Some(Discard { reason: reason.to_owned() }) }
}

/// All of them.
pub(super) fn rows() -> Vec<Box<dyn Check + Sync>> {
    let searches = row(&SEARCH_FAILED_EVENTS, a_target)
        .good("all", |_| found(vec![]))
        .good("of an aggregate", |it| {
            found(vec![Filter::AggregateType("target".into()), Filter::AggregateId(it.id.clone())])
        })
        .good("of a view in an instance", |_| {
            found(vec![Filter::ViewName("targets".into()), Filter::InstanceId("1".into())])
        })
        .good("by ids and states", |_| {
            let failed = Filter::State(FailedEventState::Failed.into());
            found(vec![Filter::Id("7".into()), Filter::Id("x".into()), failed])
        })
        .good("a page", |_| SearchFailedEventsRequest {
            query: Some(ListQuery { offset: u64::MAX, limit: 2, asc: true }),
            ..found(vec![Filter::State(FailedEventState::Discarded.into())])
        })
        .bad("a filter that is none", "INVALID_REQUEST", |_| SearchFailedEventsRequest {
            query: None,
            filters: vec![FailedEventSearchFilter { filter: None }],
        })
        .bad("no text", "INVALID_REQUEST", |_| found(vec![Filter::ViewName("a\0".into())]))
        .bad("no state", "INVALID_REQUEST", |_| found(vec![Filter::State(FailedEventState::Unspecified.into())]))
        .bad("a large page", "INVALID_REQUEST", |_| SearchFailedEventsRequest {
            query: Some(ListQuery { limit: 1001, ..ListQuery::default() }),
            ..found(vec![])
        });
    let views = row(&SEARCH_VIEWS, a_target).good("all", |_| SearchViewsRequest {}).moving();
    let gets = row(&GET_FAILED_EVENT, a_failed_event).good("one", |it| GetFailedEventRequest { id: it.id.clone() });
    let retries =
        row(&RETRY_FAILED_EVENT, a_failed_event).good("one", |it| RetryFailedEventRequest { id: it.id.clone() });
    let retries_of_many = row(&RETRY_FAILED_EVENTS, a_failed_event)
        .good("of an aggregate", |it| retry(vec![Filter::AggregateId(it.id.clone())]))
        .good("of nothing", |_| retry(vec![Filter::State(FailedEventState::Discarded.into())]))
        .bad("a filter that is none", "INVALID_REQUEST", |_| RetryFailedEventsRequest {
            filters: vec![FailedEventSearchFilter { filter: None }],
        });
    let discards = row(&DISCARD_FAILED_EVENT, a_failed_event)
        .good("one", |it| discard(&it.id, "its customer has left"))
        .bad("no reason", "INVALID_REQUEST", |it| discard(&it.id, ""))
        .bad("a reason that is no text", "INVALID_REQUEST", |it| discard(&it.id, "a\0"))
        .bad("a long reason", "INVALID_REQUEST", |it| discard(&it.id, &"x".repeat(1001)));
    vec![searches.done(), views.done(), gets.done(), retries.done(), retries_of_many.done(), discards.done()]
}
