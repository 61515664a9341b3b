//! Opaque access tokens: encrypted claims that only the platform can read. They need no signature, since only the
//! platform has the key. The key belongs to a signing key of the instance, and is replaced and ends with it.

use base::secret::SymmetricKey;
use domain::resource::signing_key::SigningKey;

use super::{
    AccessToken, LONGEST,
    refused::{RefusedToken, Signed, refused},
};

/// The prefix of opaque tokens, by which they, and secret scanners, can tell them from others.
const PREFIX: &str = "at-";

/// Derives the key that seals the tokens of a signing key from the instance's key of client secrets and the stored form
/// of the signing key: whoever learns the former alone, which lasts, cannot make tokens once another key signs.
pub fn key(secrets: &SymmetricKey, signing_key: &SigningKey) -> SymmetricKey {
    secrets.derived(&format!("opaque access tokens {}", signing_key.sealed.expose()))
}

/// Seals claims as a token of an instance, with the [`key`] of the signing key that has this id.
///
/// # Errors
/// When the claims cannot be serialised.
pub fn seal(
    kid: &str,
    key: &SymmetricKey,
    instance_id: &str,
    claims: &AccessToken,
) -> Result<String, serde_json::Error> {
    let sealed = key.seal(&purpose(instance_id), &serde_json::to_vec(claims)?);
    Ok(format!("{PREFIX}{kid}-{sealed}"))
}

/// An opaque token as it was sent, before any verification.
pub struct UnverifiedToken<'a> {
    /// The id of its signing key.
    pub kid: &'a str,
    sealed: &'a str,
}

/// Whether a token looks like an opaque one.
pub(crate) fn is_opaque(token: &str) -> bool {
    token.starts_with(PREFIX)
}

/// Splits a token into its parts, if it is an opaque one.
pub fn parse(token: &str) -> Option<UnverifiedToken<'_>> {
    let (kid, sealed) = token.strip_prefix(PREFIX).filter(|_| token.len() <= LONGEST)?.split_once('-')?;
    Some(UnverifiedToken { kid, sealed })
}

impl UnverifiedToken<'_> {
    /// Returns the claims if this instance has issued the token, without a check of its validity.
    pub fn open(&self, key: &SymmetricKey, instance_id: &str) -> Option<AccessToken> {
        let claims = key.open(&purpose(instance_id), self.sealed).ok()?;
        serde_json::from_slice(&claims).ok()
    }
}

/// The refusal of a token that does not open.
pub(crate) fn unopened() -> RefusedToken {
    refused(None, Signed::Elsewhere, "it cannot be decrypted with a key of this instance")
}

/// The purpose that the ciphertext is bound to.
fn purpose(instance_id: &str) -> String {
    format!("access token of {instance_id}")
}

#[cfg(test)]
mod tests {
    use domain::{resource::instance::Instance, secret::Sealed};
    use serde_json::{Map, json};
    use view::directory::{AsOf, Tenant};

    use super::*;
    use crate::caller::{Actor, External, SystemUsers, Verifier};

    fn claims() -> AccessToken {
        let now = base::clock::now().as_second();
        AccessToken {
            iss: "https://id.example".into(),
            sub: "7".into(),
            aud: vec!["8".into()],
            exp: now + 60,
            iat: now,
            nbf: now,
            jti: "one".into(),
            client_id: "7".into(),
            scope: "openid".into(),
            seq: 3,
            session_seq: 4,
            sid: None,
            grant_id: None,
            auth_time: None,
            amr: vec![],
            act: None,
            exchanged_for: vec![],
            added: Map::from_iter([("roles".to_owned(), json!(["clerk"]))]),
        }
    }

    fn open(key: &SymmetricKey, instance_id: &str, token: &str) -> Option<AccessToken> {
        parse(token)?.open(key, instance_id)
    }

