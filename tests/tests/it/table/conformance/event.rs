//! The rows of events, and of operations of operators.

use proto::{
    event::{EventSearchFilter, EventTimeFilter, SearchEventsRequest, event_search_filter::Filter},
    object::{ListQuery, TimestampFilterMethod, request_context::ResourceOwner},
    operation::{REWRAP_DATA_KEYS, SEARCH_EVENTS, SEARCH_SYSTEM_EVENTS},
    system::{RewrapDataKeysRequest, SearchSystemEventsRequest},
    wellknown::Timestamp,
};

use super::{
    a_target, context,
    row::{Check, row},
};

fn search_request(filters: Vec<Filter>) -> SearchEventsRequest {
    let filters = filters.into_iter().map(|filter| EventSearchFilter { filter: Some(filter) }).collect();
    SearchEventsRequest { filters, ..SearchEventsRequest::default() }
}

fn committed(method: TimestampFilterMethod) -> Filter {
    let creation_date = Some(Timestamp::from(jiff::Timestamp::UNIX_EPOCH));
    Filter::CreationDate(EventTimeFilter { creation_date, method: method.into() })
}

/// Returns all rows.
pub(super) fn rows() -> Vec<Box<dyn Check + Sync>> {
    let searches = row(&SEARCH_EVENTS, a_target)
        .good("of an object", |it| search_request(vec![Filter::AggregateId(it.id.clone())]))
        .good("the oldest", |_| SearchEventsRequest {
            query: Some(ListQuery { offset: 1, limit: 2, asc: true }),
            ..search_request(vec![committed(TimestampFilterMethod::Greater)])
        })
        .good("nothing", |_| {
            search_request(vec![committed(TimestampFilterMethod::Less), Filter::Type("user.added".into())])
        })
        .good("of a kind, by somebody", |_| {
            search_request(vec![Filter::AggregateType("instance".into()), Filter::ActorId("setup".into())])
        })
        .bad("a filter that is none", "INVALID_REQUEST", |_| SearchEventsRequest {
            filters: vec![EventSearchFilter { filter: None }],
            ..SearchEventsRequest::default()
        })
        .bad("no text", "INVALID_REQUEST", |_| search_request(vec![Filter::ActorId("a\0".into())]))
        .bad("no time", "INVALID_REQUEST", |_| search_request(vec![Filter::CreationDate(EventTimeFilter::default())]))
        .bad("a large page", "INVALID_REQUEST", |_| SearchEventsRequest {
            query: Some(ListQuery { limit: 1001, ..ListQuery::default() }),
            ..SearchEventsRequest::default()
        })
        .bad("of the system", "PERMISSION_DENIED", |_| SearchEventsRequest {
            ctx: Some(context(ResourceOwner::System(true))),
            ..SearchEventsRequest::default()
        });
    vec![searches.done(), of_system(), rewraps()]
}

fn rewraps() -> Box<dyn Check + Sync> {
    row(&REWRAP_DATA_KEYS, a_target)
        .good("nothing to do", |_| RewrapDataKeysRequest::default())
        .bad("another key", "PRECONDITION_FAILED", |_| RewrapDataKeysRequest {
            master_key_id: "0123456789abcdef".into(),
        })
        .done()
}

fn everywhere(filters: Vec<Filter>) -> SearchSystemEventsRequest {
    SearchSystemEventsRequest { query: None, filters: search_request(filters).filters }
}

fn of_system() -> Box<dyn Check + Sync> {
    row(&SEARCH_SYSTEM_EVENTS, a_target)
        .good("of an object", |it| everywhere(vec![Filter::AggregateId(it.id.clone())]))
        .good("what is new", |it| everywhere(vec![Filter::AfterSequence(it.sequence - 1)]))
        .good("the oldest", |_| SearchSystemEventsRequest {
            query: Some(ListQuery { offset: 1, limit: 2, asc: true }),
            ..everywhere(vec![])
        })
        .bad("a filter that is none", "INVALID_REQUEST", |_| SearchSystemEventsRequest {
            query: None,
            filters: vec![EventSearchFilter { filter: None }],
        })
        .done()
}
