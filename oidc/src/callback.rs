//! Where an app is answered: at its redirect URI, with what it has sent along (RFC 6749, section 4.1.2), and with who answers
//! (RFC 9207).

use serde::{Deserialize, Serialize};

/// Where an app is answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Callback {
    /// One that is registered.
    pub(crate) redirect_uri: String,
    /// What the app gets back as it was sent.
    pub(crate) state: Option<String>,
    /// Whether the answer stands behind the hash sign, where only pages read it (OAuth 2.0 Multiple Response Types, section 2.1).
    pub(crate) in_fragment: bool,
}

/// What the app is told that went wrong (RFC 6749, section 4.1.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The name of it.
    pub(crate) error: &'static str,
    /// What to do about it.
    pub(crate) description: &'static str,
}

impl Callback {
    /// The URL that leads a browser there with an answer.
    pub(crate) fn url(&self, issuer: &str, answer: &[(&str, &str)]) -> String {
        let Self { redirect_uri, state, in_fragment } = self;
        let state = state.iter().map(|state| ("state", state.as_str()));
        let pairs: Vec<_> = answer.iter().copied().chain(state).chain([("iss", issuer)]).collect();
        if *in_fragment {
            return format!("{redirect_uri}#{}", serde_urlencoded::to_string(pairs).unwrap_or_default());
        }
        with(redirect_uri, &pairs)
    }

    /// The URL that leads a browser there with an error.
    pub(crate) fn refused(&self, issuer: &str, error: &str, description: &str) -> String {
        let description = (!description.is_empty()).then_some(("error_description", description));
        let answer: Vec<_> = [("error", error)].into_iter().chain(description).collect();
        self.url(issuer, &answer)
    }
}

/// A URI with parameters more in its query.
pub(crate) fn with(uri: &str, pairs: &[(&str, &str)]) -> String {
    let query = serde_urlencoded::to_string(pairs).unwrap_or_default();
    match (query.is_empty(), uri.contains('?')) {
        (true, _) => uri.to_owned(),
        (false, true) => format!("{uri}&{query}"),
        (false, false) => format!("{uri}?{query}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_keeps_the_query_and_the_state() {
        let (redirect_uri, state) = ("https://shop.example/cb".to_owned(), Some("a b&c=ä+%".to_owned()));
        let plain = Callback { redirect_uri, state, in_fragment: false };
        let expected = "https://shop.example/cb?code=1&state=a+b%26c%3D%C3%A4%2B%25&iss=https%3A%2F%2Fid.example";
        assert_eq!(plain.url("https://id.example", &[("code", "1")]), expected);
        let with_query = Callback { redirect_uri: "app:/cb?x=1".to_owned(), state: None, ..plain.clone() };
        assert_eq!(with_query.refused("i", "login_required", ""), "app:/cb?x=1&error=login_required&iss=i");
        let in_fragment = Callback { in_fragment: true, ..with_query };
        let expected = "app:/cb?x=1#error=access_denied&error_description=why+not&iss=i";
        assert_eq!(in_fragment.refused("i", "access_denied", "why not"), expected);
        assert_eq!(with("app:/bye", &[]), "app:/bye");
        assert_eq!(with("app:/bye?x=1", &[("state", "a b")]), "app:/bye?x=1&state=a+b");
    }
}
