//! The operations that a command node answers, one line each.

mod execution;
mod target;

use std::sync::Arc;

use axum::Router;
use proto::operation;
use transport::{edge::Edge, handler::with, mount::mount};

use crate::execute::Commands;

/// Mounts every command on all transports.
pub fn routes(router: Router, edge: &Arc<Edge>, commands: &Arc<Commands>) -> Router {
    let router = mount(router, edge, &operation::CREATE_TARGET, with(commands, target::create));
    let router = mount(router, edge, &operation::PATCH_TARGET, with(commands, target::patch));
    let router = mount(router, edge, &operation::DELETE_TARGET, with(commands, target::delete));
    let router = mount(router, edge, &operation::PUT_EXECUTION, with(commands, execution::put));
    mount(router, edge, &operation::DELETE_EXECUTION, with(commands, execution::delete))
}
