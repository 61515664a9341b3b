//! Refresh token families (RFC 9700, section 4.14.2): all refresh tokens that follow each other from one login. Each
//! use gives the family another generation, which has one token; whoever shows an older one may have stolen it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{aggregate::Aggregate, log_class::LogClass, rejection::Rejection};

/// How long the previous token still yields the newest one, for a client that lost the answer or asked twice at once:
/// as long as the writer is waited for, and ten seconds more.
pub const GRACE: Duration = Duration::from_secs(20);
/// The generation of the first token.
pub const FIRST: u64 = 1;

/// The aggregate of one family, whose id is that of the code or token that its first token was obtained with.
pub struct RefreshFamily;

/// A refresh token family.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Family {
    /// The user.
    pub user_id: String,
    /// The client that may use the tokens.
    pub client_id: String,
    /// The session in which the user has logged in.
    pub session_id: String,
    /// When all tokens expire, whatever happens, in milliseconds since the Unix epoch.
    pub expires_at: i64,
    /// The generation of the newest token.
    pub generation: u64,
    /// Whether the family was ended before its time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_ended: bool,
}

/// The outcome of showing a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// The token is the newest: it is used up, and replaced by another one.
    Renewed,
    /// The token was the newest a moment ago: its answer may have been lost, so the newest one is returned once more.
    Repeated,
    /// The token was used up before: somebody else may have it.
    Reused,
    /// The family has ended, or is not known.
    Over,
}

/// The commands on a family.
#[derive(Debug, Clone)]
pub enum Command {
    /// Begins the family in this state.
    Begin(Family),
    /// Uses up its newest token.
    Renew,
    /// Ends the family.
    End,
}

/// The events of a family, each with the state after it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
pub enum Event {
    /// The family began.
    Begun(Family),
    /// Its newest token was used up.
    Renewed(Family),
    /// The family ended before its time.
    Ended(Family),
}

/// The time at which a token is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Presentation {
    /// The time, in milliseconds since the Unix epoch.
    pub at: i64,
    /// How long the family had not changed.
    pub unchanged_for: Duration,
}

impl Family {
    /// Returns the outcome of showing the token of a generation.
    pub fn fate(&self, generation: u64, shown: Presentation) -> Fate {
        let was_newest = generation.checked_add(1) == Some(self.generation);
        match generation {
            _ if self.has_ended || self.expires_at <= shown.at => Fate::Over,
            // The log has lost the event that made it.
            later if later > self.generation => Fate::Over,
            newest if newest == self.generation => Fate::Renewed,
            _ if was_newest && shown.unchanged_for <= GRACE => Fate::Repeated,
            _ => Fate::Reused,
        }
    }
}

impl Aggregate for RefreshFamily {
    const NAME: &'static str = "refresh_family";
    const EVENTS: &'static [&'static str] = &["begun", "renewed", "ended"];
    const CLASS: LogClass = LogClass::Sessions;
    type State = Option<Family>;
    type Command = Command;
    type Event = Event;

    fn decide(state: &Option<Family>, command: Command) -> Result<Vec<Event>, Rejection> {
        let living = state.clone().filter(|family| !family.has_ended);
        let event = match (state, command) {
            (None, Command::Begin(family)) => Some(Event::Begun(family)),
            // A family begins once, and stays ended.
            (Some(_), Command::Begin(_)) => None,
            (_, Command::Renew) => {
                living.map(|family| Event::Renewed(Family { generation: family.generation + 1, ..family }))
            }
            (_, Command::End) => living.map(|family| Event::Ended(Family { has_ended: true, ..family })),
        };
        Ok(event.into_iter().collect())
    }

    fn evolve(_: Option<Family>, event: &Event) -> Option<Family> {
        let (Event::Begun(family) | Event::Renewed(family) | Event::Ended(family)) = event;
        Some(family.clone())
    }

    fn restores(_: &Event) -> bool {
        true
    }

    fn exists(state: &Option<Family>) -> bool {
        state.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::given;

    fn family(generation: u64) -> Family {
        let (user_id, client_id, session_id) = ("7".into(), "8".into(), "5".into());
        Family { user_id, client_id, session_id, expires_at: 1000, generation, has_ended: false }
    }

    #[test]
    fn it_begins_once_is_renewed_until_it_ends_and_ends_once() {
        let history = |events: Vec<Event>| given::<RefreshFamily>(events);
        let (begun, second) = (|| Event::Begun(family(1)), || Event::Renewed(family(2)));
        let ended = |generation| Event::Ended(Family { has_ended: true, ..family(generation) });
        history(vec![]).when(Command::Begin(family(1))).then([begun()]);
        history(vec![begun()]).when(Command::Begin(family(1))).then([]);
        history(vec![begun()]).when(Command::Renew).then([second()]);
        history(vec![begun(), second()]).when(Command::Renew).then([Event::Renewed(family(3))]);
        history(vec![begun(), second()]).when(Command::End).then([ended(2)]);
        for command in [Command::Renew, Command::End, Command::Begin(family(1))] {
            history(vec![begun(), ended(1)]).when(command).then([]);
        }
        for command in [Command::Renew, Command::End] {
            history(vec![]).when(command).then([]);
        }
    }

    #[test]
    fn an_event_alone_gives_the_family_which_exists_from_then_on() {
        let ended = Family { has_ended: true, ..family(2) };
        assert!(!RefreshFamily::exists(&None));
        for (event, after) in [
            (Event::Begun(family(1)), family(1)),
            (Event::Renewed(family(2)), family(2)),
            (Event::Ended(ended.clone()), ended),
        ] {
            assert!(RefreshFamily::restores(&event));
            let state = RefreshFamily::evolve(Some(family(7)), &event);
            assert!(RefreshFamily::exists(&state));
            assert_eq!(state, Some(after));
        }
    }

    #[test]
    fn only_the_newest_token_and_for_a_moment_the_one_before_give_another() {
        let shown = |seconds| Presentation { at: 999, unchanged_for: Duration::from_secs(seconds) };
        let fate = |generation, seconds| family(3).fate(generation, shown(seconds));
        assert_eq!([fate(3, 0), fate(3, 5000)], [Fate::Renewed; 2]);
        assert_eq!([fate(2, 0), fate(2, 20)], [Fate::Repeated; 2]);
        assert_eq!([fate(2, 21), fate(1, 0), fate(0, 0)], [Fate::Reused; 3]);
        assert_eq!([fate(4, 0), fate(u64::MAX, 0)], [Fate::Over; 2]);
        assert_eq!(family(3).fate(3, Presentation { at: 1000, ..shown(0) }), Fate::Over, "it has expired");
        let ended = Family { has_ended: true, ..family(3) };
        assert_eq!([1, 2, 3].map(|generation| ended.fate(generation, shown(0))), [Fate::Over; 3]);
    }
}
