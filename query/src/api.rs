//! The operations that a query node answers, a line for each resource and settings service.

mod delivery;
mod event;
mod execution;
mod failed_event;
mod idp;
mod membership;
mod organization;
mod session;

use std::sync::Arc;

use axum::Router;
use domain::{
    resource::{
        app::App, domain::Domain, instance::Instance, key::Key, membership::Membership, organization::Organization,
        personal_access_token::PersonalAccessToken, project::Project, project_grant::ProjectGrant,
        project_role::ProjectRole, signing_key::SigningKey, target::Target, user::User, user_grant::UserGrant,
        user_metadata::UserMetadata,
    },
    setting::{
        branding::Branding, domains::Domains, features::Features, help::Help, languages::Languages, lockout::Lockout,
        login::Login, oidc::Oidc, password::Password, texts::Texts,
    },
};
use edge::{
    admission::Edge,
    handler::{Mount, Mounting},
};

use crate::{Queries, settings, standard};

/// The reads of each resource and settings service; a module of its own if it has more than the two standard reads.
const RESOURCES: &[Mount<Queries>] = &[
    standard::mount::<Target>,
    delivery::mount,
    execution::mount,
    idp::mount,
    standard::mount::<Organization>,
    organization::mount,
    standard::mount::<Project>,
    standard::mount::<App>,
    standard::mount::<Key<App>>,
    standard::mount::<ProjectRole>,
    standard::mount::<ProjectGrant>,
    standard::mount::<UserGrant>,
    event::mount,
    failed_event::mount,
    standard::mount::<Instance>,
    standard::mount::<User>,
    standard::mount::<Key<User>>,
    standard::mount::<PersonalAccessToken>,
    standard::mount::<UserMetadata>,
    session::mount,
    standard::mount::<SigningKey>,
    standard::mount::<Domain>,
    standard::mount::<Membership>,
    membership::mount,
    settings::mount::<Features>,
    settings::mount::<Languages>,
    settings::mount::<Login>,
    settings::mount::<Branding>,
    settings::mount::<Texts>,
    settings::mount::<Password>,
    settings::mount::<Lockout>,
    settings::mount::<Help>,
    settings::mount::<Domains>,
    settings::mount::<Oidc>,
];

/// Mounts every query on all transports.
pub fn routes(router: Router, edge: &Arc<Edge>, queries: &Arc<Queries>) -> Router {
    RESOURCES.iter().fold(Mounting::new(router, edge, queries), |mounting, mount| mount(mounting)).router()
}
