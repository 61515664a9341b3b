//! Begins families of refresh tokens, and uses their tokens up. A token is accepted by the current state of what it
//! depends on: the family, the session, the user, and the password that was checked.

use std::time::Duration;

use domain::{
    aggregate::Aggregate,
    context::Owner,
    log_class::LogClass,
    refresh_family::{Command, FIRST, Family, Fate, Presentation, RefreshFamily},
    resource::{
        session::{LONGEST_LIFE_MS, Session},
        user::{User, password::outdated},
    },
    standard::Standard,
};
use eventlog::record::AggregateKey;
use proto::bus::{BeginFamily, InternalOutcome, RevokeTokens, UseRefreshToken};

use super::{
    Ask, CommandActor, is_id,
    revoke::{self, revoke},
};
use crate::{
    checked_user::has_ended,
    turn::{Current, Decided, Refusal, Turn},
    writer::Decide,
};

/// The longest time that a token counts as shown before it is used up: longer than any request lasts.
const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// Begins a family.
pub(super) struct Begin {
    pub(super) by: CommandActor,
    pub(super) asked: BeginFamily,
}

/// Uses a refresh token up.
pub(super) struct Use {
    pub(super) by: CommandActor,
    pub(super) asked: UseRefreshToken,
}

impl CommandActor {
    pub(super) fn family(&self, turn: &mut Turn<'_>, id: &str) -> Current<RefreshFamily> {
        let key = AggregateKey::of::<RefreshFamily>(self.instance_id.as_str(), id);
        turn.get::<RefreshFamily>(&key).owned_by(&Owner::instance(&self.instance_id))
    }

    /// Whether a session belongs to a user and has not ended.
    fn lives(&self, turn: &mut Turn<'_>, session_id: &str, user_id: &str) -> bool {
        let key = AggregateKey::of::<Standard<Session>>(self.instance_id.as_str(), session_id);
        let now = turn.now().as_millisecond();
        let session = turn.get::<Standard<Session>>(&key);
        let living = session.resource().filter(|found| found.expires_at > now);
        let checked = living.and_then(|found| found.user.as_ref()).filter(|checked| checked.id == user_id);
        checked.is_some_and(|checked| !has_ended(turn, &self.instance_id, checked))
    }

    /// Whether a user is active and has the password that was checked at a time, in milliseconds since the Unix epoch.
    fn is_as_checked(&self, turn: &mut Turn<'_>, user_id: &str, checked_at: i64) -> bool {
        let key = AggregateKey::of::<Standard<User>>(self.instance_id.as_str(), user_id);
        let current = turn.get::<Standard<User>>(&key);
        let live = current.resource().filter(|user| user.is_live());
        live.is_some_and(|user| outdated(user.password.as_ref(), checked_at).is_none())
    }
}

impl Ask for Begin {
    const NAME: &'static str = "BeginFamily";

    fn by(&self) -> &CommandActor {
        &self.by
    }

    fn is_sound(&self) -> bool {
        let BeginFamily { family_id, user_id, client_id, session_id, .. } = &self.asked;
        [family_id, user_id, client_id, session_id].into_iter().all(|id| is_id(id))
    }
}

impl Decide for Begin {
    type Outcome = InternalOutcome;

    fn class(&self) -> LogClass {
        RefreshFamily::CLASS
    }

    fn decide(&self, turn: &mut Turn<'_>) -> Result<(Decided, InternalOutcome), Refusal> {
        let BeginFamily { family_id, user_id, client_id, session_id, expires_at } = self.asked.clone();
        let current = self.by.family(turn, &family_id);
        let has_ended = current.state.as_ref().as_ref().is_some_and(|family| family.has_ended);
        let may = self.by.lives(turn, &session_id, &user_id) && !has_ended;
        let expires_at = expires_at.min(turn.now().as_millisecond().saturating_add(LONGEST_LIFE_MS));
        let family = Family { user_id, client_id, session_id, expires_at, generation: FIRST, has_ended: false };
        let events = if may { RefreshFamily::decide(&current.state, Command::Begin(family))? } else { vec![] };
        let decided = turn.append(current, &events, &self.by.keys, &self.by.cause)?;
        Ok((decided, InternalOutcome { generation: if may { FIRST } else { 0 }, ..InternalOutcome::default() }))
    }
}

impl Ask for Use {
    const NAME: &'static str = "UseRefreshToken";

    fn by(&self) -> &CommandActor {
        &self.by
    }

    fn is_sound(&self) -> bool {
        let UseRefreshToken { session_id, reused, .. } = &self.asked;
        let is_sound = |reused: &RevokeTokens| is_id(&reused.family_id) && revoke::is_sound(reused);
        is_id(session_id) && reused.as_ref().is_some_and(is_sound)
    }
}

