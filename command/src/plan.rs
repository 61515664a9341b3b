//! What the setup creates, as a configuration asks for it.

use std::collections::HashSet;

use base::{
    clock,
    fold::fold,
    id::Ids,
    secret::{random_secret, random_text},
};
use domain::{
    context::OwnerType,
    newcomer::{Flaw, Newcomer, Rule},
    person::Person,
    role,
    setting::features::FLAGS,
};
use edge::error::{Error, Reason};
use serde::{Deserialize, Serialize};

/// The name of the service user with all rights.
pub const ADMIN: &str = "platform-admin";

/// Everything that the setup creates, generated in advance and stored until it is done, so that nothing is lost in
/// between.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// The instance.
    pub instance_id: String,
    /// Its display name.
    #[serde(default = "default_name")]
    pub name: String,
    /// Its hosts, the primary one first.
    pub hosts: Vec<String>,
    /// The organization.
    pub organization_id: String,
    /// Its name.
    #[serde(default = "default_name")]
    pub organization_name: String,
    /// The project of the platform's own API.
    pub project_id: String,
    /// The service users, the one with all rights first.
    pub service_users: Vec<ServiceUser>,
    /// The person with all rights, where there is to be one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person: Option<FirstPerson>,
    /// The feature flags that are on.
    #[serde(default = "all_features")]
    pub features: Vec<String>,
}

/// A person with all rights on the instance, and a password for the first login, in clear.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FirstPerson {
    /// The id.
    pub user_id: String,
    /// The name and other data of the person.
    pub person: Person,
    /// What the person logs in with, once, to choose another one.
    pub password: String,
    /// When the password expires, in milliseconds since 1970.
    pub expires_at: i64,
}

impl std::fmt::Debug for FirstPerson {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("FirstPerson").field("user_id", &self.user_id).finish_non_exhaustive()
    }
}

/// How long the password of a first login is valid, in milliseconds.
const FIRST_LOGIN_MS: i64 = 7 * 24 * 60 * 60 * 1000;

impl FirstPerson {
    /// Creates a person with a new password for the first login.
    pub fn new(user_id: String, newcomer: Newcomer) -> Self {
        let (password, expires_at) = Self::one_time_password();
        Self { user_id, person: newcomer.person(), password, expires_at }
    }

    /// Returns a password for a first login, of about 95 random bits, and when it expires, in milliseconds since 1970.
    /// It has every kind of character that settings may require.
    pub fn one_time_password() -> (String, i64) {
        let kinds = [
            |char: char| char.is_ascii_uppercase(),
            |char: char| char.is_ascii_lowercase(),
            |char: char| char.is_ascii_digit(),
        ];
        let mut drawn = std::iter::repeat_with(|| [0; 4].map(|_| random_text(4)).join("-"));
        let has_all = |password: &String| kinds.iter().all(|is_of_kind| password.contains(*is_of_kind));
        let password = drawn.find(has_all).unwrap_or_default();
        (password, clock::now().as_millisecond() + FIRST_LOGIN_MS)
    }
}

/// A service user with its secret in clear.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceUser {
    /// The id.
    pub user_id: String,
    /// The user name, which is accepted as its `client_id`.
    pub client_id: String,
    /// The secret.
    pub client_secret: String,
    /// The names of its roles on the instance.
    pub roles: Vec<String>,
}

impl std::fmt::Debug for ServiceUser {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ServiceUser").field("client_id", &self.client_id).finish_non_exhaustive()
    }
}

/// What a first start is to create beyond the defaults.
#[derive(Debug, Clone, Default)]
pub struct Additions {
    /// Further service users.
    pub service_users: Vec<WantedUser>,
    /// The first person, where there is to be one.
    pub person: Option<Newcomer>,
    /// The feature flags that are on.
    pub features: Vec<String>,
}

/// A service user as a configuration names it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WantedUser {
    /// The user name, which is accepted as its `client_id`.
    pub name: String,
    /// Its roles on the instance, which may be none.
    #[serde(default)]
    pub roles: Vec<String>,
}

/// A plan that cannot be carried out.
#[derive(Debug, thiserror::Error)]
pub enum PlanFailure {
    /// A role does not exist.
    #[error("service user {user}: an instance has no role {role}; there are {known}", known = role_names())]
    UnknownRole {
        /// The user.
        user: String,
        /// The role.
        role: String,
    },
    /// A name is used twice or malformed.
    #[error(
        "service user {0:?}: names have 1 to 200 letters, digits, '-', '_' or '.', not digits only, \
         and no two are the same, that of the first person included"
    )]
    Name(String),
    /// A member of the first person is not valid.
    #[error("first_person: {0}")]
    Person(Flaw),
    /// The writer refused the plan, or cannot determine what became of it.
    #[error("the setup was refused: {0}")]
    Refused(Error),
}

