//! A new instance with all that it needs to serve: keys, hosts, an organization, the platform's project and first users.

use std::sync::Arc;

use base::{clock, id::Ids, secret, signing};
use domain::{
    aggregate::Aggregate,
    client_secret::ClientSecrets,
    context::Owner,
    resource::{
        data_key::DataKey, domain::Domain, instance::Instance, membership::Membership, organization::Organization,
        project::Project, signing_key::SigningKey, user::User,
    },
    setting::features::{Features, FeaturesChange},
    settings::{Command as Asked, Settings},
    standard::{Command, Resource, Standard},
};
use edge::error::{Error, Reason};
use eventlog::record::AggregateKey;
use view::keyring::{Keyring, OF_INSTANCE, Purpose, secret_hash};

use crate::{
    plan::{Plan, ServiceUser},
    signing_keys::sealed,
    turn::{Cause, ClaimKeys, Decided, Refusal, Turn},
};

/// Everything random of an instance, so that it can be decided more than once.
pub(crate) struct Founding {
    keyring: Keyring,
    /// What its data keys are wrapped by.
    master_key_id: String,
    plan: Plan,
    features: Asked<Features>,
    keys: ClaimKeys,
    data_keys: Vec<(String, DataKey)>,
    signing_keys: Vec<(String, SigningKey)>,
    users: Vec<(String, User)>,
    /// For the memberships and domains.
    ids: Vec<String>,
}

impl Founding {
    /// Draws what is random; the keys take some hundred milliseconds of a core. `system` hashes what is unique in the system.
    pub(crate) fn new(keyring: &Keyring, ids: &Ids, plan: Plan, system: Arc<secret::Key>) -> Self {
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
            let username = user.client_id.clone();
            (user.user_id.clone(), User { username, secrets, is_active: true, ..User::default() })
        };
        Self {
            keyring: keyring.clone(),
            master_key_id,
            keys: ClaimKeys { instance: key(Purpose::Claim), system },
            signing_keys,
            users: plan.service_users.iter().map(user).collect(),
            ids: (0..plan.service_users.len() + plan.hosts.len()).map(|_| ids.next()).collect(),
            data_keys,
            features: Asked::Change { change: FeaturesChange::on(&plan.features), above: vec![] },
            plan,
        }
    }

    /// The id of the instance.
    pub(crate) fn instance_id(&self) -> &str {
        &self.plan.instance_id
    }

    /// Writes all of it. What it came to is that of the instance.
    pub(crate) fn found(&self, turn: &mut Turn<'_>, cause: &Cause) -> Result<Decided, Refusal> {
        let plan = &self.plan;
        let id = plan.instance_id.as_str();
        // Whoever has all data keys wrapped anew relies on it.
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
        let users = self.users.iter().zip(plan.service_users.iter().zip(membership_ids));
        for ((user_id, user), (planned, membership_id)) in users {
            new.resource(id, user_id, &organization, user.clone())?;
            if !planned.roles.is_empty() {
                let membership = Membership::new(user_id, &organization, instance.clone(), planned.roles.clone());
                new.resource(id, membership_id, &instance, membership)?;
            }
        }
        Ok(decided)
    }

    /// Writes what is new.
    pub(crate) fn new_in<'w, 't>(&'w self, turn: &'w mut Turn<'t>, cause: &'w Cause) -> New<'w, 't> {
        New { turn, keys: &self.keys, cause }
    }
}

/// Writes what is new, one aggregate after another.
pub(crate) struct New<'w, 't> {
    turn: &'w mut Turn<'t>,
    keys: &'w ClaimKeys,
    cause: &'w Cause,
}

impl New<'_, '_> {
    /// A resource of an instance, under its id there.
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
