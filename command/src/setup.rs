//! Setup: one record that turns an empty log into a system with an instance that can be used.

use std::{collections::HashSet, sync::Arc};

use domain::{
    context::{Owner, OwnerType},
    permission,
    resource::{
        data_key::DataKey,
        system::{self, System},
    },
    setting::features::FeaturesChange,
    standard::Standard,
};
use serde::{Deserialize, Serialize};
use store::{
    id::Ids,
    keyring::{Keyring, OF_SYSTEM, Purpose, SYSTEM},
    record::Key,
    secret::random_secret,
};
use transport::error::{Error, Reason};

use crate::{
    founding::Founding,
    turn::{Cause, Decided, Refusal, Turn},
    writer::{Decide, Handle, Verdict},
};

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
    /// The signing key.
    pub signing_key_id: String,
    /// The service users, the one with all rights first.
    pub service_users: Vec<ServiceUser>,
}

/// A service user with its secret in clear.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServiceUser {
    /// The id.
    pub user_id: String,
    /// The user name.
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

/// A service user as a configuration names it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// The user name, which is its `client_id`.
    pub name: String,
    /// Its roles on the instance; none is allowed.
    #[serde(default)]
    pub roles: Vec<String>,
}

/// A plan that cannot be carried out.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A role does not exist.
    #[error("service user {user}: an instance has no role {role}; there are {known}", known = role_names())]
    UnknownRole {
        /// The user.
        user: String,
        /// The role.
        role: String,
    },
    /// A name is used twice or malformed.
    #[error("service user {0:?}: names have 1 to 200 letters, digits, '-', '_' or '.', and no two are the same")]
    Name(String),
    /// The writer refused, or cannot tell what became of it.
    #[error("the setup was refused: {0}")]
    Refused(Error),
}

fn default_name() -> String {
    "Default".to_owned()
}

impl Failure {
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
pub fn check(wanted: &[Wanted]) -> Result<(), Failure> {
    let mut names = HashSet::from([ADMIN.to_owned()]);
    for Wanted { name, roles } in wanted {
        let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_.".contains(char);
        let is_new = names.insert(name.to_ascii_lowercase());
        if !is_new || !(1..=200).contains(&name.len()) || !name.chars().all(is_plain) {
            return Err(Failure::Name(name.clone()));
        }
        let is_of_instances = |name: &str| permission::role(name).is_some_and(|role| role.level == OwnerType::Instance);
        if let Some(role) = roles.iter().find(|role| !is_of_instances(role)) {
            return Err(Failure::UnknownRole { user: name.clone(), role: role.clone() });
        }
    }
    Ok(())
}

impl Plan {
    /// A plan for an instance under these hosts, with one service user of all rights and the wanted ones.
    pub fn new(ids: &Ids, hosts: Vec<String>, wanted: &[Wanted]) -> Result<Self, Failure> {
        check(wanted)?;
        let admin = Wanted { name: ADMIN.into(), roles: vec![permission::IAM_OWNER.name.into()] };
        let user = |Wanted { name, roles }: &Wanted| ServiceUser {
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
            signing_key_id: ids.next(),
            service_users: std::iter::once(&admin).chain(wanted).map(user).collect(),
        })
    }
}

fn role_names() -> String {
    permission::ROLES
        .iter()
        .filter(|role| role.level == OwnerType::Instance)
        .map(|role| role.name)
        .collect::<Vec<_>>()
        .join(", ")
}

/// What happened to a plan.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is carried out, now or in an earlier run; what it created has this sequence or a lower one.
    Done(u64),
    /// The log was set up with another plan, for this instance.
    Other(String),
}

/// Carries the plan out, unless the log is set up already.
pub async fn setup(writer: &Handle, keyring: &Keyring, ids: Arc<Ids>, plan: &Plan) -> Result<Outcome, Failure> {
    let beginning = Beginning::new(keyring, &ids, plan.clone());
    match writer.submit(beginning, None).await.map_err(Failure::Refused)? {
        Verdict::Decided(decided, ()) if decided.owner.id == plan.instance_id => Ok(Outcome::Done(decided.sequence)),
        Verdict::Decided(decided, ()) => Ok(Outcome::Other(decided.owner.id)),
        Verdict::Replayed(_) => Err(Failure::Refused(Error::new(Reason::Internal, "a setup has no idempotency key"))),
    }
}

/// Everything random of a setup, so that it can be decided more than once.
struct Beginning {
    keys: Vec<(String, DataKey)>,
    founding: Founding,
}

impl Beginning {
    fn new(keyring: &Keyring, ids: &Ids, plan: Plan) -> Self {
        let created = OF_SYSTEM.map(|purpose| (purpose, keyring.create(SYSTEM, purpose)));
        let mut claims = None;
        let keys = created.map(|(purpose, (key, data_key))| {
            if purpose == Purpose::Claim {
                claims = Some(Arc::new(key));
            }
            (ids.next(), data_key)
        });
        let claims = claims.expect("the system has a key for claims");
        Self { keys: keys.into(), founding: Founding::new(keyring, ids, (plan, FeaturesChange::all_on()), claims) }
    }
}

impl Decide for Beginning {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>) -> Result<(Decided, ()), Refusal> {
        let found = turn.get::<Standard<System>>(&Key::of::<Standard<System>>(SYSTEM, system::ID));
        if let Some(system) = found.resource() {
            let (sequence, changed_at) = (found.head.sequence, found.head.changed_at);
            let owner = Owner::instance(&system.first_instance_id);
            return Ok((Decided { sequence, changed_at, owner, context: Owner::system(), is_new: false }, ()));
        }
        let (cause, system) = (Cause { actor: "setup".into(), ..Cause::default() }, Owner::system());
        let first_instance_id = self.founding.instance_id().to_owned();
        self.founding.found(turn, &cause)?;
        let mut new = self.founding.new_in(turn, &cause);
        for (id, data_key) in &self.keys {
            new.resource(SYSTEM, id, &system, data_key.clone())?;
        }
        let owner = Owner::instance(&first_instance_id);
        let last = new.resource(SYSTEM, system::ID, &system, System { first_instance_id })?;
        Ok((Decided { owner, ..last }, ()))
    }
}
