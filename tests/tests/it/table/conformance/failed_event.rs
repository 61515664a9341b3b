//! The rows of what operators of the platform see of projections. Events that really fail are in `fault::parking`.

use futures::{FutureExt, future::BoxFuture};
use proto::{
    failed_event::{
        DiscardInstanceFailedEventRequest, GetInstanceFailedEventRequest, RetryInstanceFailedEventRequest,
        RetryInstanceFailedEventsRequest, SearchInstanceFailedEventsRequest,
    },
    object::ListQuery,
    operation::{
        DISCARD_FAILED_EVENT, DISCARD_INSTANCE_FAILED_EVENT, GET_FAILED_EVENT, GET_INSTANCE_FAILED_EVENT,
        RETRY_FAILED_EVENT, RETRY_FAILED_EVENTS, RETRY_INSTANCE_FAILED_EVENT, RETRY_INSTANCE_FAILED_EVENTS,
        SEARCH_FAILED_EVENTS, SEARCH_INSTANCE_FAILED_EVENTS, SEARCH_VIEWS,
    },
    system::{
        Discard, DiscardFailedEventRequest, FailedEventSearchFilter, FailedEventState, GetFailedEventRequest,
        RetryFailedEventRequest, RetryFailedEventsRequest, SearchFailedEventsRequest, SearchViewsRequest,
        failed_event_search_filter::Filter,
    },
    wellknown::Timestamp,
};
use tests::auditor::connect;

use super::{
    a_target,
    row::{Check, Subject, row},
    wire::World,
};

/// A target whose event is noted as failed in an instance that is none, by hand: it takes the id of the target.
fn a_failed_event(world: &World) -> BoxFuture<'_, Subject> {
    noted(world, "1").boxed()
}

/// The same in the instance.
fn a_failed_event_of_instance(world: &World) -> BoxFuture<'_, Subject> {
    noted(world, &world.instance_id).boxed()
}

async fn noted(world: &World, instance_id: &str) -> Subject {
    let target = a_target(world).await;
    let id: i64 = target.id.parse().expect("ids are numbers");
    let sequence = i64::try_from(target.sequence).expect("it is small");
    let text = "insert into platform.failed_events select 'targets', max(version), 0, $4, 'target', $1, $2, $3, \
                    0, 0, '', 1, 'made by hand', now(), now() from platform.checkpoints where projection = 'targets'";
    let postgres = connect(&world.postgres_url).await;
    postgres.execute(text, &[&target.id, &id, &sequence, &instance_id]).await.expect("the table is there");
    target
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
        .good("by error and time", |_| {
            let (from, until) = (Filter::FailedFrom(Timestamp::from(jiff::Timestamp::UNIX_EPOCH)), a_time());
            found(vec![Filter::ErrorMessage("BY HAND".into()), from, until])
        })
        .bad("no part of an error", "INVALID_REQUEST", |_| found(vec![Filter::ErrorMessage(String::new())]))
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
    let of_system =
        vec![searches.done(), views.done(), gets.done(), retries.done(), retries_of_many.done(), discards.done()];
    of_system.into_iter().chain(of_instance()).collect()
}

fn of_own(filters: Vec<Filter>) -> SearchInstanceFailedEventsRequest {
    SearchInstanceFailedEventsRequest { filters: found(filters).filters, query: None }
}

fn discard_own(id: &str, reason: &str) -> DiscardInstanceFailedEventRequest {
    DiscardInstanceFailedEventRequest { id: id.to_owned(), discard: Some(Discard { reason: reason.to_owned() }) }
}

/// What owners of an instance see and do.
fn of_instance() -> Vec<Box<dyn Check + Sync>> {
    let searches = row(&SEARCH_INSTANCE_FAILED_EVENTS, a_failed_event_of_instance)
        .good("of an aggregate", |it| of_own(vec![Filter::AggregateId(it.id.clone())]))
        .good("of another instance", |_| of_own(vec![Filter::InstanceId("1".into())]))
        .good("what is left out", |_| of_own(vec![Filter::State(FailedEventState::Discarded.into()), a_time()]))
        .bad("no text", "INVALID_REQUEST", |_| of_own(vec![Filter::ViewName("a\0".into())]))
        .bad("a large page", "INVALID_REQUEST", |_| SearchInstanceFailedEventsRequest {
            query: Some(ListQuery { limit: 1001, ..ListQuery::default() }),
            ..of_own(vec![])
        });
    let gets = row(&GET_INSTANCE_FAILED_EVENT, a_failed_event_of_instance)
        .good("one", |it| GetInstanceFailedEventRequest { id: it.id.clone() });
    let retries = row(&RETRY_INSTANCE_FAILED_EVENT, a_failed_event_of_instance)
        .good("one", |it| RetryInstanceFailedEventRequest { id: it.id.clone() });
    let retries_of_many = row(&RETRY_INSTANCE_FAILED_EVENTS, a_failed_event_of_instance)
        .good("of an aggregate", |it| RetryInstanceFailedEventsRequest {
            filters: found(vec![Filter::AggregateId(it.id.clone())]).filters,
        })
        .good("of another instance", |_| RetryInstanceFailedEventsRequest {
            filters: found(vec![Filter::InstanceId("1".into())]).filters,
        })
        .bad("a filter that is none", "INVALID_REQUEST", |_| RetryInstanceFailedEventsRequest {
            filters: vec![FailedEventSearchFilter { filter: None }],
        });
    let discards = row(&DISCARD_INSTANCE_FAILED_EVENT, a_failed_event_of_instance)
        .good("one", |it| discard_own(&it.id, "its customer has left"))
        .bad("no reason", "INVALID_REQUEST", |it| discard_own(&it.id, ""));
    vec![searches.done(), gets.done(), retries.done(), retries_of_many.done(), discards.done()]
}

/// A condition that all fulfil.
fn a_time() -> Filter {
    Filter::FailedUntil(Timestamp { seconds: 253_000_000_000, nanos: 0 })
}
