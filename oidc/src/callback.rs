//! Answers to an app at its redirect URI, with the `state` that it has sent (RFC 6749, section 4.1.2) and the issuer
//! (RFC 9207).

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Where and how an app is answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Callback {
    /// The URI, which is registered.
    pub(crate) redirect_uri: String,
    /// The `state`, which the app gets back unchanged.
    pub(crate) state: Option<String>,
    /// How the answer is sent.
    pub(crate) mode: Mode,
}

/// How an app is answered (OAuth 2.0 Multiple Response Types, section 2.1; OAuth 2.0 Form Post Response Mode, section 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    /// In the query.
    Query,
    /// In the fragment, which only scripts in the page can read.
    Fragment,
    /// By a form that the browser submits.
    FormPost,
}

impl Mode {
    /// All modes with their names, as in the discovery document.
    pub(crate) const ALL: [(&'static str, Self); 3] =
        [("query", Self::Query), ("fragment", Self::Fragment), ("form_post", Self::FormPost)];

    /// Returns the mode with this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, mode)| mode)
    }
}

/// An error that is sent to the app (RFC 6749, section 4.1.2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The error code.
    pub(crate) error: &'static str,
    /// What to do about it.
    pub(crate) description: &'static str,
}

impl Refusal {
    /// Makes the refusal for an error in scopes: `temporarily_unavailable`, unless the scopes are invalid.
    pub(crate) fn of_scope(error: &Error) -> Self {
        match error {
            Error::InvalidScope(description) => Self { error: "invalid_scope", description },
            _ => Self {
                error: "temporarily_unavailable",
                description: "something does not answer: try again in a while",
            },
        }
    }
}

impl Callback {
    /// Returns all parameters of the answer: the given ones, the `state` and the issuer.
    pub(crate) fn answer<'a>(&'a self, issuer: &'a str, answer: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
        let state = self.state.iter().map(|state| ("state", state.as_str()));
        answer.iter().copied().chain(state).chain([("iss", issuer)]).collect()
    }

    /// Returns the redirect URI with the answer; `None` where the answer is sent by a form.
    pub(crate) fn url(&self, issuer: &str, answer: &[(&str, &str)]) -> Option<String> {
        let pairs = self.answer(issuer, answer);
        match self.mode {
            Mode::Query => Some(with(&self.redirect_uri, &pairs)),
            Mode::Fragment => {
                Some(format!("{}#{}", self.redirect_uri, serde_urlencoded::to_string(pairs).unwrap_or_default()))
            }
            Mode::FormPost => None,
        }
    }
}

impl Refusal {
    /// Returns the parameters of the answer.
    pub(crate) fn pairs(self) -> Vec<(&'static str, &'static str)> {
        vec![("error", self.error), ("error_description", self.description)]
    }
}

/// Returns a URI with more parameters in its query.
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
        let plain = Callback { redirect_uri, state, mode: Mode::Query };
        let expected = "https://shop.example/cb?code=1&state=a+b%26c%3D%C3%A4%2B%25&iss=https%3A%2F%2Fid.example";
        assert_eq!(plain.url("https://id.example", &[("code", "1")]).as_deref(), Some(expected));
        let with_query = Callback { redirect_uri: "app:/cb?x=1".to_owned(), state: None, ..plain.clone() };
        let url = with_query.url("i", &[("error", "login_required")]);
        assert_eq!(url.as_deref(), Some("app:/cb?x=1&error=login_required&iss=i"));
        let in_fragment = Callback { mode: Mode::Fragment, ..with_query };
        let refusal = Refusal { error: "access_denied", description: "why not" };
        let expected = "app:/cb?x=1#error=access_denied&error_description=why+not&iss=i";
        assert_eq!(in_fragment.url("i", &refusal.pairs()).as_deref(), Some(expected));
        assert_eq!(Callback { mode: Mode::FormPost, ..plain }.url("i", &[]), None);
        assert_eq!(with("app:/bye", &[]), "app:/bye");
        assert_eq!(with("app:/bye?x=1", &[("state", "a b")]), "app:/bye?x=1&state=a+b");
    }
}
