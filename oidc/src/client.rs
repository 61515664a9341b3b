//! Client authentication with a secret: in the Basic header or in the form (RFC 6749, section 2.3.1). Clients are service
//! users, which get tokens in their own name, and apps, which check those of others.

use std::sync::Arc;

use base::{clock, secret};
use base64::{Engine, engine::general_purpose::STANDARD};
use domain::{
    client_secret::ClientSecrets,
    resource::{app::App, project::Project, user::User},
    standard::Resource,
};
use http::{HeaderMap, header};
use percent_encoding::percent_decode_str;
use view::{
    directory::{Client, Name, Principal, Tenant},
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
pub(crate) async fn user(
    oidc: &Oidc,
    tenant: &Tenant,
    headers: &HeaderMap,
    form: &Form,
) -> Result<Arc<Principal>, Error> {
    let Credentials { client_id, client_secret } = credentials(headers, form)?;
    if !oidc.edge.ended.is_known() {
        return Err(Error::Unavailable);
    }
    let user = oidc.edge.directory.principal(&tenant.id, Name::Username(client_id), 0).await?;
    let known = user.as_ref().map(|user| (user.id.as_str(), &user.user.secrets));
    let is_right = is_right(oidc, tenant, known, &client_secret).await?;
    let is_dead =
        |user: &Principal| oidc.edge.ended.is_dead(&tenant.id, &user.owner, &[(User::NAME, &user.id)], user.processed);
    user.filter(|user| is_right && user.is_live && !is_dead(user)).ok_or(Error::InvalidClient)
}

/// The app that the request authenticates as, by HTTP Basic only: also one that was set up to send its secret in forms, because
/// where apps are asked for (RFC 7662) no form is taken.
pub(crate) async fn app(oidc: &Oidc, tenant: &Tenant, headers: &HeaderMap, form: &Form) -> Result<Arc<Client>, Error> {
    let Credentials { client_id, client_secret } = credentials(headers, form)?;
    if !headers.contains_key(header::AUTHORIZATION) {
        return Err(Error::InvalidClient);
    }
    if !oidc.edge.ended.is_known() {
        return Err(Error::Unavailable);
    }
    let app = oidc.edge.directory.app(&tenant.id, &client_id, 0).await?;
    let known = app.as_ref().map(|found| (found.id.as_str(), &found.app.secrets));
    let is_right = is_right(oidc, tenant, known, &client_secret).await?;
    let is_dead = |app: &Client| {
        let on = [(App::NAME, app.id.as_str()), (Project::NAME, &app.app.project_id)];
        oidc.edge.ended.is_dead(&tenant.id, &app.owner, &on, app.processed)
    };
    let has_secret = |app: &Client| app.app.config.auth_method().has_secret();
    app.filter(|app| is_right && has_secret(app) && app.is_live && !is_dead(app)).ok_or(Error::InvalidClient)
}

/// Whether a secret is one that is valid now. Where nobody is known it gets the work of somebody who is.
async fn is_right(
    oidc: &Oidc,
    tenant: &Tenant,
    known: Option<(&str, &ClientSecrets)>,
    client_secret: &str,
) -> Result<bool, Error> {
    let key = oidc.keyring.key(&tenant.id, Purpose::ClientSecret).await?;
    let (id, known) = known.unzip();
    let given = client_secret_hash(&key, id.unwrap_or(NO_ID), client_secret);
    let given = given.expose().unwrap_or_default();
    // Both are compared, whichever it is.
    let [newest, previous] =
        secrets(known, clock::now().as_millisecond()).map(|hash| secret::same(given.as_bytes(), hash.as_bytes()));
    Ok(newest || previous)
}

/// What stands where there is no user: as long as an id.
const NO_ID: &str = "000000000000000000";
/// What stands where there is no hash: as long as one, and no secret has it.
const NO_HASH: &str = "...........................................";

/// The hashes of the secrets that are valid at a time, in milliseconds since the Unix epoch: always two to compare.
fn secrets(known: Option<&ClientSecrets>, now: i64) -> [&str; 2] {
    let newest = known.and_then(|secrets| secrets.newest.expose());
    let previous = known.and_then(|secrets| secrets.previous.as_ref()).filter(|previous| previous.valid_until > now);
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
    use domain::client_secret::Previous;

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
        let both = ClientSecrets { newest: hash.clone(), previous };
        let lengths = |known: Option<&ClientSecrets>, now| secrets(known, now).map(str::len);
        let none = ClientSecrets::default();
        for (known, now) in [(Some(&both), 9), (Some(&both), 10), (Some(&none), 9), (None, 9)] {
            assert_eq!(lengths(known, now), [NO_HASH.len(); 2]);
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
