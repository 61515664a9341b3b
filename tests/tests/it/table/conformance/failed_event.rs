//! The rows of what operators of the platform see of projections. Events that really fail are in `fault::parking`.

use proto::{
    object::ListQuery,
    operation::{SEARCH_FAILED_EVENTS, SEARCH_VIEWS},
    system::{
        FailedEventSearchFilter, FailedEventState, SearchFailedEventsRequest, SearchViewsRequest,
        failed_event_search_filter::Filter,
    },
};

use super::{
    a_target,
    row::{Check, row},
};

fn found(filters: Vec<Filter>) -> SearchFailedEventsRequest {
    let filters = filters.into_iter().map(|filter| FailedEventSearchFilter { filter: Some(filter) }).collect();
    SearchFailedEventsRequest { filters, query: None }
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
    let views = row(&SEARCH_VIEWS, a_target).good("all", |_| SearchViewsRequest {});
    vec![searches.done(), views.done()]
}
