//! The decisive check of who may do what: in the writer's turn, on committed state.
//!
//! The checks at the edge are early refusals from a read model that may lag. A right that was revoked at some sequence
//! is refused here for every later command.

use std::{collections::HashSet, sync::Arc};

use base::secret;
use domain::{
    context::{Owner, OwnerType, Part, RolePlace},
    permission::reading,
    rejection::Rejection,
    resource::{
        instance::Instance, membership::Membership, organization::Organization,
        personal_access_token::PersonalAccessToken, user::User,
    },
    rights::permits,
    setting::features::Features,
    settings::{Chain, Settings},
    standard::{Resource, Standard},
};
use edge::{
    call::Call,
    error::{Error, Reason},
    refusal::{feature_disabled, permission_denied},
};
use eventlog::record::AggregateKey;
use proto::operation::{Facts, Waived};
use view::{
    directory::Principal,
    keyring::{SYSTEM, claim_hash},
};

use crate::turn::{Current, Refusal, Turn};

/// What a caller's right to an operation depends on.
pub(crate) struct Authority {
    operation: &'static Facts,
    /// The instance that the command is about.
    instance_id: String,
    caller_id: String,
    /// The instance that the caller belongs to.
    home: AggregateKey,
    user: AggregateKey,
    /// The organization of the user; system users have none.
    organization: Option<AggregateKey>,
    /// The sequence of the log that the issuer of the caller's token had seen.
    seen: u64,
    /// The personal access token that the caller sent, if it did.
    token: Option<AggregateKey>,
    /// The flags of the caller's instance, the nearest context first.
    features: [AggregateKey; 2],
    /// A system user, whose rights are not in the log; `None` for all others.
    system: Option<Arc<Principal>>,
    /// Whether targets of the instance may have changed the request: then rights above the instance do not count.
    is_bounded: bool,
    /// The key that hashes the claims of the caller's memberships.
    claims: Arc<secret::SymmetricKey>,
}

/// The object that a command changes, as the check of permissions needs it.
pub(crate) struct Object {
    /// The name of its type.
    pub(crate) name: &'static str,
    /// Whether it exists already.
    pub(crate) exists: bool,
    /// The user that it belongs to, if it belongs to one.
    pub(crate) user_id: Option<String>,
    /// See [`Resource::PARTS`].
    pub(crate) parts: Vec<Part>,
}

impl Object {
    /// Returns an object that belongs to no user.
    pub(crate) fn of_nobody(name: &'static str, exists: bool) -> Self {
        Self { name, exists, user_id: None, parts: vec![] }
    }
}

impl Authority {
    /// Returns the authority of a call to an operation. `claims` is the key of the caller's own instance.
    pub(crate) fn of(call: &Call, claims: Arc<secret::SymmetricKey>) -> Self {
        let (home, user) = (&call.home.id, &call.caller.id);
        let organization = (call.caller.owner.kind == OwnerType::Organization).then_some(&call.caller.owner.id);
        Self {
            system: call.is_system.then(|| call.caller.clone()),
            operation: call.operation,
            instance_id: call.tenant.id.clone(),
            caller_id: user.clone(),
            is_bounded: call.triggered.is_some(),
            home: AggregateKey::of::<Standard<Instance>>(home, home),
            user: AggregateKey::of::<Standard<User>>(home, user),
            organization: organization.map(|id| AggregateKey::of::<Standard<Organization>>(home, id)),
            seen: call.token_seen(),
            token: call.personal_access_token().map(|id| AggregateKey::of::<Standard<PersonalAccessToken>>(home, id)),
            features: [
                AggregateKey::of::<Settings<Features>>(home, home),
                AggregateKey::of::<Settings<Features>>(SYSTEM, SYSTEM),
            ],
            claims,
        }
    }

    /// Refuses callers who are not active, and operations that are switched off.
    pub(crate) fn check(&self, turn: &mut Turn<'_>) -> Result<(), Refusal> {
        let instance = turn.get::<Standard<Instance>>(&self.home);
        let user = turn.get::<Standard<User>>(&self.user);
        let organization = self.organization.as_ref().map(|key| turn.get::<Standard<Organization>>(key));
        let features = self.features.each_ref().map(|key| turn.get::<Settings<Features>>(key));
        let token = self.token.as_ref().map(|key| turn.get::<Standard<PersonalAccessToken>>(key));

        if self.system.is_none() {
            let organization = organization.as_ref().and_then(Current::resource);
            let user = user.resource();
            if !user.is_some_and(User::is_live) || !organization.is_some_and(|found| found.is_active) {
                return Err(Error::new(Reason::TokenInvalid, "the user of the access token is not active").into());
            }
            let has_ended = user.is_some_and(|user| user.has_ended_sessions_since(self.seen));
            if has_ended || token.is_some_and(|token| token.resource().is_none()) {
                return Err(Error::new(Reason::TokenInvalid, "the access token is not valid").into());
            }
            match instance.resource() {
                Some(instance) if instance.limits.block => {
                    return Err(Error::new(Reason::InstanceBlocked, "the instance is blocked").into());
                }
                Some(instance) if instance.is_active => {}
                _ => return Err(Error::new(Reason::InstanceInactive, "the instance is switched off").into()),
            }
        }
        let [instance, system] = features.map(|found| found.set());
        let features = Chain { own: instance, above: vec![(Owner::system(), system)] };
        if let Some(flag) = self.operation.feature
            && !features.has(flag)
        {
            return Err(feature_disabled(flag).into());
        }
        Ok(())
    }

