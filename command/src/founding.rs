//! A new instance with all that it needs to serve: keys, hosts, an organization, the platform's project and first users.

use std::sync::Arc;

use base::{clock, id::Ids, password::hash, secret, signing};
use domain::{
    aggregate::Aggregate,
    client_secret::ClientSecrets,
    context::Owner,
    resource::{
        data_key::DataKey, domain::Domain, instance::Instance, membership::Membership, organization::Organization,
        project::Project, signing_key::SigningKey, user::User,
    },
    role::IAM_OWNER,
    setting::features::{Features, FeaturesChange},
    settings::{Command as Asked, Settings},
    standard::{Command, Resource, Standard},
};
use edge::error::{Error, Reason};
use eventlog::record::AggregateKey;
use view::{
    keyring::{Keyring, OF_INSTANCE, Purpose, secret_hash},
    persons::{PersonFailure, Persons},
};
use zeroize::Zeroizing;

use crate::{
    password::{Terms, sealed_password},
    person,
    plan::{FirstPerson, Plan, ServiceUser},
    signing_keys::sealed,
    turn::{Cause, ClaimKeys, Decided, Refusal, Turn},
};

/// Everything random of a new instance, made once, so that the instance can be decided more than once.
pub(crate) struct Founding {
    keyring: Keyring,
    /// The id of the master key that wraps its data keys.
    master_key_id: String,
    plan: Plan,
    features: Asked<Features>,
    keys: ClaimKeys,
    data_keys: Vec<(String, DataKey)>,
    signing_keys: Vec<(String, SigningKey)>,
    users: Vec<FirstUser>,
    /// The ids of the memberships and domains.
    ids: Vec<String>,
}

/// A user that an instance begins with.
struct FirstUser {
    id: String,
    user: User,
    /// The names of its roles on the instance.
    roles: Vec<String>,
}

impl Founding {
    /// Generates everything random; the keys take some hundred milliseconds of a core. `system` is the key that hashes
    /// what is unique in the system.
    pub(crate) fn draw(keyring: &Keyring, ids: &Ids, plan: Plan, system: Arc<secret::SymmetricKey>) -> Drawn {
        let (master_key_id, mut data_keys) = (keyring.master_key_id(), vec![]);
        let of_instance = OF_INSTANCE.map(|purpose| {
            let (key, data_key) = keyring.create(&plan.instance_id, purpose);
            data_keys.push((ids.next(), data_key));
            (purpose, Arc::new(key))
        });
        let key = |wanted| {
            let found = of_instance.iter().find(|(purpose, _)| *purpose == wanted);
            found.map(|(_, key)| Arc::clone(key)).expect("every purpose of an instance has got a key")
        };
        let sign = key(Purpose::SigningKey);
        let signing_key = |signs| {
            let id = ids.next();
            let new = sealed(&plan.instance_id, &sign, signing::generate(signs, &id));
            (id, SigningKey { signs_from: Some(clock::now().as_millisecond()), ..new })
        };
        let signing_keys = signing::OF_INSTANCE.map(signing_key).into();
        let client_secrets = key(Purpose::ClientSecret);
        let user = |user: &ServiceUser| {
            let secrets = ClientSecrets::one(secret_hash(&client_secrets, &user.user_id, &user.client_secret));
            let (id, username, roles) = (user.user_id.clone(), user.client_id.clone(), user.roles.clone());
            FirstUser { id, user: User { username, secrets, is_active: true, ..User::default() }, roles }
        };
        let first = plan.person.clone().map(|planned| (hash(&planned.password), planned));
        let memberships = plan.service_users.len() + usize::from(first.is_some());
        let founding = Self {
            keyring: keyring.clone(),
            master_key_id,
            keys: ClaimKeys { instance: key(Purpose::Claim), system },
            signing_keys,
            users: plan.service_users.iter().map(user).collect(),
            ids: (0..memberships + plan.hosts.len()).map(|_| ids.next()).collect(),
            data_keys,
            features: Asked::Change { change: FeaturesChange::on(&plan.features), above: vec![] },
            plan,
        };
        Drawn { founding, first, data_key: key(Purpose::Resource) }
    }

    /// Returns the id of the instance.
    pub(crate) fn instance_id(&self) -> &str {
        &self.plan.instance_id
    }

