//! The operations that a query node answers, one line each.

mod target;

use std::sync::Arc;

use axum::Router;
use proto::operation;
use transport::{edge::Edge, handler::with, mount::mount};

use crate::Queries;

/// Mounts every query on all transports.
pub fn routes(router: Router, edge: &Arc<Edge>, queries: &Arc<Queries>) -> Router {
    let router = mount(router, edge, &operation::GET_TARGET, with(queries, target::get));
    mount(router, edge, &operation::SEARCH_TARGETS, with(queries, target::search))
}
