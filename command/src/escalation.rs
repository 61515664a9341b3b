//! The escalation check: only a caller who could give a user its roles may act as that user or take it away. Otherwise a
//! role that may manage users would be worth as much as the roles of any of them.
//!
//! The read model knows in which contexts a user holds roles. The turn knows the roles that were given since.

use std::{sync::Arc, time::Duration};

use domain::{
    context::{Owner, OwnerType},
    resource::organization::Organization,
    standard::Standard,
};
use edge::{
    call::Call,
    error::{Error, Reason},
    freshness::OWN_WAIT,
    refusal::{permission_denied, read_model},
};
use eventlog::record::AggregateKey;
use view::database::DatabaseFailure;

use crate::{
    execute::{Commands, Deciding},
    turn::{Refusal, Turn},
};

/// The permission to give roles.
const GIVE_ROLES: &str = "membership.write";

/// How current the read model of roles must be for a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RoleFreshness {
    /// For switching something off: whoever must be stopped is stopped, even while Postgres is away.
    BestEffort,
    /// For what cannot be undone or gives power: it waits until the read model can be read.
    Required,
}

impl RoleFreshness {
    /// Returns what was read; `fallback` where Postgres is away and the best effort is enough.
    pub(crate) fn accept<T>(self, read: Result<T, Arc<DatabaseFailure>>, fallback: T) -> Result<T, Error> {
        match read {
            Err(error) if self == Self::BestEffort && !matches!(*error, DatabaseFailure::Inconsistent { .. }) => {
                Ok(fallback)
            }
            read => read.map_err(read_model),
        }
    }

    /// Up to which sequence the read model counts as knowing all roles.
    pub(crate) fn known_up_to(self, processed: u64) -> u64 {
        if self == Self::BestEffort { u64::MAX } else { processed }
    }
}

impl Commands {
    /// How far the read model of roles is. It waits a moment for what the caller has seen, but does not insist on it.
    pub(crate) async fn roles_processed(&self, call: &Call, freshness: RoleFreshness) -> u64 {
        let seen = if freshness == RoleFreshness::Required { call.consistency.seen() } else { 0 };
        // Where Postgres does not answer, what is asked of it next says so.
        self.directory.processed_by(seen, OWN_WAIT).await.unwrap_or_default()
    }
}

/// The contexts in which a user, or the users of an organization, hold roles.
#[derive(Debug)]
pub(crate) struct RoleContexts {
    /// The contexts.
    pub(crate) contexts: Vec<Owner>,
    /// Up to which sequence the read model knew the roles.
    pub(crate) known_up_to: u64,
}

impl RoleContexts {
    /// Refuses a caller who may not give roles in each of these contexts. `holder` is the user or the organization.
    pub(crate) fn check_escalation(
        &self,
        turn: &mut Turn<'_>,
        deciding: &Deciding,
        holder: &AggregateKey,
    ) -> Result<(), Refusal> {
        // Roles in a removed organization give nothing, and nobody could give them.
        let counts = |context: &&Owner| {
            context.kind != OwnerType::Organization || {
                let key = AggregateKey::of::<Standard<Organization>>(&holder.instance_id, &context.id);
                turn.get::<Standard<Organization>>(&key).resource().is_some()
            }
        };
        let contexts: Vec<Owner> = self.contexts.iter().filter(counts).cloned().collect();
        if !deciding.authority.may_in_all(turn, GIVE_ROLES, &contexts) {
            return Err(permission_denied(GIVE_ROLES).into());
        }
        if turn.roles_given(holder) > self.known_up_to {
            let message = "the read model does not have the newest roles yet: send it again in a moment";
            return Err(Error::new(Reason::ReadModelUnavailable, message).retry_after(Duration::from_secs(1)).into());
        }
        Ok(())
    }
}