    /// Writes the events of the new instance, and returns what was decided about the instance itself.
    pub(crate) fn write_all(&self, turn: &mut Turn<'_>, cause: &Cause) -> Result<Decided, Refusal> {
        let plan = &self.plan;
        let id = plan.instance_id.as_str();
        // The command that wraps all data keys anew relies on this.
        if self.keyring.master_key_id() != self.master_key_id {
            let changed = Error::new(Reason::WriterUnavailable, "the master key was changed meanwhile; try again");
            return Err(changed.into());
        }
        let (instance, organization) = (Owner::instance(id), Owner::organization(&plan.organization_id));
        let itself = Instance {
            default_organization_id: Some(plan.organization_id.clone()),
            primary_domain: plan.hosts.first().cloned(),
            ..Instance::new(&plan.name, &plan.project_id)
        };
        let mut new = self.new_in(turn, cause);
        let decided = new.resource(id, id, &Owner::system(), itself)?;
        for (key_id, data_key) in &self.data_keys {
            new.resource(id, key_id, &instance, data_key.clone())?;
        }
        let (domain_ids, membership_ids) = self.ids.split_at(plan.hosts.len());
        for (index, (host, domain_id)) in plan.hosts.iter().zip(domain_ids).enumerate() {
            new.resource(id, domain_id, &instance, Domain::of_instance(id, host, index == 0))?;
        }
        for (key_id, signing_key) in &self.signing_keys {
            new.resource(id, key_id, &instance, signing_key.clone())?;
        }
        let features = AggregateKey::of::<Settings<Features>>(id, id);
        new.aggregate::<Settings<Features>>(&features, &instance, self.features.clone())?;
        new.resource(id, &plan.organization_id, &instance, Organization::new(&plan.organization_name))?;
        new.resource(id, &plan.project_id, &organization, Project::new("Platform"))?;
        for (FirstUser { id: user_id, user, roles }, membership_id) in self.users.iter().zip(membership_ids) {
            new.resource(id, user_id, &organization, user.clone())?;
            if !roles.is_empty() {
                let membership = Membership::new(user_id, &organization, instance.clone(), roles.clone());
                new.resource(id, membership_id, &instance, membership)?;
            }
        }
        Ok(decided)
    }

    /// Returns a helper that writes new aggregates in a turn.
    pub(crate) fn new_in<'w, 't>(&'w self, turn: &'w mut Turn<'t>, cause: &'w Cause) -> FoundingWriter<'w, 't> {
        FoundingWriter { turn, keys: &self.keys, cause }
    }
}

/// A generated instance. Its first person, if it has one, is still in clear.
pub(crate) struct Drawn {
    founding: Founding,
    first: Option<(Zeroizing<String>, FirstPerson)>,
    /// The data key that wraps the keys of people.
    data_key: Arc<secret::SymmetricKey>,
}

impl Drawn {
    /// Seals the first person, with a key that is durable when this returns.
    ///
    /// # Errors
    /// When NATS does not store the key.
    pub(crate) async fn sealed(self, persons: &Persons) -> Result<Founding, PersonFailure> {
        let Self { mut founding, first, data_key } = self;
        if let Some((hash, FirstPerson { user_id, person, expires_at, .. })) = first {
            let sealing = persons.create_under(&data_key, founding.instance_id(), &user_id).await?;
            let human = person::sealed(&founding.keys.instance, &sealing, &person.into());
            let terms = Terms { is_change_required: true, expires_at: Some(expires_at) };
            let password = Some(sealed_password(&sealing, &hash, terms));
            let user = User { human: Some(human), password, is_active: true, ..User::default() };
            founding.users.push(FirstUser { id: user_id, user, roles: vec![IAM_OWNER.name.to_owned()] });
        }
        Ok(founding)
    }
}

/// Writes new aggregates, one after another.
pub(crate) struct FoundingWriter<'w, 't> {
    turn: &'w mut Turn<'t>,
    keys: &'w ClaimKeys,
    cause: &'w Cause,
}

impl FoundingWriter<'_, '_> {
    /// Creates a resource of an instance, under its id there.
    pub(crate) fn resource<R: Resource>(
        &mut self,
        instance_id: &str,
        id: &str,
        owner: &Owner,
        resource: R,
    ) -> Result<Decided, Refusal> {
        self.aggregate::<Standard<R>>(
            &AggregateKey::of::<Standard<R>>(instance_id, id),
            owner,
            Command::Create(resource),
        )
    }

    fn aggregate<A: Aggregate>(
        &mut self,
        key: &AggregateKey,
        owner: &Owner,
        asked: A::Command,
    ) -> Result<Decided, Refusal> {
        let current = self.turn.unborn::<A>(key, owner)?;
        let events = A::decide(&current.state, asked)?;
        self.turn.append(current, &events, self.keys, self.cause)
    }
}
