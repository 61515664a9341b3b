//! The operations that a command node answers, a line for each resource and settings service.

mod app;
mod branding_asset;
mod disclosure;
mod domain;
mod end_sessions;
mod execution;
mod failed_event;
mod idp;
mod instance;
mod key;
mod membership;
mod organization;
mod personal_access_token;
mod project;
mod project_grant;
mod project_role;
pub(crate) mod session;
mod system;
mod target;
mod user;
mod user_grant;
mod user_metadata;
mod view;
mod web_key;

use std::sync::Arc;

use ::domain::resource::{app::App, user::User};
use axum::Router;
use edge::{
    admission::Edge,
    handler::{Mount, Mounting},
};
use proto::{
    branding_settings::SetBrandingSettingsRequest, domain_settings::SetDomainSettingsRequest,
    feature_settings::SetFeaturesRequest, help_settings::SetHelpSettingsRequest,
    language_settings::SetLanguagesRequest, lockout_settings::SetLockoutSettingsRequest,
    login_settings::SetLoginSettingsRequest, oidc_settings::SetOidcSettingsRequest,
    password_settings::SetPasswordSettingsRequest, text_settings::SetTextSettingsRequest,
};

use crate::{execute::Commands, settings};

/// The mount functions of all resources and settings services.
const RESOURCES: &[Mount<Commands>] = &[
    target::mount,
    execution::mount,
    failed_event::mount,
    disclosure::mount,
    idp::mount,
    organization::mount,
    project::mount,
    app::mount,
    key::mount::<App>,
    project_role::mount,
    project_grant::mount,
    user_grant::mount,
    instance::mount,
    user::mount,
    key::mount::<User>,
    personal_access_token::mount,
    user_metadata::mount,
    session::mount,
    end_sessions::mount,
    domain::mount,
    system::mount,
    view::mount,
    web_key::mount,
    membership::mount,
    settings::mount::<SetFeaturesRequest>,
    settings::mount::<SetLanguagesRequest>,
    settings::mount::<SetLoginSettingsRequest>,
    settings::mount::<SetBrandingSettingsRequest>,
    branding_asset::mount,
    settings::mount::<SetTextSettingsRequest>,
    settings::mount::<SetPasswordSettingsRequest>,
    settings::mount::<SetLockoutSettingsRequest>,
    settings::mount::<SetHelpSettingsRequest>,
    settings::mount::<SetDomainSettingsRequest>,
    settings::mount::<SetOidcSettingsRequest>,
];

/// Mounts every command on all transports.
pub fn routes(router: Router, edge: &Arc<Edge>, commands: &Arc<Commands>) -> Router {
    RESOURCES.iter().fold(Mounting::new(router, edge, commands), |mounting, mount| mount(mounting)).router()
}