    #[test]
    fn only_its_instance_opens_it_whole_and_unchanged() {
        let key = SymmetricKey::random();
        let claims = claims();
        let token = seal("5", &key, "1", &claims).unwrap();
        let opened = open(&key, "1", &token).map(|opened| json!(opened));
        assert_eq!(opened, Some(json!(claims)));
        assert_eq!(parse(&token).map(|sent| sent.kid), Some("5"));
        assert!(is_opaque(&token) && !token.contains('.') && !is_opaque("pat-1-secret"));
        assert!(open(&key, "2", &token).is_none(), "another instance");
        assert!(open(&SymmetricKey::random(), "1", &token).is_none(), "another key");
        assert!(open(&key, "1", token.trim_start_matches(PREFIX)).is_none(), "without what it begins with");
        for length in 0..token.len() {
            assert!(open(&key, "1", &token[..length]).is_none(), "cut off at {length}");
        }
        for place in "at-5-".len()..token.len() {
            let other = if token.as_bytes()[place] == b'A' { "B" } else { "A" };
            let changed = format!("{}{other}{}", &token[..place], &token[place + 1..]);
            // The last character may have unused bits; a change of these is refused as well.
            assert!(open(&key, "1", &changed).is_none(), "changed at {place}");
        }
    }

    #[test]
    fn its_key_is_that_of_one_signing_key_and_of_the_instance() {
        let signing_key = |sealed: &str| SigningKey {
            instance_id: "1".into(),
            algorithm: "ES256".into(),
            public: json!({}),
            sealed: Sealed::new(sealed),
            signs_from: None,
            signs_until: None,
        };
        let (secrets, one) = (SymmetricKey::random(), signing_key("one"));
        let of = |secrets: &SymmetricKey, signing_key: &SigningKey| *key(secrets, signing_key).expose();
        assert_eq!(of(&secrets, &one), of(&secrets, &one));
        assert_ne!(of(&secrets, &one), of(&secrets, &signing_key("two")));
        assert_ne!(of(&secrets, &one), of(&SymmetricKey::random(), &one));
    }

    #[test]
    fn one_that_is_longer_than_any_is_not_looked_at() {
        let key = SymmetricKey::random();
        let long = AccessToken { scope: "a".repeat(LONGEST), ..claims() };
        assert!(open(&key, "1", &seal("5", &key, "1", &long).unwrap()).is_none());
    }

    #[test]
    fn it_counts_for_its_issuer_its_audience_and_its_time() {
        let tenant = Tenant {
            as_of: AsOf::default(),
            id: "1".to_owned(),
            shard: 0,
            instance: Instance::new("Acme", "8"),
            primary_domain: "id.example".to_owned(),
            signing_keys: vec![],
        };
        let verifier = Verifier::new(External { scheme: "https".into(), port: None }, SystemUsers::default());
        let now = base::clock::now().as_second();
        let act = Some(Actor { iss: "https://id.example".into(), sub: "5".into(), act: None });
        let cases = [
            (claims(), None),
            (AccessToken { act, ..claims() }, Some("acting as another user")),
            (AccessToken { iss: "https://other.example".into(), ..claims() }, Some("not valid here")),
            (AccessToken { aud: vec!["9".into()], ..claims() }, Some("not for the platform's API")),
            (AccessToken { exp: now, ..claims() }, Some("expired")),
            (AccessToken { nbf: now + 60, ..claims() }, Some("not valid here")),
            (AccessToken { iat: now + 60, ..claims() }, Some("not valid here")),
            (AccessToken { scope: "profile".into(), ..claims() }, Some("lacks the scope openid")),
        ];
        for (claims, refusal) in cases {
            let shown = json!(claims);
            let taken = verifier.opened("5".into(), claims, &tenant).map_err(|refused| refused.quietly().to_string());
            match (taken, refusal) {
                (Ok(found), None) => assert_eq!((&*found.user_id, found.key_id.as_deref()), ("7", Some("5"))),
                (Err(told), Some(refusal)) => assert!(told.contains(refusal), "{shown}: {told}"),
                (taken, refusal) => panic!("{shown}: {taken:?} instead of {refusal:?}"),
            }
        }
    }
}
