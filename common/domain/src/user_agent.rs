//! The device that a person logs in with. It is personal: ciphertext wherever it is kept, and clear text only where it is said and read.

use std::{collections::BTreeMap, fmt, net::IpAddr};

use serde::{Deserialize, Serialize};

/// How long all of it is, in bytes.
const LONGEST: usize = 4096;

/// A browser or an app.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserAgent {
    /// By what whoever created the session knows it again.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub fingerprint_id: String,
    /// The IP address that the person came from.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ip: String,
    /// What it is called.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Headers of the request by which the person came.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub header: BTreeMap<String, Vec<String>>,
}

impl fmt::Debug for UserAgent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("UserAgent").finish_non_exhaustive()
    }
}

impl UserAgent {
    /// The field of a session that breaks a rule, and the rule.
    pub fn fault(&self) -> Option<(&'static str, &'static str)> {
        let header = self.header.iter().flat_map(|(name, values)| [name].into_iter().chain(values));
        let texts = [&self.fingerprint_id, &self.ip, &self.description].into_iter().chain(header);
        if texts.map(String::len).sum::<usize>() > LONGEST {
            return Some(("session.user_agent", "must have at most 4,096 bytes in all"));
        }
        let is_address = self.ip.is_empty() || self.ip.parse::<IpAddr>().is_ok();
        (!is_address).then_some(("session.user_agent.ip", "must be an IP address"))
    }
}

#[cfg(test)]
mod tests {
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
        assert!(!format!("{agent:?}").contains("192"));
        assert_eq!(serde_json::to_string(&agent).unwrap(), r#"{"ip":"192.0.2.7"}"#);
        assert_eq!(serde_json::from_str::<UserAgent>("{}").unwrap(), UserAgent::default());
    }
}
