//! Refresh token families (RFC 9700, section 4.14.2): all refresh tokens that follow each other from one login. With each use
//! the family gets another generation, of which there is one token; whoever shows an older one may have stolen it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{aggregate::Aggregate, log_class::LogClass, rejection::Rejection};

/// How long the token before the newest one still gives the newest one: for whoever lost the answer, or asked twice at once.
pub const GRACE: Duration = Duration::from_secs(10);
/// The generation of the first token.
pub const FIRST: u64 = 1;

/// The aggregate of one family, whose id is that of what its first token was got by.
pub struct RefreshFamily;

/// What tokens of a family are refreshed for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Granted {
    /// The user.
    pub user_id: String,
    /// The client that shows them.
    pub client_id: String,
    /// The session that the user has logged in with.
    pub session_id: String,
    /// When the last of them expires, whatever happens, in milliseconds since the Unix epoch.
    pub expires_at: i64,
}

/// A family that there was or is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Family {
    /// What it is for.
    pub granted: Granted,
    /// The newest generation.
    pub generation: u64,
    /// Whether it was ended before its time.
    pub has_ended: bool,
}

/// What becomes of whoever shows a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is the newest: it is used up, and there is another one.
    Renewed,
    /// It was the newest a moment ago: its answer may have been lost, so it is the same once more.
    Repeated,
    /// It was used up before: somebody else may have it.
    Reused,
    /// There is nothing to refresh.
    Over,
}

/// What can be asked of a family.
#[derive(Debug, Clone)]
pub enum Command {
    /// That there be one.
    Grant(Granted),
    /// That its newest token be used up.
    Renew,
    /// That it end.
    End,
}

/// What happens to a family.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
pub enum Event {
    /// There is one.
    Granted(Granted),
    /// Its newest token was used up.
    Renewed {
        /// The generation of the one that is the newest now.
        generation: u64,
    },
    /// It ended before its time.
    Ended,
}

impl Family {
    /// What becomes of whoever shows the token of a generation, at a time in milliseconds since the Unix epoch, where nothing has
    /// happened to the family for so long.
    pub fn fate(&self, generation: u64, (now, unchanged_for): (i64, Duration)) -> Fate {
        let is_newest = generation == self.generation;
        let was_newest = generation.checked_add(1) == Some(self.generation);
        match generation {
            _ if self.has_ended || self.granted.expires_at <= now => Fate::Over,
            // The log has lost what made it.
            later if later > self.generation => Fate::Over,
            _ if is_newest => Fate::Renewed,
            _ if was_newest && unchanged_for <= GRACE => Fate::Repeated,
            _ => Fate::Reused,
        }
    }
}

impl Aggregate for RefreshFamily {
    const NAME: &'static str = "refresh_family";
    const EVENTS: &'static [&'static str] = &["granted", "renewed", "ended"];
    const CLASS: LogClass = LogClass::Sessions;
    type State = Option<Family>;
    type Command = Command;
    type Event = Event;

    fn decide(state: &Option<Family>, command: Command) -> Result<Vec<Event>, Rejection> {
        Ok(match (state, command) {
            (None, Command::Grant(granted)) => vec![Event::Granted(granted)],
            (Some(family), Command::Renew) if !family.has_ended => {
                vec![Event::Renewed { generation: family.generation + 1 }]
            }
            (Some(family), Command::End) if !family.has_ended => vec![Event::Ended],
            // It is granted once, and stays ended.
            _ => vec![],
        })
    }

    fn evolve(state: Option<Family>, event: &Event) -> Option<Family> {
        match event {
            Event::Granted(granted) => Some(Family { granted: granted.clone(), generation: FIRST, has_ended: false }),
            Event::Renewed { generation } => state.map(|family| Family { generation: *generation, ..family }),
            Event::Ended => state.map(|family| Family { has_ended: true, ..family }),
        }
    }

    fn restores(event: &Event) -> bool {
        matches!(event, Event::Granted(_))
    }

    fn exists(state: &Option<Family>) -> bool {
        state.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::given;

    fn granted() -> Granted {
        Granted { user_id: "7".into(), client_id: "8".into(), session_id: "5".into(), expires_at: 1000 }
    }

    #[test]
    fn it_is_granted_once_renewed_until_it_ends_and_ended_once() {
        let begun = || Event::Granted(granted());
        let family = |history: Vec<Event>| given::<RefreshFamily>(history);
        family(vec![]).when(Command::Grant(granted())).then([begun()]);
        family(vec![begun()]).when(Command::Grant(granted())).then([]);
        family(vec![begun()]).when(Command::Renew).then([Event::Renewed { generation: 2 }]);
        family(vec![begun(), Event::Renewed { generation: 2 }])
            .when(Command::Renew)
            .then([Event::Renewed { generation: 3 }]);
        family(vec![begun()]).when(Command::End).then([Event::Ended]);
        for command in [Command::Renew, Command::End, Command::Grant(granted())] {
            family(vec![begun(), Event::Ended]).when(command).then([]);
        }
        for command in [Command::Renew, Command::End] {
            family(vec![]).when(command).then([]);
        }
    }

    #[test]
    fn only_the_newest_token_and_for_a_moment_the_one_before_give_another() {
        let family = Family { granted: granted(), generation: 3, has_ended: false };
        let fate = |generation, seconds| family.fate(generation, (999, Duration::from_secs(seconds)));
        assert_eq!([fate(3, 0), fate(3, 5000)], [Fate::Renewed; 2]);
        assert_eq!([fate(2, 0), fate(2, 10)], [Fate::Repeated; 2]);
        assert_eq!([fate(2, 11), fate(1, 0), fate(0, 0)], [Fate::Reused; 3]);
        assert_eq!([fate(4, 0), fate(u64::MAX, 0)], [Fate::Over; 2]);
        assert_eq!(family.fate(3, (1000, Duration::ZERO)), Fate::Over, "it has expired");
        let ended = Family { has_ended: true, ..family.clone() };
        assert_eq!([1, 2, 3].map(|shown| ended.fate(shown, (0, Duration::ZERO))), [Fate::Over; 3]);
    }
}
