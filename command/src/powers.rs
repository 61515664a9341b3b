//! Who may act as a user, or take it away: only who could give it its roles. Else a role that is allowed to manage users
//! would be as much as the roles of any of them.
//!
//! Where roles are held that no claim leads to, the read model tells. The turn knows what the read model may not have heard.

use std::{sync::Arc, time::Duration};

use domain::{
    context::{Owner, OwnerType},
    resource::organization::Organization,
    standard::Standard,
};
use edge::{
    call::Call,
    consistency::OWN_WAIT,
    error::{Error, Reason},
    refusal::{permission_denied, read_model},
};
use eventlog::record::Key;
use view::database::Failure;

use crate::{
    execute::{Commands, Deciding},
    turn::{Refusal, Turn},
};

/// The permission to give roles.
const GIVE_ROLES: &str = "membership.write";

/// What the read model is asked about roles for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To switch something off. Who must be stopped is stopped, also while Postgres is away.
    Stop,
    /// What cannot be undone, or gives power: it waits.
    Power,
}

impl Purpose {
    /// What the read model said; `unsaid` where Postgres is away and nobody waits for it.
    pub(crate) fn said<T>(self, read: Result<T, Arc<Failure>>, unsaid: T) -> Result<T, Error> {
        match read {
            Err(error) if self == Self::Stop && !matches!(*error, Failure::Inconsistent { .. }) => Ok(unsaid),
            read => read.map_err(read_model),
        }
    }

    /// Up to which sequence the read model counts as knowing all roles.
    pub(crate) fn heard(self, processed: u64) -> u64 {
        if self == Self::Stop { u64::MAX } else { processed }
    }
}

impl Commands {
    /// How far the read model of roles is. It is waited for, but not insisted on, that it has what the caller has seen.
    pub(crate) async fn roles_known(&self, call: &Call, purpose: Purpose) -> u64 {
        let seen = if purpose == Purpose::Power { call.consistency.seen() } else { 0 };
        // Where Postgres does not answer, what is asked of it next says so.
        self.directory.reaches(seen, OWN_WAIT).await.unwrap_or_default()
    }
}

/// Where the roles of a user, or of all users of an organization, are held.
#[derive(Debug)]
pub(crate) struct RolesHeld {
    /// Where.
    pub(crate) contexts: Vec<Owner>,
    /// Up to which sequence the read model, which said so, has heard of them.
    pub(crate) heard: u64,
}

impl RolesHeld {
    /// Refuses whoever may not give roles in each of these contexts. `holder` is the user or the organization.
    pub(crate) fn may_be_given(&self, turn: &mut Turn<'_>, deciding: &Deciding, holder: &Key) -> Result<(), Refusal> {
        // Roles in what was removed give nothing, and nobody could give them.
        let counts = |context: &&Owner| {
            context.kind != OwnerType::Organization || {
                let key = Key::of::<Standard<Organization>>(&holder.instance_id, &context.id);
                turn.get::<Standard<Organization>>(&key).resource().is_some()
            }
        };
        let contexts: Vec<Owner> = self.contexts.iter().filter(counts).cloned().collect();
        if !deciding.authority.may_in_all(turn, GIVE_ROLES, &contexts) {
            return Err(permission_denied(GIVE_ROLES).into());
        }
        if turn.roles_given(holder) > self.heard {
            let message = "the read model has not heard yet of roles that were given: send it again in a moment";
            return Err(Error::new(Reason::ReadModelUnavailable, message).retry_after(Duration::from_secs(1)).into());
        }
        Ok(())
    }
}
