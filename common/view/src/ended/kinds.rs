//! The kinds of objects that can end, and how long the end of each is remembered.

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

use crate::{completeness::REMEMBERED, projection::ENDED, read_model::Select, table::HowEnded};

/// How long the end of a grant is remembered. Answers of the directory about grants must not be older, and are not
/// while Postgres answers.
const GRANTS_REMEMBERED: Duration = Duration::from_mins(6);

/// The statements that find what ended after a time, by kind.
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

/// Whether objects of this kind own others. Whether one was removed is looked up as long as anything of it exists.
pub(super) fn is_context(kind: &str) -> bool {
    [Instance::NAME, Organization::NAME].contains(&kind)
}

/// Whether the end of an object of this kind matters only until the read model has something newer.
pub(super) fn is_grant(kind: &str) -> bool {
    [ProjectRole::NAME, ProjectGrant::NAME, UserGrant::NAME].contains(&kind)
}

/// The time from which on ends of a kind are remembered.
pub(super) fn since(kind: &str, now: Timestamp) -> Timestamp {
    match kind {
        kind if is_context(kind) => Timestamp::MIN,
        kind if is_grant(kind) => now - GRANTS_REMEMBERED,
        _ => now - REMEMBERED,
    }
}