impl Decide for Use {
    type Outcome = InternalOutcome;

    fn class(&self) -> LogClass {
        RefreshFamily::CLASS
    }

    fn decide(&self, turn: &mut Turn<'_>) -> Result<(Decided, InternalOutcome), Refusal> {
        let reused = self.asked.reused.clone().unwrap_or_default();
        let current = self.by.family(turn, &reused.family_id);
        let fate = self.fate(turn, &current, &reused);
        let newest = current.state.as_ref().as_ref().map_or(0, |family| family.generation);
        let (events, generation) = match fate {
            Fate::Renewed => (RefreshFamily::decide(&current.state, Command::Renew)?, newest + 1),
            Fate::Repeated => (vec![], newest),
            Fate::Over => (vec![], 0),
            Fate::Reused => {
                let decided = revoke(turn, &self.by, &reused)?;
                return Ok((decided, InternalOutcome { reused: true, ..InternalOutcome::default() }));
            }
        };
        let decided = turn.append(current, &events, &self.by.keys, &self.by.cause)?;
        Ok((decided, InternalOutcome { generation, ..InternalOutcome::default() }))
    }
}

impl Use {
    /// Returns the fate of a token that is shown. It is over unless everything that it depends on is as it was at the
    /// login.
    fn fate(&self, turn: &mut Turn<'_>, current: &Current<RefreshFamily>, reused: &RevokeTokens) -> Fate {
        let UseRefreshToken { session_id, generation, checked_at, waited, .. } = &self.asked;
        let RevokeTokens { user_id, client_id, .. } = reused;
        let is_of = |family: &&Family| {
            (&family.user_id, &family.client_id, &family.session_id) == (user_id, client_id, session_id)
        };
        let lives = self.by.lives(turn, session_id, user_id);
        let is_as_checked = self.by.is_as_checked(turn, user_id, *checked_at);
        let unchanged_for = Duration::try_from(turn.now().duration_since(current.head.changed_at)).unwrap_or_default();
        let waited = Duration::from_millis(*waited).min(LONGEST_WAIT);
        let shown =
            Presentation { at: turn.now().as_millisecond(), unchanged_for: unchanged_for.saturating_sub(waited) };
        let family = current.state.as_ref().as_ref().filter(is_of).filter(|_| lives && is_as_checked);
        family.map_or(Fate::Over, |family| family.fate(*generation, shown))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::{ENDS, INSTANCE, PERSON, SESSION, Scene, cause};

    fn by(scene: &Scene) -> CommandActor {
        CommandActor { instance_id: INSTANCE.into(), keys: scene.keys.clone(), cause: cause() }
    }

    fn begin(scene: &Scene) -> Begin {
        let [family_id, user_id, client_id, session_id] = ["8", PERSON, "9", SESSION].map(str::to_owned);
        Begin { by: by(scene), asked: BeginFamily { family_id, user_id, client_id, session_id, expires_at: 1_000_000 } }
    }

    #[test]
    fn a_family_begins_in_a_session_that_was_not_ended_with_all_others() {
        for (end, lives) in ENDS {
            let mut scene = Scene::logged_in(end);
            let asked = begin(&scene);
            let (_, outcome) = scene.turn(|turn, _| asked.decide(turn)).expect("it is not refused");
            assert_eq!(outcome.generation, if lives { FIRST } else { 0 }, "{end:?}");
        }
    }

    #[test]
    fn a_token_is_used_up_in_a_session_that_was_not_ended_with_all_others() {
        for (end, lives) in ENDS {
            let mut scene = Scene::logged_in(end);
            let Begin { by, asked: BeginFamily { family_id, user_id, client_id, session_id, expires_at } } =
                begin(&scene);
            let reused = RevokeTokens {
                family_id: family_id.clone(),
                user_id: user_id.clone(),
                client_id: client_id.clone(),
                ..RevokeTokens::default()
            };
            let asked = UseRefreshToken {
                session_id: session_id.clone(),
                generation: FIRST,
                reused: Some(reused),
                ..UseRefreshToken::default()
            };
            let family = Family { user_id, client_id, session_id, expires_at, generation: FIRST, has_ended: false };
            let using = Use { by, asked };
            let begun = scene.turn(|turn, keys| {
                let current = using.by.family(turn, &family_id);
                let begun = RefreshFamily::decide(&current.state, Command::Begin(family))?;
                turn.append(current, &begun, keys, &cause())
            });
            begun.expect("it is new");
            let (_, outcome) = scene.turn(|turn, _| using.decide(turn)).expect("it is not refused");
            assert_eq!((outcome.generation, outcome.reused), (if lives { FIRST + 1 } else { 0 }, false), "{end:?}");
        }
    }
}
