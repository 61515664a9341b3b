//! Executions, and what their conditions can name.

use std::sync::Arc;

use api::{condition, execution};
use domain::resource::execution::Execution;
use edge::{answer::Answer, call::Call, error::Error, handler::Mounting};
use index::{Hits, SortKey};
use proto::action::{
    ListAvailableExecutionFunctionsRequest, ListAvailableExecutionFunctionsResponse,
    ListAvailableExecutionMethodsRequest, ListAvailableExecutionMethodsResponse, ListAvailableExecutionServicesRequest,
    ListAvailableExecutionServicesResponse, SearchExecutionsRequest, SearchExecutionsResponse,
};

use crate::{
    Queries, get,
    search::{self, List},
};

/// Mounts the reads of this module.
pub(super) fn mount(mounting: Mounting<Queries>) -> Mounting<Queries> {
    mounting.on(search).on(functions).on(methods).on(services)
}

async fn search(
    queries: Arc<Queries>,
    call: Call,
    request: SearchExecutionsRequest,
) -> Result<Answer<SearchExecutionsResponse>, Error> {
    let filters = request.filters.into_iter().enumerate();
    let filters = filters.map(|(index, wanted)| Ok(execution::filter(&call.tenant.id, index, wanted)?));
    let list = List { query: request.query, key: SortKey::Created, filters: filters.collect::<Result<_, Error>>()? };
    let answer = |details, hits: Hits<Execution>| SearchExecutionsResponse {
        details: Some(details),
        result: hits.page.iter().map(execution::to_proto).collect(),
    };
    search::search(&queries, &call, list, answer).await
}

async fn functions(
    queries: Arc<Queries>,
    call: Call,
    _: ListAvailableExecutionFunctionsRequest,
) -> Result<Answer<ListAvailableExecutionFunctionsResponse>, Error> {
    get::constant(&queries, &call, ListAvailableExecutionFunctionsResponse { functions: condition::functions() }).await
}

async fn methods(
    queries: Arc<Queries>,
    call: Call,
    _: ListAvailableExecutionMethodsRequest,
) -> Result<Answer<ListAvailableExecutionMethodsResponse>, Error> {
    let methods = condition::methods(&queries.operations);
    get::constant(&queries, &call, ListAvailableExecutionMethodsResponse { methods }).await
}

async fn services(
    queries: Arc<Queries>,
    call: Call,
    _: ListAvailableExecutionServicesRequest,
) -> Result<Answer<ListAvailableExecutionServicesResponse>, Error> {
    let services = condition::services(&queries.operations);
    get::constant(&queries, &call, ListAvailableExecutionServicesResponse { services }).await
}