    /// Refuses what the caller may not do in a context. To a caller who may not even read there, the object does not
    /// exist.
    pub(crate) fn permit(&self, turn: &mut Turn<'_>, context: &Owner, object: &Object) -> Result<(), Refusal> {
        if context.kind != OwnerType::System {
            let instance = AggregateKey::of::<Standard<Instance>>(&self.instance_id, &self.instance_id);
            turn.get::<Standard<Instance>>(&instance).resource().ok_or(Rejection::NotFound(Instance::NAME))?;
        }
        let nothing = Rejection::NotFound(if object.exists { object.name } else { "organization" });
        if let OwnerType::Organization = context.kind {
            let organization = AggregateKey::of::<Standard<Organization>>(&self.instance_id, &context.id);
            turn.get::<Standard<Organization>>(&organization).resource().ok_or_else(|| nothing.clone())?;
        }
        let is_system = context.kind == OwnerType::System;
        let Some(permission) = self.operation.permission_in(is_system) else { return self.permit_own(object) };
        if self.gives(object) {
            return Ok(());
        }
        let place = RolePlace { context: context.clone(), parts: object.parts.clone() };
        if self.may_at(turn, permission, &place) {
            return Ok(());
        }
        let is_known = context.kind != OwnerType::Organization && !object.exists;
        if is_known || self.may_at(turn, &reading(permission), &place) {
            return Err(permission_denied(permission).into());
        }
        Err(nothing.into())
    }

    /// Refuses everything but the caller's own objects, for an operation that is about these only.
    fn permit_own(&self, object: &Object) -> Result<(), Refusal> {
        if self.gives(object) { Ok(()) } else { Err(Rejection::NotFound(object.name).into()) }
    }

    /// Whether the operation lets the caller do this to an object of its own, whatever its roles.
    fn gives(&self, object: &Object) -> bool {
        self.is_home() && self.operation.gives(&self.caller_id, object.user_id.as_deref())
    }

    /// Whether the caller has a permission in a context.
    pub(crate) fn may(&self, turn: &mut Turn<'_>, permission: &str, context: &Owner) -> bool {
        self.may_at(turn, permission, &context.clone().into())
    }

    /// Whether the caller has a permission in a place.
    pub(crate) fn may_at(&self, turn: &mut Turn<'_>, permission: &str, place: &RolePlace) -> bool {
        self.may_in_all(turn, permission, std::slice::from_ref(place))
    }

    /// Whether the caller has a permission in each of these places. All that must be loaded for that is loaded at once.
    pub(crate) fn may_in_all(&self, turn: &mut Turn<'_>, permission: &str, places: &[RolePlace]) -> bool {
        if let Some(user) = &self.system {
            return user.may(permission, &[Owner::system()]);
        }
        let counts = |context: &Owner| !self.is_bounded || context.kind != OwnerType::System;
        let chain = |place: &RolePlace| {
            let mut chain = above(place, &self.instance_id);
            chain.retain(|(context, _)| counts(context));
            chain
        };
        let chains: Vec<_> = places.iter().map(chain).collect();
        has_in_all(turn, &self.claims, &self.caller_id, permission, &chains)
    }

    /// Whether the token of an object stands in for a permission on it.
    pub(crate) fn takes_token(&self) -> bool {
        self.is_home() && self.operation.waived == Waived::ByToken
    }

    /// Whether the caller is a user of this instance; a user of another one may have the same id as one of its users.
    fn is_home(&self) -> bool {
        self.home.instance_id == self.instance_id && self.system.is_none()
    }

    /// Whether a user is the caller itself.
    pub(crate) fn is_caller(&self, user_id: &str) -> bool {
        self.is_home() && self.caller_id == user_id
    }
}

/// Returns the contexts and parts in which a role must be held to hold in a place.
pub(crate) fn above(place: &RolePlace, instance_id: &str) -> Vec<(Owner, Option<Part>)> {
    let contexts = place.context.chain(instance_id).into_iter().map(|context| (context, None));
    contexts.chain(place.parts.iter().map(|part| (place.context.clone(), Some(part.clone())))).collect()
}

/// Whether a user has a permission by a role that it holds somewhere in each of these chains. `claims` is the key of
/// the user's instance.
pub(crate) fn has_in_all(
    turn: &mut Turn<'_>,
    claims: &secret::SymmetricKey,
    user_id: &str,
    permission: &str,
    chains: &[Vec<(Owner, Option<Part>)>],
) -> bool {
    let held = memberships(turn, claims, user_id, chains.iter().flatten());
    let held: Vec<_> = held.iter().filter_map(Current::resource).collect();
    chains.iter().all(|chain| {
        let is_here =
            |held: &&&Membership| chain.iter().any(|(context, part)| (context, part) == (&held.context, &held.part));
        let here = held.iter().filter(is_here);
        permits(here.flat_map(|membership| membership.roles.iter().map(String::as_str)), permission)
    })
}

/// Returns the memberships of a user in contexts, and in parts of these. `claims` is the key of the user's instance.
pub(crate) fn memberships<'a>(
    turn: &mut Turn<'_>,
    claims: &secret::SymmetricKey,
    user_id: &str,
    places: impl IntoIterator<Item = &'a (Owner, Option<Part>)>,
) -> Vec<Current<Standard<Membership>>> {
    let places: HashSet<_> = places.into_iter().collect();
    let claim = |(context, part): &(Owner, Option<Part>)| Membership::claim(context, part.as_ref(), user_id);
    let claims = places.into_iter().map(|place| claim_hash(claims, &claim(place)));
    let holders: Vec<_> = claims.filter_map(|claim| turn.holder(&claim)).collect();
    holders.iter().map(|key| turn.get(key)).collect()
}

#[cfg(test)]
pub(crate) mod tests;
