//! Targets as they are read.

use std::{sync::Arc, time::Duration};

use domain::{
    field::Kind,
    resource::target::{Mode, Target, TargetKind},
};
use proto::action::{
    self, GetTarget, GetTargetRequest, GetTargetResponse, SearchTargetsRequest, SearchTargetsResponse,
    SetRestRequestResponse, SetRestWebhook, TargetFieldName, TargetSearchFilter,
    target::{ExecutionType, TargetType},
    target_search_filter,
};
use store::{
    index::{Filter, Hits, Key},
    projection::{TARGETS, TARGETS_INDEX},
    rows::Found,
};
use transport::{details, edge::Call, error::Error, mount::Answer};

use crate::{
    Queries,
    search::{List, method},
};

pub(super) async fn get(
    queries: Arc<Queries>,
    call: Call,
    request: GetTargetRequest,
) -> Result<Answer<GetTargetResponse>, Error> {
    let answer = |found| GetTargetResponse { target: Some(response(&found)) };
    queries.get::<Target, _>(&call, &TARGETS, &request.id, answer).await
}

pub(super) async fn search(
    queries: Arc<Queries>,
    call: Call,
    request: SearchTargetsRequest,
) -> Result<Answer<SearchTargetsResponse>, Error> {
    let column = request.sorting_column();
    let list = List {
        query: request.query,
        key: key(column),
        filters: request.filters.into_iter().filter_map(filter).collect(),
    };
    let answer = |details, hits: Hits<Target>| SearchTargetsResponse {
        details: Some(details),
        sorting_column: column.into(),
        result: hits.page.iter().map(response).collect(),
    };
    queries.search(&call, &TARGETS_INDEX, list, answer).await
}

fn key(column: TargetFieldName) -> Key {
    match column {
        TargetFieldName::Unspecified | TargetFieldName::CreationDate => Key::Created,
        TargetFieldName::Id => Key::Id,
        TargetFieldName::ChangeDate => Key::Changed,
        TargetFieldName::Name => Key::Column("name", Kind::Text),
        TargetFieldName::TargetType => Key::Column("target_type", Kind::Text),
        TargetFieldName::Url => Key::Column("url", Kind::Text),
        TargetFieldName::Timeout => Key::Column("timeout_ms", Kind::Integer),
        TargetFieldName::Async => Key::Column("is_async", Kind::Bool),
        TargetFieldName::InterruptOnError => Key::Column("interrupt_on_error", Kind::Bool),
    }
}

fn filter(filter: TargetSearchFilter) -> Option<Filter> {
    Some(match filter.filter? {
        target_search_filter::Filter::Name(name) => {
            let (method, ignores_case) = method(name.method());
            Filter::Text { column: "name", method, ignores_case, text: name.name }
        }
        target_search_filter::Filter::InIds(ids) => Filter::Ids(ids.ids),
    })
}

fn response(found: &Found<Target>) -> GetTarget {
    let Target { name, kind, url, timeout_ms, mode, signing_keys: _ } = found.state.clone();
    let target = action::Target {
        name,
        target_type: Some(match kind {
            TargetKind::RestWebhook => TargetType::RestWebhook(SetRestWebhook { url }),
            TargetKind::RestRequestResponse => TargetType::RestRequestResponse(SetRestRequestResponse { url }),
        }),
        timeout: Duration::from_millis(timeout_ms).try_into().ok(),
        execution_type: match mode {
            Mode::Continue => None,
            Mode::Async => Some(ExecutionType::IsAsync(true)),
            Mode::InterruptOnError => Some(ExecutionType::InterruptOnError(true)),
        },
    };
    GetTarget { details: Some(details::of(found)), target: Some(target) }
}
