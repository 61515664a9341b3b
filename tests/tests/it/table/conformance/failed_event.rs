//! The rows of failed events and views for operators. Events that really fail are in `fault::parking`.

use futures::{FutureExt, future::BoxFuture};
use proto::{
    failed_event::{
        DiscardInstanceFailedEventRequest, GetInstanceFailedEventRequest, RetryInstanceFailedEventRequest,
        RetryInstanceFailedEventsRequest, RevealInstanceFailedEventRequest, SearchInstanceFailedEventsRequest,
    },
    object::{ListQuery, TimestampFilterMethod},
    operation::{
        DISCARD_FAILED_EVENT, DISCARD_INSTANCE_FAILED_EVENT, GET_FAILED_EVENT, GET_INSTANCE_FAILED_EVENT,
        RETRY_FAILED_EVENT, RETRY_FAILED_EVENTS, RETRY_INSTANCE_FAILED_EVENT, RETRY_INSTANCE_FAILED_EVENTS,
        REVEAL_FAILED_EVENT, REVEAL_INSTANCE_FAILED_EVENT, SEARCH_FAILED_EVENTS, SEARCH_INSTANCE_FAILED_EVENTS,
        SEARCH_VIEWS,
    },
    system::{
        Discard, DiscardFailedEventRequest, FailedEventSearchFilter, FailedEventState, FailedEventTimeFilter,
        GetFailedEventRequest, RetryFailedEventRequest, RetryFailedEventsRequest, Reveal, RevealFailedEventRequest,
        SearchFailedEventsRequest, SearchViewsRequest, failed_event_search_filter::Filter,
    },
    wellknown::Timestamp,
};
use tests::{auditor::connect, eventually};
use view::projection::HISTORY;

use super::{
    a_target,
    row::{Check, Subject, row},
    wire::World,
};

/// Creates a target and inserts a failure of its event, in an instance that does not exist: the failed event takes the
/// id of the target.
fn a_failed_event(world: &World) -> BoxFuture<'_, Subject> {
    failed_in(world, "1").boxed()
}

/// Creates a target with a failed event in the instance of the world.
fn one_of_the_instance(world: &World) -> BoxFuture<'_, Subject> {
    failed_in(world, &world.instance_id).boxed()
}

async fn failed_in(world: &World, instance_id: &str) -> Subject {
    let target = a_target(world).await;
    let id: i64 = target.id.parse().expect("ids are numbers");
    let sequence = i64::try_from(target.sequence).expect("it is small");
    let text = "insert into platform.failed_events select 'targets', max(version), 0, $4, 'target', $1, $2, $3, \
                0, 0, '', 1, 'made by hand', now(), now() from platform.checkpoints where projection = 'targets'";
    let postgres = connect(&world.postgres_url).await;
    // Whose it is, history says.
    let known = HISTORY.sql("select from {schema}.events where aggregate_id = $1");
    let is_known = async || postgres.query_opt(&known, &[&target.id]).await.expect("the table is there");
    eventually("history has it", is_known).await;
    postgres.execute(text, &[&target.id, &id, &sequence, &instance_id]).await.expect("the table is there");
    target
}

fn request(filters: Vec<Filter>) -> SearchFailedEventsRequest {
    let filters = filters.into_iter().map(|filter| FailedEventSearchFilter { filter: Some(filter) }).collect();
    SearchFailedEventsRequest { filters, query: None }
}

fn retry(filters: Vec<Filter>) -> RetryFailedEventsRequest {
    RetryFailedEventsRequest { filters: request(filters).filters }
}

fn discard(id: &str, reason: &str) -> DiscardFailedEventRequest {
    DiscardFailedEventRequest { id: id.to_owned(), discard: Some(Discard { reason: reason.to_owned() }) }
}

fn reveal(id: &str, reason: &str) -> RevealFailedEventRequest {
    RevealFailedEventRequest { id: id.to_owned(), reveal: Some(Reveal { reason: reason.to_owned() }) }
}

