//! The user agent of a session: the browser or the app with which a person is logged in. It is personal data, so it is
//! ciphertext in events and clear text only in read models, like the data of the person.

use std::{collections::BTreeMap, fmt, net::IpAddr};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    person::{paths, state},
    secret::Sealed,
};

/// The longest user agent in total, in bytes.
const LONGEST: usize = 4096;
/// Headers that are credentials. Sessions store their user agent for weeks, for everybody who may read them.
const CREDENTIALS: [&str; 4] = ["authorization", "cookie", "proxy-authorization", "set-cookie"];
/// The member of a session's state that contains it.
const MEMBER: &str = "user_agent";

/// A user agent: a browser or an app.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserAgent {
    /// An identifier by which the creator of the session recognises it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub fingerprint_id: String,
    /// The IP address that the request of the person came from.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ip: String,
    /// A description for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Headers of the request of the person.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub header: BTreeMap<String, Vec<String>>,
}

impl fmt::Debug for UserAgent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("UserAgent").finish_non_exhaustive()
    }
}

impl UserAgent {
    /// Returns the field of a session that breaks a rule, and the rule.
    pub fn fault(&self) -> Option<(&'static str, &'static str)> {
        let header = self.header.iter().flat_map(|(name, values)| [name].into_iter().chain(values));
        let texts = [&self.fingerprint_id, &self.ip, &self.description].into_iter().chain(header);
        if texts.map(String::len).sum::<usize>() > LONGEST {
            return Some(("session.user_agent", "must have at most 4,096 bytes in all"));
        }
        if self.header.keys().any(|name| CREDENTIALS.iter().any(|credential| name.eq_ignore_ascii_case(credential))) {
            let rule = "must not have authorization, cookie, proxy-authorization or set-cookie, which are secrets";
            return Some(("session.user_agent.header", rule));
        }
        let is_address = self.ip.is_empty() || self.ip.parse::<IpAddr>().is_ok();
        (!is_address).then_some(("session.user_agent.ip", "must be an IP address"))
    }
}

/// A user agent as it appears in the state of a session.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PersonalUserAgent {
    /// The form in events, and in the state that the writer decides on: ciphertext under the key of the person.
    Sealed(Sealed),
    /// The form in what is read.
    Opened(Box<UserAgent>),
}

impl PersonalUserAgent {
    /// Returns the clear text, if it is opened.
    pub fn opened(&self) -> Option<&UserAgent> {
        match self {
            Self::Opened(user_agent) => Some(user_agent),
            Self::Sealed(_) => None,
        }
    }

    /// Returns the ciphertext, if it is sealed.
    pub fn sealed(&self) -> Option<&Sealed> {
        match self {
            Self::Sealed(sealed) => Some(sealed),
            Self::Opened(_) => None,
        }
    }
}

impl fmt::Debug for PersonalUserAgent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PersonalUserAgent").finish_non_exhaustive()
    }
}

/// The change of a patch to the user agent of a session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum UserAgentPatch {
    /// Leaves it unchanged.
    #[default]
    Keep,
    /// Removes it.
    Clear,
    /// Replaces it.
    Set(Sealed),
}

impl UserAgentPatch {
    /// Returns the user agent after the patch.
    pub fn applied(self, before: Option<PersonalUserAgent>) -> Option<PersonalUserAgent> {
        match self {
            Self::Keep => before,
            Self::Clear => None,
            Self::Set(sealed) => Some(PersonalUserAgent::Sealed(sealed)),
        }
    }
}

/// Returns the sealed user agent in the payload of an event of a session, if there is one.
pub fn sealed_in(payload: &mut Value) -> Option<Sealed> {
    let sealed = state(payload).get(MEMBER)?.get("sealed")?.as_str()?;
    Some(Sealed::new(sealed))
}

/// Returns the user of the session that an event is about, and the sequence of the log that is retained for ever as of
/// which the user was checked.
pub fn user_in(payload: &mut Value) -> Option<(String, u64)> {
    let user = state(payload).get("user")?;
    Some((user.get("id")?.as_str()?.to_owned(), user.get("seen")?.as_u64()?))
}

/// Replaces the sealed user agent by what was opened, or removes it if the key of the person was destroyed.
pub fn put_opened(payload: &mut Value, opened: Option<&UserAgent>) {
    let Some(session) = state(payload).as_object_mut() else { return };
    match opened.and_then(|user_agent| serde_json::to_value(user_agent).ok()) {
        Some(user_agent) => session.insert(MEMBER.to_owned(), user_agent),
        None => session.remove(MEMBER),
    };
}

