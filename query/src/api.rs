//! The operations that a query node answers, one line each.

mod event;
mod execution;
mod membership;
mod organization;

use std::sync::Arc;

use axum::Router;
use domain::resource::{
    domain::Domain, instance::Instance, membership::Membership, organization::Organization, target::Target, user::User,
};
use edge::{admission::Edge, handler::with, mount::mount};
use proto::operation;

use crate::{
    Queries,
    standard::{check_columns, get, search},
};

/// Mounts every query on all transports.
///
/// # Panics
/// Where a list could be sorted by a column that its resource does not have.
pub fn routes(router: Router, edge: &Arc<Edge>, queries: &Arc<Queries>) -> Router {
    check_columns::<Target>();
    check_columns::<Organization>();
    check_columns::<Instance>();
    check_columns::<User>();
    check_columns::<Domain>();
    check_columns::<Membership>();
    let router = mount(router, edge, &operation::GET_TARGET, with(queries, get::<Target>));
    let router = mount(router, edge, &operation::SEARCH_TARGETS, with(queries, search::<Target>));
    let router = mount(router, edge, &operation::SEARCH_EXECUTIONS, with(queries, execution::search));
    let functions = &operation::LIST_AVAILABLE_EXECUTION_FUNCTIONS;
    let router = mount(router, edge, functions, with(queries, execution::functions));
    let router = mount(router, edge, &operation::LIST_AVAILABLE_EXECUTION_METHODS, with(queries, execution::methods));
    let services = &operation::LIST_AVAILABLE_EXECUTION_SERVICES;
    let router = mount(router, edge, services, with(queries, execution::services));
    let router = mount(router, edge, &operation::GET_ORGANIZATION, with(queries, get::<Organization>));
    let router = mount(router, edge, &operation::SEARCH_ORGANIZATIONS, with(queries, search::<Organization>));
    let router = mount(router, edge, &operation::GET_INSTANCE_DEFAULT, with(queries, organization::instance_default));
    let router = mount(router, edge, &operation::SEARCH_EVENTS, with(queries, event::search));
    let router = mount(router, edge, &operation::SEARCH_SYSTEM_EVENTS, with(queries, event::search_system));
    let router = mount(router, edge, &operation::GET_INSTANCE, with(queries, get::<Instance>));
    let router = mount(router, edge, &operation::SEARCH_INSTANCES, with(queries, search::<Instance>));
    let router = mount(router, edge, &operation::GET_USER, with(queries, get::<User>));
    let router = mount(router, edge, &operation::SEARCH_USERS, with(queries, search::<User>));
    let router = mount(router, edge, &operation::GET_DOMAIN, with(queries, get::<Domain>));
    let router = mount(router, edge, &operation::SEARCH_DOMAINS, with(queries, search::<Domain>));
    let router = mount(router, edge, &operation::GET_MEMBERSHIP, with(queries, get::<Membership>));
    let router = mount(router, edge, &operation::SEARCH_MEMBERSHIPS, with(queries, search::<Membership>));
    mount(router, edge, &operation::LIST_AVAILABLE_ROLES, with(queries, membership::roles))
}
