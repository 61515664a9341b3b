//! Client authentication with a secret: in the Basic header or in the form (RFC 6749, section 2.3.1).

use std::sync::Arc;

use base::{clock, explain::explain, secret};
use base64::{Engine, engine::general_purpose::STANDARD};
use domain::resource::user::User;
use http::{HeaderMap, header};
use percent_encoding::percent_decode_str;
use view::{
    directory::{Name, Principal, Tenant},
    keyring::{Purpose, client_secret_hash},
};

use crate::{Oidc, error::Error, form::Form};

/// The credentials of a client.
#[derive(Debug, PartialEq, Eq)]
struct Credentials {
    client_id: String,
    client_secret: String,
}

/// The service user that the request authenticates as.
///
/// An unknown client takes as long as a wrong secret, and neither is told apart.
pub(crate) async fn authenticate(
    oidc: &Oidc,
    tenant: &Tenant,
    headers: &HeaderMap,
    form: &Form,
) -> Result<Arc<Principal>, Error> {
    let credentials = credentials(headers, form)?;
    if !oidc.edge.ended.is_known() {
        return Err(Error::Unavailable);
    }
    let key = oidc.keyring.key(&tenant.id, Purpose::ClientSecret).await?;
    let name = Name::Username(credentials.client_id);
    let user = oidc.edge.directory.principal(&tenant.id, name, 0).await.map_err(|failure| {
        tracing::warn!(error = %explain(&*failure), "the read model cannot be read");
        Error::Unavailable
    })?;
    // Who is not there gets the work of somebody who is.
    let id = user.as_ref().map_or(NO_ID, |user| &user.id);
    let given = client_secret_hash(&key, id, &credentials.client_secret);
    let given = given.expose().unwrap_or_default();
    let [newest, previous] = secrets(user.as_ref().map(|user| &user.user), clock::now().as_millisecond());
    // Both are compared, whichever it is.
    let is_newest = secret::same(given.as_bytes(), newest.as_bytes());
    let is_previous = secret::same(given.as_bytes(), previous.as_bytes());
    let is_dead = |user: &Principal| oidc.edge.ended.is_dead(&tenant.id, &user.owner, &user.id, user.processed);
    user.filter(|user| (is_newest || is_previous) && user.is_live && !is_dead(user)).ok_or(Error::InvalidClient)
}

/// What stands where there is no user: as long as an id.
const NO_ID: &str = "000000000000000000";
/// What stands where there is no hash: as long as one, and no secret has it.
const NO_HASH: &str = "...........................................";

/// The hashes of the secrets that are valid at a time, in milliseconds since the Unix epoch: always two to compare.
fn secrets(user: Option<&User>, now: i64) -> [&str; 2] {
    let newest = user.and_then(|user| user.secrets.newest.expose());
    let previous = user.and_then(|user| user.secrets.previous.as_ref()).filter(|previous| previous.valid_until > now);
    [newest, previous.and_then(|previous| previous.secret.expose())].map(|hash| hash.unwrap_or(NO_HASH))
}

fn credentials(headers: &HeaderMap, form: &Form) -> Result<Credentials, Error> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let in_header = match (given.next(), given.next()) {
        (None, _) => None,
        (Some(value), None) => {
            Some(basic(value.to_str().map_err(|_| Error::InvalidClient)?).ok_or(Error::InvalidClient)?)
        }
        (Some(_), Some(_)) => return Err(Error::InvalidRequest("more than one Authorization header")),
    };
    match (in_header, form.get("client_id"), form.get("client_secret")) {
        (Some(_), _, Some(_)) => Err(Error::InvalidRequest("the client authenticates in more than one way")),
        (Some(credentials), Some(client_id), None) if client_id != credentials.client_id => {
            Err(Error::InvalidRequest("client_id is not the one that authenticates"))
        }
        (Some(credentials), _, None) => Ok(credentials),
        (None, Some(client_id), Some(client_secret)) => {
            Ok(Credentials { client_id: client_id.to_owned(), client_secret: client_secret.to_owned() })
        }
        (None, _, _) => Err(Error::InvalidClient),
    }
}

/// Both parts are form-urlencoded before they are joined and encoded.
fn basic(value: &str) -> Option<Credentials> {
    let (scheme, encoded) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let (client_id, client_secret) = decoded.split_once(':')?;
    Some(Credentials { client_id: form_decode(client_id)?, client_secret: form_decode(client_secret)? })
}

fn form_decode(text: &str) -> Option<String> {
    let spaced = text.replace('+', " ");
    percent_decode_str(&spaced).decode_utf8().ok().map(Into::into)
}

#[cfg(test)]
mod tests {
    use domain::client_secret::{ClientSecrets, Previous};

    use super::*;

    fn encoded(text: &str) -> String {
        format!("bAsIc {}", STANDARD.encode(text))
    }

    #[test]
    fn as_much_is_compared_for_whom_nobody_knows() {
        let key = secret::Key::random();
        let hash = client_secret_hash(&key, NO_ID, "secret");
        assert_eq!(hash.expose().map(str::len), Some(NO_HASH.len()));
        let previous = Some(Previous { secret: hash.clone(), valid_until: 10 });
        let both = User { secrets: ClientSecrets { newest: hash.clone(), previous }, ..User::default() };
        let lengths = |user: Option<&User>, now| secrets(user, now).map(str::len);
        for (user, now) in [(Some(&both), 9), (Some(&both), 10), (Some(&User::default()), 9), (None, 9)] {
            assert_eq!(lengths(user, now), [NO_HASH.len(); 2]);
        }
        assert_eq!(secrets(Some(&both), 9), [hash.expose().unwrap(); 2]);
        assert_eq!(secrets(Some(&both), 10)[1], NO_HASH);
    }

    #[test]
    fn both_parts_are_form_decoded_after_the_split() {
        let credentials = basic(&encoded("a%3Ab:c+d%2B:e")).unwrap();
        assert_eq!(credentials, Credentials { client_id: "a:b".into(), client_secret: "c d+:e".into() });
    }

    #[test]
    fn a_malformed_header_is_no_credentials() {
        for malformed in ["Basic", "Basic !", "Bearer YTpi", &encoded("no-colon"), &encoded("a:%ff")] {
            assert_eq!(basic(malformed), None, "{malformed}");
        }
    }
}
