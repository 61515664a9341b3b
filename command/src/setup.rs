//! Setup: one record that turns an empty log into a system with an instance that can be used.

use std::{collections::HashSet, sync::Arc};

use domain::{
    aggregate::Aggregate,
    context::{Owner, OwnerType},
    permission,
    resource::{
        data_key::DataKey,
        domain::Domain,
        instance::Instance,
        membership::Membership,
        organization::Organization,
        project::Project,
        signing_key::SigningKey,
        system::{self, System},
        user::User,
    },
    setting::features::{Features, FeaturesChange},
    settings::Settings,
    standard::{Command, Resource, Standard},
};
use serde::{Deserialize, Serialize};
use store::{
    clock,
    id::Ids,
    keyring::{Keyring, OF_INSTANCE, OF_SYSTEM, Purpose, SYSTEM, client_secret_hash},
    record::Key,
    secret::random_secret,
    signing,
};
use transport::error::{Error, Reason};

use crate::{
    turn::{Cause, ClaimKeys, Decided, Stop, Turn},
    writer::{Handle, Verdict},
};

/// The name of the service user with all rights.
const ADMIN: &str = "platform-admin";

/// Everything that the setup creates, made up before and kept until it is done, so that nothing is lost in between.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// The instance.
    pub instance_id: String,
    /// Its hosts, the primary one first.
    pub hosts: Vec<String>,
    /// The organization.
    pub organization_id: String,
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
            hosts,
            organization_id: ids.next(),
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
    let founding = Arc::new(Founding::new(keyring, &ids, plan.clone()));
    let decide = move |turn: &mut Turn<'_>| founding.decide(turn);
    let verdict = writer.submit(Box::new(|_: &mut Turn<'_>| Ok(())), Box::new(decide), None).await;
    match verdict.map_err(Failure::Refused)? {
        Verdict::Decided(decided) if decided.owner.id == plan.instance_id => Ok(Outcome::Done(decided.sequence)),
        Verdict::Decided(decided) => Ok(Outcome::Other(decided.owner.id)),
        Verdict::Replayed(_) => Err(Failure::Refused(Error::new(Reason::Internal, "a setup has no idempotency key"))),
    }
}

/// Everything random of a setup, so that it can be decided more than once.
struct Founding {
    plan: Plan,
    keys: ClaimKeys,
    data_keys: Vec<(String, String, DataKey)>,
    signing_key: SigningKey,
    users: Vec<(String, User)>,
    /// For the memberships and domains.
    ids: Vec<String>,
}

impl Founding {
    fn new(keyring: &Keyring, ids: &Ids, plan: Plan) -> Self {
        let mut data_keys = vec![];
        let mut create = |instance_id: &str, purpose| {
            let (key, data_key) = keyring.create(instance_id, purpose);
            data_keys.push((instance_id.to_owned(), ids.next(), data_key));
            (purpose, Arc::new(key))
        };
        let of_system = OF_SYSTEM.map(|purpose| create(SYSTEM, purpose));
        let of_instance = OF_INSTANCE.map(|purpose| create(&plan.instance_id, purpose));
        let key = |keys: &[(Purpose, Arc<_>)], wanted| {
            let found = keys.iter().find(|(purpose, _)| *purpose == wanted);
            found.map(|(_, key)| Arc::clone(key)).expect("every purpose of a context has got a key")
        };
        let generated = signing::es256(&plan.signing_key_id);
        let signing_key = SigningKey {
            algorithm: generated.algorithm.to_owned(),
            public: generated.public,
            sealed: key(&of_instance, Purpose::SigningKey).seal(signing::SEALED, &generated.private),
            signs_from: clock::now().as_millisecond(),
            signs_until: None,
        };
        let secrets = key(&of_instance, Purpose::ClientSecret);
        let user = |user: &ServiceUser| {
            let secret = client_secret_hash(&secrets, &user.user_id, &user.client_secret);
            (user.user_id.clone(), User { username: user.client_id.clone(), secret: Some(secret), is_active: true })
        };
        Self {
            keys: ClaimKeys { instance: key(&of_instance, Purpose::Claim), system: key(&of_system, Purpose::Claim) },
            signing_key,
            users: plan.service_users.iter().map(user).collect(),
            ids: (0..plan.service_users.len() + plan.hosts.len()).map(|_| ids.next()).collect(),
            data_keys,
            plan,
        }
    }

    fn decide(&self, turn: &mut Turn<'_>) -> Result<Decided, Stop> {
        let key = Key::of::<Standard<System>>(SYSTEM, system::ID);
        let system = turn.get::<Standard<System>>(&key)?;
        turn.complete()?;
        if let Some(found) = system.as_ref().and_then(|system| system.state.as_ref().as_ref()) {
            let place = system.as_ref().map(|system| system.place.clone());
            let owner = Owner::instance(&found.first_instance_id);
            let (sequence, changed_at) = place.map(|place| (place.sequence, place.changed_at)).unwrap_or_default();
            return Ok(Decided { sequence, changed_at, owner, is_new: false });
        }
        let last = self.append_all(turn)?;
        Ok(Decided { owner: Owner::instance(&self.plan.instance_id), ..last })
    }

    fn append_all(&self, turn: &mut Turn<'_>) -> Result<Decided, Stop> {
        let plan = &self.plan;
        let id = plan.instance_id.as_str();
        let (system, instance, organization) =
            (Owner::system(), Owner::instance(id), Owner::organization(&plan.organization_id));
        self.create(
            turn,
            id,
            id,
            &system,
            Instance { name: "Default".into(), platform_project_id: plan.project_id.clone() },
        )?;
        for (instance_id, key_id, data_key) in &self.data_keys {
            let owner = if instance_id == SYSTEM { &system } else { &instance };
            self.create(turn, instance_id, key_id, owner, data_key.clone())?;
        }
        let (domain_ids, membership_ids) = self.ids.split_at(plan.hosts.len());
        for (index, (host, domain_id)) in plan.hosts.iter().zip(domain_ids).enumerate() {
            self.create(turn, id, domain_id, &instance, Domain { name: host.clone(), is_primary: index == 0 })?;
        }
        self.create(turn, id, &plan.signing_key_id, &instance, self.signing_key.clone())?;
        self.append::<Settings<Features>>(
            turn,
            &Key::of::<Settings<Features>>(id, id),
            &instance,
            FeaturesChange::all_on(),
        )?;
        self.create(turn, id, &plan.organization_id, &instance, Organization { name: "Default".into() })?;
        self.create(turn, id, &plan.project_id, &organization, Project { name: "Platform".into() })?;
        for ((user_id, user), (planned, membership_id)) in
            self.users.iter().zip(plan.service_users.iter().zip(membership_ids))
        {
            self.create(turn, id, user_id, &organization, user.clone())?;
            if !planned.roles.is_empty() {
                let (user_id, context, roles) = (user_id.clone(), instance.clone(), planned.roles.clone());
                self.create(turn, id, membership_id, &instance, Membership { user_id, context, roles })?;
            }
        }
        self.create(turn, SYSTEM, system::ID, &system, System { first_instance_id: id.to_owned() })
    }

    fn create<R: Resource>(
        &self,
        turn: &mut Turn<'_>,
        instance_id: &str,
        id: &str,
        owner: &Owner,
        resource: R,
    ) -> Result<Decided, Stop> {
        self.append::<Standard<R>>(turn, &Key::of::<Standard<R>>(instance_id, id), owner, Command::Create(resource))
    }

    fn append<A: Aggregate>(
        &self,
        turn: &mut Turn<'_>,
        key: &Key,
        owner: &Owner,
        command: A::Command,
    ) -> Result<Decided, Stop> {
        let known = turn.unborn::<A>(key)?;
        let events = A::decide(&known.state, command).map_err(|rejection| Stop::Refused(Box::new(rejection.into())))?;
        let cause = Cause { actor: "setup".into(), ..Cause::default() };
        turn.append::<A>(key, known, owner, &events, (&self.keys, &cause))
    }
}