/// Returns all rows.
pub(super) fn rows() -> Vec<Box<dyn Check + Sync>> {
    let searches = row(&SEARCH_FAILED_EVENTS, a_target)
        .good("all", |_| request(vec![]))
        .good("of an aggregate", |it| {
            request(vec![Filter::AggregateType("target".into()), Filter::AggregateId(it.id.clone())])
        })
        .good("of a view in an instance", |_| {
            request(vec![Filter::ViewName("targets".into()), Filter::InstanceId("1".into())])
        })
        .good("by ids and states", |_| {
            let failed = Filter::State(FailedEventState::Failed.into());
            request(vec![Filter::Id("7".into()), Filter::Id("x".into()), failed])
        })
        .good("of what is being tried again", |_| request(vec![Filter::State(FailedEventState::Retrying.into())]))
        .good("by errors, times and targets", |_| {
            let last_failed = Some(Timestamp { seconds: 7, nanos: 8 });
            let by = FailedEventTimeFilter { last_failed, method: TimestampFilterMethod::Less.into() };
            request(vec![Filter::ErrorMessage("BY HAND".into()), Filter::LastFailed(by), Filter::TargetId("7".into())])
        })
        .good("a page", |_| SearchFailedEventsRequest {
            query: Some(ListQuery { offset: u64::MAX, limit: 2, asc: true }),
            ..request(vec![Filter::State(FailedEventState::Discarded.into())])
        })
        .bad("a filter that is none", "INVALID_REQUEST", |_| SearchFailedEventsRequest {
            query: None,
            filters: vec![FailedEventSearchFilter { filter: None }],
        })
        .bad("no text", "INVALID_REQUEST", |_| request(vec![Filter::ViewName("a\0".into())]))
        .bad("no time", "INVALID_REQUEST", |_| request(vec![Filter::LastFailed(FailedEventTimeFilter::default())]))
        .bad("no error", "INVALID_REQUEST", |_| request(vec![Filter::ErrorMessage(String::new())]))
        .bad("no state", "INVALID_REQUEST", |_| request(vec![Filter::State(FailedEventState::Unspecified.into())]))
        .bad("a large page", "INVALID_REQUEST", |_| SearchFailedEventsRequest {
            query: Some(ListQuery { limit: 1001, ..ListQuery::default() }),
            ..request(vec![])
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
    let all = vec![searches.done(), views.done(), gets.done(), retries.done(), retries_of_many.done(), discards.done()];
    all.into_iter().chain([reveals()]).chain(of_instance()).collect()
}

fn reveals() -> Box<dyn Check + Sync> {
    row(&REVEAL_FAILED_EVENT, one_of_the_instance)
        .showing("event")
        .good("one", |it| reveal(&it.id, "a ticket"))
        .bad("no reason", "INVALID_REQUEST", |it| reveal(&it.id, ""))
        .bad("a reason that is no text", "INVALID_REQUEST", |it| reveal(&it.id, "a\0"))
        .bad("a long reason", "INVALID_REQUEST", |it| reveal(&it.id, &"x".repeat(1001)))
        .done()
}

/// Returns the rows for administrators of an instance.
fn of_instance() -> Vec<Box<dyn Check + Sync>> {
    vec![
        row(&SEARCH_INSTANCE_FAILED_EVENTS, one_of_the_instance)
            .good("one", |it| SearchInstanceFailedEventsRequest {
                filters: request(vec![Filter::Id(it.id.clone())]).filters,
                query: None,
            })
            .alike()
            .done(),
        row(&GET_INSTANCE_FAILED_EVENT, one_of_the_instance)
            .good("one", |it| GetInstanceFailedEventRequest { id: it.id.clone() })
            .alike()
            .done(),
        row(&RETRY_INSTANCE_FAILED_EVENT, one_of_the_instance)
            .good("one", |it| RetryInstanceFailedEventRequest { id: it.id.clone() })
            .alike()
            .done(),
        row(&RETRY_INSTANCE_FAILED_EVENTS, one_of_the_instance)
            .good("of an aggregate", |it| RetryInstanceFailedEventsRequest {
                filters: request(vec![Filter::AggregateId(it.id.clone())]).filters,
            })
            .alike()
            .done(),
        row(&DISCARD_INSTANCE_FAILED_EVENT, one_of_the_instance)
            .good("one", |it| DiscardInstanceFailedEventRequest {
                id: it.id.clone(),
                discard: discard("", "its customer has left").discard,
            })
            .alike()
            .done(),
        row(&REVEAL_INSTANCE_FAILED_EVENT, one_of_the_instance)
            .showing("event")
            .good("one", |it| RevealInstanceFailedEventRequest {
                id: it.id.clone(),
                reveal: reveal("", "a ticket").reveal,
            })
            .alike()
            .done(),
    ]
}