/// Returns every feature flag.
pub fn all_features() -> Vec<String> {
    FLAGS.map(str::to_owned).to_vec()
}

fn default_name() -> String {
    "Default".to_owned()
}

impl PlanFailure {
    /// Whether the plan is certain not to be in the log, now and later.
    pub fn is_final(&self) -> bool {
        match self {
            Self::UnknownRole { .. } | Self::Name(_) | Self::Person(_) => true,
            Self::Refused(error) => {
                !matches!(error.reason(), Reason::WriterUnavailable | Reason::OutcomeUnknown | Reason::Internal)
            }
        }
    }
}

/// Checks what a configuration asks for.
pub fn check(wanted: &Additions) -> Result<(), PlanFailure> {
    let mut names = HashSet::from([ADMIN.to_owned()]);
    if let Some(person) = &wanted.person {
        let is_taken = !names.insert(fold(&person.username));
        let taken = is_taken.then_some(Flaw { field: "username", rule: Rule::Free });
        if let Some(flaw) = person.flaws().into_iter().chain(taken).next() {
            return Err(PlanFailure::Person(flaw));
        }
    }
    for WantedUser { name, roles } in &wanted.service_users {
        let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_.".contains(char);
        let is_new = names.insert(fold(name));
        let is_id = name.bytes().all(|byte| byte.is_ascii_digit());
        if !is_new || is_id || !(1..=200).contains(&name.len()) || !name.chars().all(is_plain) {
            return Err(PlanFailure::Name(name.clone()));
        }
        let is_of_instances = |name: &str| role::role(name).is_some_and(|role| role.level == OwnerType::Instance);
        if let Some(role) = roles.iter().find(|role| !is_of_instances(role)) {
            return Err(PlanFailure::UnknownRole { user: name.clone(), role: role.clone() });
        }
    }
    Ok(())
}

impl Plan {
    /// Creates a plan for an instance under these hosts, with one service user of all rights and the wanted ones.
    pub fn new(ids: &Ids, hosts: Vec<String>, wanted: &Additions) -> Result<Self, PlanFailure> {
        check(wanted)?;
        let admin = WantedUser { name: ADMIN.into(), roles: vec![role::IAM_OWNER.name.into()] };
        let user = |WantedUser { name, roles }: &WantedUser| ServiceUser {
            user_id: ids.next(),
            client_id: name.clone(),
            client_secret: random_secret(),
            roles: roles.clone(),
        };
        Ok(Self {
            instance_id: ids.next(),
            name: default_name(),
            hosts,
            organization_id: ids.next(),
            organization_name: default_name(),
            project_id: ids.next(),
            service_users: std::iter::once(&admin).chain(&wanted.service_users).map(user).collect(),
            person: wanted.person.clone().map(|newcomer| FirstPerson::new(ids.next(), newcomer)),
            features: wanted.features.clone(),
        })
    }
}

fn role_names() -> String {
    role::ROLES
        .iter()
        .filter(|role| role.level == OwnerType::Instance)
        .map(|role| role.name)
        .collect::<Vec<_>>()
        .join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_names(service_user: &str, person: &str) -> Result<(), &'static str> {
        let service_users = vec![WantedUser { name: service_user.into(), roles: vec![] }];
        let person = Some(Newcomer { username: person.into(), ..Newcomer::default() });
        check(&Additions { service_users, person, features: vec![] }).map_err(|failure| match failure {
            PlanFailure::Person(Flaw { field, .. }) => field,
            PlanFailure::Name(_) => "name",
            _ => "another",
        })
    }

    #[test]
    fn no_two_users_of_a_plan_have_one_name() {
        assert_eq!(check_names("viewer", "ada"), Ok(()));
        assert_eq!(check_names("viewer", "Platform-Admin"), Err("username"));
        assert_eq!(check_names("ADA", "ada"), Err("name"));
        assert_eq!(check_names("viewer", "007"), Err("username"));
    }

    #[test]
    fn a_one_time_password_has_every_kind_of_character_and_is_another_each_time() {
        let (one, other) = (FirstPerson::one_time_password(), FirstPerson::one_time_password());
        assert_ne!(one.0, other.0);
        assert_eq!(one.0.len(), 19);
        assert!(one.0.contains(|char: char| char.is_ascii_digit()) && one.0.contains('-'), "{}", one.0);
        assert!(one.1 > clock::now().as_millisecond());
    }
}
