//! Revokes tokens.

use base::clock;
use domain::{
    aggregate::Aggregate,
    context::Owner,
    log_class::LogClass,
    refresh_family::{self, RefreshFamily},
    token_revocation::{Revoked, TokenRevocation, id_of_all},
};
use eventlog::record::AggregateKey;
use proto::bus::{InternalOutcome, RevokeTokens};
use view::revoked::{LONGEST_LIFE, REMEMBERED};

use super::{Ask, CommandActor, LONGEST_ID, is_id};
use crate::{
    turn::{Decided, Refusal, Turn},
    writer::Decide,
};

/// Revokes access tokens, and the refresh tokens that they were got with.
pub(super) struct Revoke {
    pub(super) by: CommandActor,
    pub(super) asked: RevokeTokens,
}

impl Ask for Revoke {
    const NAME: &'static str = "RevokeTokens";

    fn by(&self) -> &CommandActor {
        &self.by
    }

    fn is_sound(&self) -> bool {
        is_sound(&self.asked)
    }
}

impl Decide for Revoke {
    type Outcome = InternalOutcome;

    fn class(&self) -> LogClass {
        TokenRevocation::CLASS
    }

    fn decide(&self, turn: &mut Turn<'_>) -> Result<(Decided, InternalOutcome), Refusal> {
        Ok((revoke(turn, &self.by, &self.asked)?, InternalOutcome::default()))
    }
}

/// Whether a request is about tokens that can exist, and whose revocation can be forgotten in time.
pub(super) fn is_sound(
    RevokeTokens { user_id, client_id, token_id, expires_at, family_id, .. }: &RevokeTokens,
) -> bool {
    let is_in_time = *expires_at <= (clock::now() + REMEMBERED).as_millisecond();
    // An id with a dot would be the id of all tokens of a user and a client.
    let is_token = token_id.len() <= LONGEST_ID && !token_id.contains('.');
    is_id(user_id) && is_id(client_id) && is_token && is_in_time && family_id.len() <= LONGEST_ID
}

/// Ends access tokens, and a family of refresh tokens where one is named.
pub(super) fn revoke(turn: &mut Turn<'_>, by: &CommandActor, asked: &RevokeTokens) -> Result<Decided, Refusal> {
    let RevokeTokens { user_id, client_id, token_id, expires_at, seen, family_id } = asked;
    let CommandActor { instance_id, keys, cause } = by;
    let is_all = token_id.is_empty();
    let id = if is_all { id_of_all(user_id, client_id) } else { token_id.clone() };
    let key = AggregateKey::of::<TokenRevocation>(instance_id.as_str(), id);
    let current = turn.get::<TokenRevocation>(&key).owned_by(&Owner::instance(instance_id));
    let revoked = Revoked { user_id: user_id.clone(), client_id: client_id.clone(), expires_at: *expires_at, is_all };
    // The request may be sent again, and a client with many tokens of one user revokes each of them.
    let is_remembered = turn.now() < current.head.changed_at + LONGEST_LIFE;
    let events = if is_all && current.head.sequence > *seen && is_remembered {
        vec![]
    } else {
        TokenRevocation::decide(&current.state, revoked)?
    };
    if !family_id.is_empty() {
        let family = by.family(turn, family_id);
        let ended = RefreshFamily::decide(&family.state, refresh_family::Command::End)?;
        turn.append(family, &ended, keys, cause)?;
    }
    turn.append(current, &events, keys, cause)
}
