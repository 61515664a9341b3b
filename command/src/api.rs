//! The operations that a command node answers, a line for each resource.

mod domain;
mod execution;
mod instance;
mod membership;
mod organization;
mod system;
mod target;
mod user;

use std::sync::Arc;

use axum::Router;
use edge::{
    admission::Edge,
    handler::{Mount, Mounting},
};

use crate::execute::Commands;

/// What is written of each resource.
const RESOURCES: &[Mount<Commands>] = &[
    target::mount,
    execution::mount,
    organization::mount,
    instance::mount,
    user::mount,
    domain::mount,
    system::mount,
    membership::mount,
];

/// Mounts every command on all transports.
pub fn routes(router: Router, edge: &Arc<Edge>, commands: &Arc<Commands>) -> Router {
    RESOURCES.iter().fold(Mounting::new(router, edge, commands), |mounting, mount| mount(mounting)).router()
}
