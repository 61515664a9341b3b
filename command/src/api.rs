//! The operations that a command node answers, one line each.

mod domain;
mod execution;
mod instance;
mod membership;
mod organization;
mod system;
mod target;
mod user;

use std::sync::Arc;

use ::domain::resource::{execution::Execution, instance::Instance, membership::Membership, target::Target};
use axum::Router;
use edge::{admission::Edge, handler::with, mount::mount};
use proto::{
    domain::PatchDomainRequest, instance::PatchInstanceRequest, membership::PatchMembershipRequest, operation,
    organization::PatchOrganizationRequest,
};

use crate::{
    execute::Commands,
    standard::{delete, patch, reactivate},
};

/// Mounts every command on all transports.
pub fn routes(router: Router, edge: &Arc<Edge>, commands: &Arc<Commands>) -> Router {
    let router = mount(router, edge, &operation::CREATE_TARGET, with(commands, target::create));
    let router = mount(router, edge, &operation::PATCH_TARGET, with(commands, target::patch));
    let router = mount(router, edge, &operation::DELETE_TARGET, with(commands, delete::<Target, _, _>));
    let router = mount(router, edge, &operation::PUT_EXECUTION, with(commands, execution::put));
    let router = mount(router, edge, &operation::DELETE_EXECUTION, with(commands, delete::<Execution, _, _>));
    let router = mount(router, edge, &operation::CREATE_ORGANIZATION, with(commands, organization::create));
    let router =
        mount(router, edge, &operation::PATCH_ORGANIZATION, with(commands, patch::<PatchOrganizationRequest, _>));
    let router = mount(router, edge, &operation::DELETE_ORGANIZATION, with(commands, organization::delete));
    let router = mount(router, edge, &operation::DEACTIVATE_ORGANIZATION, with(commands, organization::deactivate));
    let router = mount(router, edge, &operation::REACTIVATE_ORGANIZATION, with(commands, organization::reactivate));
    let router = mount(router, edge, &operation::SET_AS_INSTANCE_DEFAULT, with(commands, organization::set_as_default));
    let router = mount(router, edge, &operation::CREATE_INSTANCE, with(commands, instance::create));
    let router = mount(router, edge, &operation::PATCH_INSTANCE, with(commands, patch::<PatchInstanceRequest, _>));
    let router = mount(router, edge, &operation::DELETE_INSTANCE, with(commands, instance::delete));
    let router = mount(router, edge, &operation::DEACTIVATE_INSTANCE, with(commands, instance::deactivate));
    let router = mount(router, edge, &operation::REACTIVATE_INSTANCE, with(commands, reactivate::<Instance, _, _>));
    let router = mount(router, edge, &operation::LIMIT, with(commands, instance::limit));
    let router = mount(router, edge, &operation::BULK_LIMIT, with(commands, instance::bulk_limit));
    let router = mount(router, edge, &operation::CREATE_USER, with(commands, user::create));
    let router = mount(router, edge, &operation::PATCH_USER, with(commands, user::patch));
    let router = mount(router, edge, &operation::DELETE_USER, with(commands, user::delete));
    let router = mount(router, edge, &operation::DEACTIVATE_USER, with(commands, user::deactivate));
    let router = mount(router, edge, &operation::REACTIVATE_USER, with(commands, user::reactivate));
    let router = mount(router, edge, &operation::GENERATE_USER_SECRET, with(commands, user::generate_secret));
    let router = mount(router, edge, &operation::CREATE_DOMAIN, with(commands, domain::create));
    let router = mount(router, edge, &operation::PATCH_DOMAIN, with(commands, patch::<PatchDomainRequest, _>));
    let router = mount(router, edge, &operation::DELETE_DOMAIN, with(commands, domain::delete));
    let router = mount(router, edge, &operation::VALIDATE, with(commands, domain::validate));
    let router = mount(router, edge, &operation::SET_AS_PRIMARY, with(commands, domain::set_as_primary));
    let router = mount(router, edge, &operation::REWRAP_DATA_KEYS, with(commands, system::rewrap_data_keys));
    let router = mount(router, edge, &operation::CREATE_MEMBERSHIP, with(commands, membership::create));
    let router = mount(router, edge, &operation::PATCH_MEMBERSHIP, with(commands, patch::<PatchMembershipRequest, _>));
    mount(router, edge, &operation::DELETE_MEMBERSHIP, with(commands, delete::<Membership, _, _>))
}
