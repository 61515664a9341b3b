//! The decisive check of who may do what: in the writer's turn, on committed state.
//!
//! The checks at the edge are early refusals from a read model that may lag. A right that was revoked at some sequence
//! is refused here for every command behind it.

use domain::{
    context::Owner,
    permission::permits,
    resource::{instance::Instance, membership::Membership, user::User},
    setting::features::Features,
    settings::Settings,
    standard::Standard,
};
use proto::operation::Facts;
use store::{
    history::ClaimHash,
    keyring::{SYSTEM, claim_hash},
    record::Key,
};
use transport::{
    edge::{Call, feature_disabled, permission_denied},
    error::{Error, Reason},
};

use crate::turn::{ClaimKeys, Stop, Turn};

/// On what a caller's right to an operation rests.
pub(crate) struct Authority {
    operation: &'static Facts,
    instance: Key,
    user: Key,
    /// The flags, the nearest context first.
    features: [Key; 2],
    /// Whether a system user, whose rights are not in the log, may do it; `None` for all others.
    system_may: Option<bool>,
    /// The memberships of the caller in the contexts of the operation.
    memberships: Vec<ClaimHash>,
}

impl Authority {
    /// The authority of a call to an operation on its instance.
    pub(crate) fn of(call: &Call, keys: &ClaimKeys) -> Self {
        let (instance, user) = (&call.tenant.id, &call.caller.id);
        let contexts = [Owner::instance(instance), Owner::system()];
        let membership = |context: &Owner| claim_hash(&keys.instance, &Membership::claim(context, user));
        let permitted = |permission: &str| call.caller.may(permission, &contexts);
        Self {
            system_may: call.is_system.then(|| call.operation.permission.is_none_or(permitted)),
            operation: call.operation,
            instance: Key::of::<Standard<Instance>>(instance, instance),
            user: Key::of::<Standard<User>>(instance, user),
            features: [
                Key::of::<Settings<Features>>(instance, instance),
                Key::of::<Settings<Features>>(SYSTEM, SYSTEM),
            ],
            memberships: contexts.iter().map(membership).collect(),
        }
    }

    /// Refuses what the caller may not do now.
    pub(crate) fn check(&self, turn: &mut Turn<'_>) -> Result<(), Stop> {
        let instance = turn.get::<Standard<Instance>>(&self.instance)?;
        let user = turn.get::<Standard<User>>(&self.user)?;
        let features = [turn.get::<Settings<Features>>(&self.features[0])?, turn.get(&self.features[1])?];
        let holders: Vec<_> = self.memberships.iter().map(|claim| turn.holder(claim)).collect();
        let mut memberships = vec![];
        for key in holders.into_iter().flatten().flatten() {
            memberships.push(turn.get::<Standard<Membership>>(&key)?);
        }
        turn.complete()?;

        let is_live = instance.is_some_and(|instance| instance.state.is_some())
            && (self.system_may.is_some()
                || user.is_some_and(|user| user.state.as_ref().as_ref().is_some_and(|user| user.is_active)));
        if !is_live {
            return refuse(Error::new(Reason::TokenInvalid, "the user of the access token is not active"));
        }
        if let Some(flag) = self.operation.feature {
            let mut set = features.iter().flatten().filter_map(|features| features.state.flag(flag));
            if !set.next().unwrap_or(false) {
                return refuse(feature_disabled(flag));
            }
        }
        if let Some(permission) = self.operation.permission {
            let held: Vec<_> =
                memberships.iter().flatten().filter_map(|membership| membership.state.as_ref().as_ref()).collect();
            let roles = held.iter().flat_map(|membership| membership.roles.iter().map(String::as_str));
            if !self.system_may.unwrap_or_else(|| permits(roles, permission)) {
                return refuse(permission_denied(permission));
            }
        }
        Ok(())
    }
}

fn refuse(error: Error) -> Result<(), Stop> {
    Err(Stop::Refused(Box::new(error)))
}
