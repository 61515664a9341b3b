//! The operations that a command node answers, a line for each resource and settings service.

mod domain;
mod execution;
mod idp;
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
use proto::{feature_settings::SetFeaturesRequest, language_settings::SetLanguagesRequest};

use crate::{execute::Commands, settings};

/// What is written of each resource, and of each settings service.
const RESOURCES: &[Mount<Commands>] = &[
    target::mount,
    execution::mount,
    idp::mount,
    organization::mount,
    instance::mount,
    user::mount,
    domain::mount,
    system::mount,
    membership::mount,
    settings::mount::<SetFeaturesRequest>,
    settings::mount::<SetLanguagesRequest>,
];

/// Mounts every command on all transports.
pub fn routes(router: Router, edge: &Arc<Edge>, commands: &Arc<Commands>) -> Router {
    RESOURCES.iter().fold(Mounting::new(router, edge, commands), |mounting, mount| mount(mounting)).router()
}
