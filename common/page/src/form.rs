//! Forms: what a browser sends, and the anti-forgery token that only a page given to this browser has.

use base::secret::{self, SymmetricKey};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{HeaderMap, header};

/// The name of the field with the token.
pub const TOKEN: &str = "token";
/// The largest form, in bytes.
pub const LARGEST: usize = 64 * 1024;
const NONCE: usize = 16;

/// The fields that were sent, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Form(Vec<(String, String)>);

impl Form {
    /// Reads the body of a POST; `None` if it is not a form.
    pub fn read(headers: &HeaderMap, body: &[u8]) -> Option<Self> {
        let kind = headers.get(header::CONTENT_TYPE)?.to_str().ok()?;
        let is_form = kind.split(';').next()?.trim().eq_ignore_ascii_case("application/x-www-form-urlencoded");
        if !is_form || headers.contains_key(header::CONTENT_ENCODING) || body.len() > LARGEST {
            return None;
        }
        serde_urlencoded::from_bytes(body).ok().map(Self)
    }

    /// Reads a query; a malformed one counts as empty.
    pub fn of_query(query: Option<&str>) -> Self {
        Self(serde_urlencoded::from_str(query.unwrap_or_default()).unwrap_or_default())
    }

    /// The first value of a field, without white space around it; `None` if it is empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        let (_, value) = self.0.iter().find(|(given, _)| given == name)?;
        Some(value.trim()).filter(|value| !value.is_empty())
    }

    /// The first value of a field as it was sent, such as a password.
    pub fn raw(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// All values of a field.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// The value of a field as a number, if it is one.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }
}

/// Makes a token for the forms of a browser, which a cookie identifies. Each token is different, so that the sizes of
/// compressed answers reveal nothing about it.
pub fn token(key: &SymmetricKey, browser: &str) -> String {
    let nonce: [u8; NONCE] = secret::random();
    let mac = key.mac(&[b"form", browser.as_bytes(), &nonce]);
    URL_SAFE_NO_PAD.encode([nonce.as_slice(), &mac].concat())
}

/// Whether a form has a valid token of this browser.
pub fn is_of(key: &SymmetricKey, browser: &str, form: &Form) -> bool {
    let given = form.get(TOKEN).and_then(|token| URL_SAFE_NO_PAD.decode(token).ok());
    let Some(given) = given.filter(|given| given.len() == NONCE + 32) else { return false };
    let (nonce, mac) = given.split_at(NONCE);
    secret::constant_time_eq(mac, &key.mac(&[b"form", browser.as_bytes(), nonce]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(text: &str) -> Option<Form> {
        let headers =
            HeaderMap::from_iter([(header::CONTENT_TYPE, "application/x-www-form-urlencoded".parse().unwrap())]);
        Form::read(&headers, text.as_bytes())
    }

    #[test]
    fn a_token_is_of_one_browser_and_key() {
        let (key, other) = (SymmetricKey::random(), SymmetricKey::random());
        let token = token(&key, "browser");
        let sent = form(&format!("token={token}")).unwrap();
        assert!(is_of(&key, "browser", &sent));
        assert!(!is_of(&key, "other", &sent) && !is_of(&other, "browser", &sent));
        for wrong in ["", "token=", "token=x", "other=1", &format!("token={}", &token[1..]), &format!("token={token}A")]
        {
            assert!(!is_of(&key, "browser", &form(wrong).unwrap()), "{wrong}");
        }
        assert_ne!(token, super::token(&key, "browser"));
    }

    #[test]
    fn only_a_form_is_read() {
        let read = form("id=1&id=2&reason=+a%3Cb+").unwrap();
        assert_eq!(read.all("id").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!((read.get("reason"), read.get("none"), read.number("id")), (Some("a<b"), None, Some(1)));
        let json = HeaderMap::from_iter([(header::CONTENT_TYPE, "application/json".parse().unwrap())]);
        assert_eq!(Form::read(&json, b"id=1"), None);
        assert_eq!(Form::read(&HeaderMap::new(), b"id=1"), None);
        assert_eq!(form(&"a".repeat(LARGEST + 1)), None);
    }
}
