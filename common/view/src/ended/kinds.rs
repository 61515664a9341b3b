//! The kinds of what ends, and how long it is remembered of each.

use std::time::Duration;

use domain::{
    resource::{
        app::App, instance::Instance, key::Key, organization::Organization, personal_access_token::PersonalAccessToken,
        project::Project, project_grant::ProjectGrant, project_role::ProjectRole, signing_key::SigningKey, user::User,
        user_grant::UserGrant,
    },
    standard::Resource,
};
use jiff::Timestamp;

use crate::{hearing::REMEMBERED, projection::ENDED, read_model::Select, table::HowEnded};

/// For how long it is known which grants have ended. What the directory says of grants may not be older, and is not while Postgres
/// answers.
const GRANTS_REMEMBERED: Duration = Duration::from_mins(6);

/// What ended after a time, by kind.
pub(super) static ENDS: [(&str, Select<HowEnded>); 12] = [
    (Instance::NAME, Select::new(&ENDED, Instance::NAME, SINCE)),
    (Organization::NAME, Select::new(&ENDED, Organization::NAME, SINCE)),
    (User::NAME, Select::new(&ENDED, User::NAME, SINCE)),
    (Project::NAME, Select::new(&ENDED, Project::NAME, SINCE)),
    (App::NAME, Select::new(&ENDED, App::NAME, SINCE)),
    (Key::<User>::NAME, Select::new(&ENDED, Key::<User>::NAME, SINCE)),
    (Key::<App>::NAME, Select::new(&ENDED, Key::<App>::NAME, SINCE)),
    (PersonalAccessToken::NAME, Select::new(&ENDED, PersonalAccessToken::NAME, SINCE)),
    (SigningKey::NAME, Select::new(&ENDED, SigningKey::NAME, SINCE)),
    (ProjectRole::NAME, Select::new(&ENDED, ProjectRole::NAME, SINCE)),
    (ProjectGrant::NAME, Select::new(&ENDED, ProjectGrant::NAME, SINCE)),
    (UserGrant::NAME, Select::new(&ENDED, UserGrant::NAME, SINCE)),
];
const SINCE: &str = "where changed_at > $1";

/// Whether others belong to what is of this kind: of one that was removed it is asked as long as something of it is there.
pub(super) fn is_context(kind: &str) -> bool {
    [Instance::NAME, Organization::NAME].contains(&kind)
}

/// Whether what is of this kind is asked for only until the read model says something newer.
pub(super) fn is_grant(kind: &str) -> bool {
    [ProjectRole::NAME, ProjectGrant::NAME, UserGrant::NAME].contains(&kind)
}

/// What ended later is remembered of a kind.
pub(super) fn since(kind: &str, now: Timestamp) -> Timestamp {
    match kind {
        kind if is_context(kind) => Timestamp::MIN,
        kind if is_grant(kind) => now - GRANTS_REMEMBERED,
        _ => now - REMEMBERED,
    }
}
