//! Lets clients refresh what they got for somebody, and has refresh tokens used. Who shows one is let in by what there is now: the
//! family must be there, and the session must not have ended.

use std::time::Duration;

use domain::{
    aggregate::Aggregate,
    context::Owner,
    log_class::LogClass,
    refresh_family::{Command, FIRST, Family, Fate, Granted, RefreshFamily},
    resource::session::{LONGEST_LIFE_MS, Session},
    standard::Standard,
};
use eventlog::record::AggregateKey;
use proto::bus::{GrantRefresh, InternalOutcome, Refresh};

use super::{Ask, By, is_id};
use crate::{
    turn::{Current, Decided, Refusal, Turn},
    writer::Decide,
};

/// Lets a client refresh.
pub(super) struct Grant {
    pub(super) by: By,
    pub(super) asked: GrantRefresh,
}

/// Uses a refresh token.
pub(super) struct Use {
    pub(super) by: By,
    pub(super) asked: Refresh,
}

impl By {
    fn family(&self, turn: &mut Turn<'_>, id: &str) -> Current<RefreshFamily> {
        let key = AggregateKey::of::<RefreshFamily>(self.instance_id.as_str(), id);
        turn.get::<RefreshFamily>(&key).owned_by(&Owner::instance(&self.instance_id))
    }

    /// Whether a session is that of a user, and has not ended.
    fn lives(&self, turn: &mut Turn<'_>, (session_id, user_id): (&str, &str)) -> bool {
        let key = AggregateKey::of::<Standard<Session>>(self.instance_id.as_str(), session_id);
        let now = turn.now().as_millisecond();
        let session = turn.get::<Standard<Session>>(&key);
        session.resource().is_some_and(|found| found.user_id() == Some(user_id) && found.expires_at > now)
    }
}

impl Ask for Grant {
    const NAME: &'static str = "GrantRefresh";

    fn by(&self) -> &By {
        &self.by
    }

    fn is_sound(&self) -> bool {
        let GrantRefresh { family_id, user_id, client_id, session_id, .. } = &self.asked;
        [family_id, user_id, client_id, session_id].into_iter().all(|id| is_id(id))
    }
}

impl Decide for Grant {
    type Outcome = InternalOutcome;

    fn class(&self) -> LogClass {
        RefreshFamily::CLASS
    }

    fn decide(&self, turn: &mut Turn<'_>) -> Result<(Decided, InternalOutcome), Refusal> {
        let GrantRefresh { family_id, user_id, client_id, session_id, expires_at } = self.asked.clone();
        let family = self.by.family(turn, &family_id);
        let may = self.by.lives(turn, (&session_id, &user_id));
        let latest = turn.now().as_millisecond().saturating_add(LONGEST_LIFE_MS);
        let granted = Granted { user_id, client_id, session_id, expires_at: expires_at.min(latest) };
        let events = if may { RefreshFamily::decide(&family.state, Command::Grant(granted))? } else { vec![] };
        let decided = turn.append(family, &events, &self.by.keys, &self.by.cause)?;
        Ok((decided, InternalOutcome { generation: if may { FIRST } else { 0 }, ..InternalOutcome::default() }))
    }
}

impl Ask for Use {
    const NAME: &'static str = "Refresh";

    fn by(&self) -> &By {
        &self.by
    }

    fn is_sound(&self) -> bool {
        let Refresh { family_id, user_id, client_id, session_id, .. } = &self.asked;
        [family_id, user_id, client_id, session_id].into_iter().all(|id| is_id(id))
    }
}

impl Decide for Use {
    type Outcome = InternalOutcome;

    fn class(&self) -> LogClass {
        RefreshFamily::CLASS
    }

    fn decide(&self, turn: &mut Turn<'_>) -> Result<(Decided, InternalOutcome), Refusal> {
        let Refresh { family_id, user_id, session_id, generation, .. } = &self.asked;
        let current = self.by.family(turn, family_id);
        let may = self.by.lives(turn, (session_id, user_id));
        let unchanged_for = Duration::try_from(turn.now().duration_since(current.head.changed_at)).unwrap_or_default();
        let now = (turn.now().as_millisecond(), unchanged_for);
        let found = current.state.as_ref().as_ref();
        let newest = found.map_or(0, |family| family.generation);
        let fate =
            found.filter(|family| may && self.is_of(family)).map_or(Fate::Over, |family| family.fate(*generation, now));
        let (events, generation) = match fate {
            Fate::Renewed => (RefreshFamily::decide(&current.state, Command::Renew)?, newest + 1),
            Fate::Repeated => (vec![], newest),
            Fate::Reused | Fate::Over => (vec![], 0),
        };
        let decided = turn.append(current, &events, &self.by.keys, &self.by.cause)?;
        Ok((decided, InternalOutcome { generation, reused: fate == Fate::Reused, ..InternalOutcome::default() }))
    }
}

impl Use {
    /// Whether a family is the one that the token says.
    fn is_of(&self, family: &Family) -> bool {
        let Refresh { user_id, client_id, session_id, .. } = &self.asked;
        let Granted { user_id: user, client_id: client, session_id: session, .. } = &family.granted;
        (user_id, client_id, session_id) == (user, client, session)
    }
}