/// Returns the path at which [`put_opened`] puts it.
pub fn opened_at(payload: &Value) -> [String; 1] {
    paths(payload, [MEMBER])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn it_is_bounded_and_comes_from_an_address() {
        let of = |ip: &str, values: Vec<String>| {
            let header = BTreeMap::from([("a".to_owned(), values)]);
            UserAgent { ip: ip.to_owned(), header, ..UserAgent::default() }.fault()
        };
        assert_eq!(UserAgent::default().fault(), None);
        for address in ["192.0.2.7", "2001:db8::7", "::ffff:192.0.2.7", ""] {
            assert_eq!(of(address, vec![]), None, "{address}");
        }
        for wrong in ["192.0.2", "192.0.2.7:80", "[2001:db8::7]", "abc"] {
            assert_eq!(of(wrong, vec![]), Some(("session.user_agent.ip", "must be an IP address")), "{wrong}");
        }
        let half = || "x".repeat(LONGEST / 2);
        assert_eq!(of("", vec![half(), half()[1..].to_owned()]), None);
        let long = Some(("session.user_agent", "must have at most 4,096 bytes in all"));
        assert_eq!(of("", vec![half(), half()]), long, "names count too");
    }

    #[test]
    fn it_is_not_printed() {
        let agent = UserAgent { ip: "192.0.2.7".to_owned(), ..UserAgent::default() };
        assert_eq!(format!("{agent:?}"), "UserAgent { .. }");
        assert_eq!(serde_json::to_string(&agent).unwrap(), r#"{"ip":"192.0.2.7"}"#);
        assert_eq!(serde_json::from_str::<UserAgent>("{}").unwrap(), UserAgent::default());
        let sealed = PersonalUserAgent::Sealed(Sealed::new("x"));
        for personal in [PersonalUserAgent::Opened(agent.into()), sealed] {
            assert_eq!(format!("{personal:?}"), "PersonalUserAgent { .. }");
        }
    }

    #[test]
    fn it_is_either_sealed_or_opened() {
        let agent = UserAgent { ip: "192.0.2.7".to_owned(), ..UserAgent::default() };
        let (sealed, opened) =
            (PersonalUserAgent::Sealed(Sealed::new("x")), PersonalUserAgent::Opened(agent.clone().into()));
        assert_eq!((sealed.sealed(), sealed.opened()), (Some(&Sealed::new("x")), None));
        assert_eq!((opened.sealed(), opened.opened()), (None, Some(&agent)));
    }

    #[test]
    fn what_is_opened_is_where_it_is_said_to_be() {
        for (payload, path) in [
            (json!({ "user_agent": {}, "expires_at": 1 }), "user_agent"),
            (json!({ "to": { "user_agent": {} }, "fields": ["user_agent"] }), "to.user_agent"),
        ] {
            assert_eq!(opened_at(&payload), [path]);
        }
    }

    #[test]
    fn headers_that_are_secrets_are_refused_in_any_case() {
        let of = |name: &str| {
            let header = BTreeMap::from([("accept".to_owned(), vec![]), (name.to_owned(), vec!["x".to_owned()])]);
            UserAgent { header, ..UserAgent::default() }.fault().map(|(field, _)| field)
        };
        for secret in ["authorization", "Cookie", "proxy-authorization", "SET-COOKIE"] {
            assert_eq!(of(secret), Some("session.user_agent.header"), "{secret}");
        }
        assert_eq!(of("user-agent"), None);
    }

    #[test]
    fn what_is_opened_takes_the_place_of_what_is_sealed() {
        let agent = UserAgent { ip: "192.0.2.7".to_owned(), ..UserAgent::default() };
        let mut of_user = json!({ "to": { "user": { "id": "7", "seen": 5 } }, "fields": ["user"] });
        assert_eq!(user_in(&mut of_user), Some(("7".to_owned(), 5)));
        let mut changed = json!({ "to": { "user_agent": { "sealed": "x" } }, "fields": ["user_agent"] });
        assert_eq!(user_in(&mut changed), None);
        assert_eq!(sealed_in(&mut changed).as_ref().map(Sealed::expose), Some("x"));
        put_opened(&mut changed, Some(&agent));
        assert_eq!(changed, json!({ "to": { "user_agent": { "ip": "192.0.2.7" } }, "fields": ["user_agent"] }));
        assert!(sealed_in(&mut changed).is_none(), "it is opened");
        let read: PersonalUserAgent = serde_json::from_value(changed["to"]["user_agent"].take()).unwrap();
        assert_eq!(read.opened(), Some(&agent));
        let mut added = json!({ "user_agent": { "sealed": "x" }, "expires_at": 1 });
        put_opened(&mut added, None);
        assert_eq!(added, json!({ "expires_at": 1 }));
        assert!(sealed_in(&mut added).is_none(), "there is none");
    }
}
