//! Revocations of access tokens (RFC 7009). Tokens are no aggregates, since no event is written when one is issued;
//! only the revocation is a fact, until the token would have expired.

use serde::{Deserialize, Serialize};

use crate::{aggregate::Aggregate, log_class::LogClass, rejection::Rejection};

/// The aggregate of one revoked token, whose id it has, or of all tokens of a user and a client; see [`id_of_all`].
pub struct TokenRevocation;

/// What is revoked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revoked {
    /// The user that it was issued for.
    pub user_id: String,
    /// The client that it was issued to.
    pub client_id: String,
    /// When the last of the revoked tokens expires, in milliseconds since the Unix epoch.
    pub expires_at: i64,
    /// Whether all tokens that were issued so far to the client for the user are revoked, and not a single one.
    pub is_all: bool,
}

/// The events of a revocation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
pub enum Event {
    /// The tokens are not valid any more.
    Revoked(Revoked),
}

/// Returns the id of the revocation of all tokens of a user and a client. No token has it: ids of tokens consist of
/// letters and digits.
pub fn id_of_all(user_id: &str, client_id: &str) -> String {
    format!("{client_id}.{user_id}")
}

/// Returns the user and the client of an id of all their tokens; `None` for the id of a single token.
pub fn named_all(id: &str) -> Option<(&str, &str)> {
    id.split_once('.').map(|(client_id, user_id)| (user_id, client_id))
}

impl Aggregate for TokenRevocation {
    const NAME: &'static str = "token_revocation";
    const EVENTS: &'static [&'static str] = &["revoked"];
    const CLASS: LogClass = LogClass::Sessions;
    type State = Option<Revoked>;
    type Command = Revoked;
    type Event = Event;

    fn decide(state: &Option<Revoked>, command: Revoked) -> Result<Vec<Event>, Rejection> {
        // A single token can be revoked only once; of all tokens there may be new ones.
        let is_done = state.is_some() && !command.is_all;
        Ok(if is_done { vec![] } else { vec![Event::Revoked(command)] })
    }

    fn evolve(_: Option<Revoked>, Event::Revoked(revoked): &Event) -> Option<Revoked> {
        Some(revoked.clone())
    }

    fn restores(_: &Event) -> bool {
        true
    }

    fn exists(state: &Option<Revoked>) -> bool {
        state.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::given;

    fn revoked(is_all: bool) -> Revoked {
        Revoked { user_id: "7".into(), client_id: "8".into(), expires_at: 1, is_all }
    }

    #[test]
    fn a_token_is_revoked_once() {
        let event = || Event::Revoked(revoked(false));
        given::<TokenRevocation>([]).when(revoked(false)).then([event()]);
        given::<TokenRevocation>([event()]).when(revoked(false)).then([]);
    }

    #[test]
    fn an_event_alone_gives_the_revocation_which_exists_from_then_on() {
        let event = Event::Revoked(revoked(false));
        assert!(TokenRevocation::restores(&event) && !TokenRevocation::exists(&None));
        let state = TokenRevocation::evolve(Some(revoked(true)), &event);
        assert!(TokenRevocation::exists(&state));
        assert_eq!(state, Some(revoked(false)));
    }

    #[test]
    fn all_tokens_are_revoked_again_since_there_may_be_new_ones() {
        let event = || Event::Revoked(revoked(true));
        given::<TokenRevocation>([event()]).when(revoked(true)).then([event()]);
        assert_eq!((named_all(&id_of_all("7", "8")), named_all("a1")), (Some(("7", "8")), None));
    }
}
