//! Executions as they are read, and what their conditions can name.

use std::sync::Arc;

use api::{condition, details};
use domain::{
    column::Column,
    resource::execution::{Execution, column},
};
use edge::{answer::Answer, call::Call, error::Error};
use index::{Filter, Hits, Key, Method};
use proto::action::{
    self, ExecutionSearchFilter, ExecutionType, GetExecution, ListAvailableExecutionFunctionsRequest,
    ListAvailableExecutionFunctionsResponse, ListAvailableExecutionMethodsRequest,
    ListAvailableExecutionMethodsResponse, ListAvailableExecutionServicesRequest,
    ListAvailableExecutionServicesResponse, SearchExecutionsRequest, SearchExecutionsResponse, execution_search_filter,
};
use view::{projection::EXECUTIONS_INDEX, rows::Found};

use crate::{Queries, search::List};

pub(super) async fn search(
    queries: Arc<Queries>,
    call: Call,
    request: SearchExecutionsRequest,
) -> Result<Answer<SearchExecutionsResponse>, Error> {
    let filters = request.filters.into_iter().enumerate();
    let filters = filters.map(|(index, wanted)| filter(&call.tenant.id, index, wanted));
    let list = List { query: request.query, key: Key::Created, filters: filters.collect::<Result<_, _>>()? };
    let answer = |details, hits: Hits<Execution>| SearchExecutionsResponse {
        details: Some(details),
        result: hits.page.iter().map(response).collect(),
    };
    queries.search(&call, &EXECUTIONS_INDEX, list, answer).await
}

pub(super) async fn functions(
    queries: Arc<Queries>,
    call: Call,
    _: ListAvailableExecutionFunctionsRequest,
) -> Result<Answer<ListAvailableExecutionFunctionsResponse>, Error> {
    queries.constant(&call, ListAvailableExecutionFunctionsResponse { functions: condition::functions() }).await
}

pub(super) async fn methods(
    queries: Arc<Queries>,
    call: Call,
    _: ListAvailableExecutionMethodsRequest,
) -> Result<Answer<ListAvailableExecutionMethodsResponse>, Error> {
    let methods = condition::methods(&queries.operations);
    queries.constant(&call, ListAvailableExecutionMethodsResponse { methods }).await
}

pub(super) async fn services(
    queries: Arc<Queries>,
    call: Call,
    _: ListAvailableExecutionServicesRequest,
) -> Result<Answer<ListAvailableExecutionServicesResponse>, Error> {
    let services = condition::services(&queries.operations);
    queries.constant(&call, ListAvailableExecutionServicesResponse { services }).await
}

fn filter(instance_id: &str, index: usize, wanted: ExecutionSearchFilter) -> Result<Filter, Error> {
    use execution_search_filter::Filter as Wanted;
    Ok(match wanted.filter {
        Some(Wanted::InConditions(conditions)) => {
            let path = format!("filters[{index}].in_conditions.conditions");
            let conditions = conditions.conditions.into_iter().map(|wanted| condition::read(wanted, &path));
            Filter::Ids(conditions.map(|read| Ok(condition::id(instance_id, &read?))).collect::<Result<_, Error>>()?)
        }
        Some(Wanted::ExecutionType(kind)) => {
            Filter::text(&column::EXECUTION_TYPE, Method::Equals, kind_of(kind.r#type()).to_owned())
        }
        Some(Wanted::Target(target)) => names(&column::TARGETS, &target.id),
        Some(Wanted::Include(include)) => names(&column::INCLUDES, &include.include),
        // Validation has refused it.
        None => Filter::Ids(vec![]),
    })
}

/// The column holds ids with spaces between them; what is no number is no id of what an execution names.
fn names(column: &Column<Execution>, id: &str) -> Filter {
    if !id.bytes().all(|byte| byte.is_ascii_digit()) {
        return Filter::Ids(vec![]);
    }
    Filter::text(column, Method::Contains, format!(" {id} "))
}

fn kind_of(kind: ExecutionType) -> &'static str {
    match kind {
        ExecutionType::Unspecified => "unspecified",
        ExecutionType::Request => "request",
        ExecutionType::Response => "response",
        ExecutionType::Event => "event",
        ExecutionType::Function => "function",
    }
}

fn response(found: &Found<Execution>) -> GetExecution {
    let Execution { condition, targets, includes } = found.state.clone();
    let execution = action::Execution { condition: Some(condition::write(&condition)), targets, includes };
    GetExecution { details: Some(details::of(found)), execution: Some(execution) }
}
