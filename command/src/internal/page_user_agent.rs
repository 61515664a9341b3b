//! The user agent of a person who logs in on a page.

use domain::user_agent::{UserAgent, UserAgentPatch};
use proto::bus;
use view::persons::PersonKey;

use super::CommandActor;
use crate::{execute::Commands, login::ProvenPassword, person_key};

/// The user agent of a person who logs in, and the key to seal it with.
pub(super) struct SealableUserAgent {
    user_agent: UserAgent,
    key: PersonKey,
}

impl SealableUserAgent {
    /// Returns `None` if the node of the page sent none, or one that breaks a rule: a session then retains its own.
    pub(super) fn new(sent: Option<bus::UserAgent>, key: PersonKey) -> Option<Self> {
        of_page(sent).map(|user_agent| Self { user_agent, key })
    }

    /// Returns the user agent of a person whose password was right; `None` also if the key is unavailable, which must
    /// not prevent a login.
    pub(super) async fn of(
        commands: &Commands,
        by: &CommandActor,
        proven: &ProvenPassword,
        sent: Option<bus::UserAgent>,
    ) -> Option<Self> {
        let user_agent = of_page(sent)?;
        match person_key::key_of_person(commands, &by.instance_id, &proven.user_id, &proven.human).await {
            Ok((key, _)) => Some(Self { user_agent, key }),
            Err(error) => {
                tracing::warn!(reason = error.reason().name(), "a person is logged in without the user agent");
                None
            }
        }
    }

    /// Returns the change of the user agent of a session of the person.
    pub(super) fn patch(&self, session_id: &str) -> UserAgentPatch {
        UserAgentPatch::Set(self.key.seal_user_agent(session_id, &self.user_agent))
    }
}

/// Reads a user agent as the node that serves a page sends it; `None` if it is empty or breaks a rule.
fn of_page(sent: Option<bus::UserAgent>) -> Option<UserAgent> {
    let bus::UserAgent { ip, user_agent } = sent?;
    let header = [("user-agent".to_owned(), vec![user_agent])].into_iter().filter(|(_, values)| !values[0].is_empty());
    let user_agent = UserAgent { ip, header: header.collect(), ..UserAgent::default() };
    (user_agent != UserAgent::default() && user_agent.fault().is_none()).then_some(user_agent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_page_sends_is_left_out_where_it_is_empty_or_breaks_a_rule() {
        let of = |ip: &str, user_agent: &str| {
            of_page(Some(bus::UserAgent { ip: ip.to_owned(), user_agent: user_agent.to_owned() }))
        };
        assert!(of("192.0.2.7", "").is_some() && of("", "Mozilla/5.0").is_some());
        assert_eq!((of("", ""), of_page(None)), (None, None));
        assert_eq!((of("nowhere", "Mozilla/5.0"), of("", &"x".repeat(5000))), (None, None));
    }
}
