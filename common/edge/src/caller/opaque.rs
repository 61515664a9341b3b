//! Opaque access tokens: the claims of a signed one, encrypted with a key of the instance, so that only the platform reads them.
//! They need no signature: who has the key has made them.

use base::secret::Key;

use super::{AccessToken, LONGEST};

/// What they begin with, so that they are told from others, also by who looks for secrets where none should be.
const PREFIX: &str = "at-";
/// What the key of client secrets is derived for.
const KEY: &str = "opaque access tokens";

/// The token that says these things on an instance, which has this key for client secrets.
///
/// # Errors
/// Where the claims cannot be serialised.
pub fn seal(secrets: &Key, instance_id: &str, claims: &AccessToken) -> Result<String, serde_json::Error> {
    let sealed = secrets.derived(KEY).seal(&purpose(instance_id), &serde_json::to_vec(claims)?);
    Ok(format!("{PREFIX}{sealed}"))
}

/// Whether something looks like one.
pub(crate) fn is_opaque(token: &str) -> bool {
    token.starts_with(PREFIX)
}

/// What a token says, if this instance has issued it; whether it counts now is another question.
pub(crate) fn open(secrets: &Key, instance_id: &str, token: &str) -> Option<AccessToken> {
    let sealed = token.strip_prefix(PREFIX).filter(|_| token.len() <= LONGEST)?;
    let claims = secrets.derived(KEY).open(&purpose(instance_id), sealed).ok()?;
    serde_json::from_slice(&claims).ok()
}

/// What the ciphertext is bound to.
fn purpose(instance_id: &str) -> String {
    format!("access token of {instance_id}")
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    fn claims() -> AccessToken {
        AccessToken {
            iss: "https://id.example".into(),
            sub: "7".into(),
            aud: vec!["8".into()],
            exp: 200,
            iat: 100,
            nbf: 100,
            jti: "one".into(),
            client_id: "7".into(),
            scope: "openid".into(),
            seq: 3,
            session_seq: 4,
            added: Map::from_iter([("roles".to_owned(), json!(["clerk"]))]),
        }
    }

    #[test]
    fn only_its_instance_opens_it_whole_and_unchanged() {
        let key = Key::random();
        let token = seal(&key, "1", &claims()).unwrap();
        let opened = open(&key, "1", &token).map(|opened| json!(opened));
        assert_eq!(opened, Some(json!(claims())));
        assert!(is_opaque(&token) && !token.contains('.') && !is_opaque("pat-1-secret"));
        assert!(open(&key, "2", &token).is_none(), "another instance");
        assert!(open(&Key::random(), "1", &token).is_none(), "another key");
        assert!(open(&key, "1", token.trim_start_matches(PREFIX)).is_none(), "without what it begins with");
        for length in 0..token.len() {
            assert!(open(&key, "1", &token[..length]).is_none(), "cut off at {length}");
        }
        for place in PREFIX.len()..token.len() {
            let other = if token.as_bytes()[place] == b'A' { "B" } else { "A" };
            let changed = format!("{}{other}{}", &token[..place], &token[place + 1..]);
            // The last character may have bits that say nothing, and then it is refused as well.
            assert!(open(&key, "1", &changed).is_none(), "changed at {place}");
        }
        let other = key.seal(&purpose("1"), &serde_json::to_vec(&claims()).unwrap());
        assert!(open(&key, "1", &format!("{PREFIX}{other}")).is_none(), "sealed with the key that it is derived from");
    }

    #[test]
    fn one_that_is_longer_than_any_is_not_looked_at() {
        let key = Key::random();
        let long = AccessToken { scope: "a".repeat(LONGEST), ..claims() };
        assert!(open(&key, "1", &seal(&key, "1", &long).unwrap()).is_none());
    }
}
