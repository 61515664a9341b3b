//! What the setup creates, as a configuration asks for it.

use std::collections::HashSet;

use base::{id::Ids, secret::random_secret};
use domain::{context::OwnerType, role, setting::features::FLAGS};
use edge::error::{Error, Reason};
use serde::{Deserialize, Serialize};

/// The name of the service user with all rights.
pub const ADMIN: &str = "platform-admin";

/// Everything that the setup creates, made up before and kept until it is done, so that nothing is lost in between.
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
    /// The feature flags that are on.
    #[serde(default = "all_features")]
    pub features: Vec<String>,
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
pub struct Wanted {
    /// Further service users.
    pub service_users: Vec<WantedUser>,
    /// The feature flags that are on.
    pub features: Vec<String>,
}

/// A service user as a configuration names it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WantedUser {
    /// The user name, which is accepted as its `client_id`.
    pub name: String,
    /// Its roles on the instance; none is allowed.
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
        "service user {0:?}: names have 1 to 200 letters, digits, '-', '_' or '.', not digits only, and no two are the same"
    )]
    Name(String),
    /// The writer refused, or cannot tell what became of it.
    #[error("the setup was refused: {0}")]
    Refused(Error),
}

/// Every feature flag.
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
            Self::UnknownRole { .. } | Self::Name(_) => true,
            Self::Refused(error) => {
                !matches!(error.reason(), Reason::WriterUnavailable | Reason::OutcomeUnknown | Reason::Internal)
            }
        }
    }
}

/// Checks what a configuration asks for.
pub fn check(wanted: &[WantedUser]) -> Result<(), PlanFailure> {
    let mut names = HashSet::from([ADMIN.to_owned()]);
    for WantedUser { name, roles } in wanted {
        let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_.".contains(char);
        let is_new = names.insert(name.to_ascii_lowercase());
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
    /// A plan for an instance under these hosts, with one service user of all rights and the wanted ones.
    pub fn new(ids: &Ids, hosts: Vec<String>, wanted: &Wanted) -> Result<Self, PlanFailure> {
        check(&wanted.service_users)?;
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
