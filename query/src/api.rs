//! The operations that a query node answers, one line each.

mod execution;
mod target;

use std::sync::Arc;

use axum::Router;
use proto::operation;
use transport::{edge::Edge, handler::with, mount::mount};

use crate::Queries;

/// Mounts every query on all transports.
pub fn routes(router: Router, edge: &Arc<Edge>, queries: &Arc<Queries>) -> Router {
    let router = mount(router, edge, &operation::GET_TARGET, with(queries, target::get));
    let router = mount(router, edge, &operation::SEARCH_TARGETS, with(queries, target::search));
    let router = mount(router, edge, &operation::SEARCH_EXECUTIONS, with(queries, execution::search));
    let functions = &operation::LIST_AVAILABLE_EXECUTION_FUNCTIONS;
    let router = mount(router, edge, functions, with(queries, execution::functions));
    let router = mount(router, edge, &operation::LIST_AVAILABLE_EXECUTION_METHODS, with(queries, execution::methods));
    mount(router, edge, &operation::LIST_AVAILABLE_EXECUTION_SERVICES, with(queries, execution::services))
}
