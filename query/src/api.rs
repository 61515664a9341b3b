//! The operations that a query node answers, a line for each resource and settings service.

mod event;
mod execution;
mod idp;
mod membership;
mod organization;

use std::sync::Arc;

use axum::Router;
use domain::{
    resource::{
        domain::Domain, instance::Instance, membership::Membership, organization::Organization, target::Target,
        user::User,
    },
    setting::{features::Features, languages::Languages},
};
use edge::{
    admission::Edge,
    handler::{Mount, Mounting},
};

use crate::{Queries, settings, standard};

/// What is read of each resource, and of each settings service; a module where there is more than the two standard reads.
const RESOURCES: &[Mount<Queries>] = &[
    standard::mount::<Target>,
    execution::mount,
    idp::mount,
    standard::mount::<Organization>,
    organization::mount,
    event::mount,
    standard::mount::<Instance>,
    standard::mount::<User>,
    standard::mount::<Domain>,
    standard::mount::<Membership>,
    membership::mount,
    settings::mount::<Features>,
    settings::mount::<Languages>,
];

/// Mounts every query on all transports.
pub fn routes(router: Router, edge: &Arc<Edge>, queries: &Arc<Queries>) -> Router {
    RESOURCES.iter().fold(Mounting::new(router, edge, queries), |mounting, mount| mount(mounting)).router()
}
