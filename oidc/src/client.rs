//! Client authentication: with a secret in the Basic header or in the form (RFC 6749, section 2.3.1), or with an assertion that
//! a key of the client has signed (RFC 7523, section 2.2). Clients are service users, which get tokens in their own
//! name, and apps, which get tokens for people who log in to them, or check tokens that they receive.

use std::sync::Arc;

use base::{clock, secret};
use base64::{Engine, engine::general_purpose::STANDARD};
use domain::{
    client_secret::ClientSecrets,
    resource::{
        app::{App, AuthMethod},
        user::User,
    },
    standard::Resource,
};
use http::{HeaderMap, header};
use percent_encoding::percent_decode_str;
use view::{
    directory::{Client, Name, Principal, Tenant},
    keyring::{Purpose, secret_hash},
};

use crate::{
    Oidc,
    assertion::{Assertion, Flaw, Signatory, Use},
    current,
    error::Error,
    form::Form,
};

use edge::admission::{holder, own_app};

/// What a client authenticates with.
enum Credentials<'a> {
    Secret(Secret),
    Assertion(Assertion<'a>),
}

/// A client and its secret.
#[derive(Debug, PartialEq, Eq)]
struct Secret {
    client_id: String,
    client_secret: String,
}

/// Returns the service user that the request authenticates as.
///
/// An unknown client takes as long as a wrong secret, and neither is told apart.
pub(crate) async fn user(
    oidc: &Oidc,
    tenant: &Tenant,
    headers: &HeaderMap,
    form: &Form,
) -> Result<Arc<Principal>, Error> {
    let Secret { client_id, client_secret } = match credentials(headers, form)? {
        Credentials::Secret(secret) => secret,
        Credentials::Assertion(assertion) => {
            let user = signing_user(oidc, tenant, &assertion, Use::Client).await.map_err(refused)?;
            check_id(form, &[&user.id, &user.user.username])?;
            return Ok(user);
        }
    };
    if !oidc.edge.ended.is_known() {
        return Err(Error::Unavailable);
    }
    let user = current::user(oidc, tenant, name(client_id)).await?;
    let known = user.as_ref().map(|user| (user.id.as_str(), &user.user.secrets));
    let is_right = is_right(oidc, tenant, known, &client_secret).await?;
    user.filter(|user| is_right && is_live(oidc, tenant, user)).ok_or(Error::InvalidClient)
}

/// Parses a client id: the id of a service user or an app, or a user name, which has other characters than digits.
/// Timing must not reveal which user names exist; ids are no secret.
fn name(client_id: String) -> Name {
    if client_id.bytes().all(|byte| byte.is_ascii_digit()) { Name::Id(client_id) } else { Name::Username(client_id) }
}

fn is_live(oidc: &Oidc, tenant: &Tenant, user: &Principal) -> bool {
    let is_dead = || oidc.edge.ended.is_dead(&tenant.id, &user.owner, &[(User::NAME, &user.id)], user.as_of.get());
    user.is_live && !is_dead()
}

/// Returns the service user that has signed an assertion, which names it by its id or by its user name.
pub(crate) async fn signing_user(
    oidc: &Oidc,
    tenant: &Tenant,
    assertion: &Assertion<'_>,
    r#use: Use,
) -> Result<Arc<Principal>, Flaw> {
    let key = assertion.key::<User>(oidc, tenant).await?;
    let user = oidc.edge.directory.principal(&tenant.id, Name::Id(key.holder_id.clone()), 0).await?;
    let user = user.filter(|user| is_live(oidc, tenant, user)).ok_or(Flaw::Unsigned)?;
    let User { username, allow_token_endpoint_audience: takes_endpoint, .. } = &user.user;
    let (name, takes_endpoint) = (Some(username.as_str()), *takes_endpoint);
    let by = Signatory { id: &user.id, name, owner: &user.owner, key: &key, takes_endpoint };
    assertion.verify::<User>(oidc, tenant, &by, r#use).await?;
    Ok(user)
}

/// Returns the app that the request authenticates as: with a secret by HTTP Basic only, even where the app is set up to
/// send it in forms, because introspection (RFC 7662) accepts no secret in the form.
pub(crate) async fn app(oidc: &Oidc, tenant: &Tenant, headers: &HeaderMap, form: &Form) -> Result<Arc<Client>, Error> {
    authenticated(oidc, tenant, headers, form, headers.contains_key(header::AUTHORIZATION)).await
}

/// Returns the app that people log in to: it authenticates as it is set up to, or not at all where it cannot keep a
/// secret.
pub(crate) async fn of_login(
    oidc: &Oidc,
    tenant: &Tenant,
    headers: &HeaderMap,
    form: &Form,
) -> Result<Arc<Client>, Error> {
    match named_only(headers, form) {
        Some(client_id) => public(oidc, tenant, client_id).await,
        None => authenticated(oidc, tenant, headers, form, true).await,
    }
}

/// Returns the app that has authenticated, by an assertion or, where `takes_secret` is set, by its secret.
async fn authenticated(
    oidc: &Oidc,
    tenant: &Tenant,
    headers: &HeaderMap,
    form: &Form,
    takes_secret: bool,
) -> Result<Arc<Client>, Error> {
    match credentials(headers, form)? {
        Credentials::Secret(Secret { client_id, client_secret }) if takes_secret => {
            with_secret(oidc, tenant, &client_id, &client_secret).await
        }
        Credentials::Secret(_) => Err(Error::InvalidClient),
        Credentials::Assertion(assertion) => {
            let app = signing_app(oidc, tenant, &assertion).await.map_err(refused)?;
            check_id(form, &[&app.id])?;
            Ok(app)
        }
    }
}

/// Returns the app with an id, if the secret is one of its own.
async fn with_secret(oidc: &Oidc, tenant: &Tenant, client_id: &str, client_secret: &str) -> Result<Arc<Client>, Error> {
    if !oidc.edge.ended.is_known() {
        return Err(Error::Unavailable);
    }
    let app = current::app(oidc, tenant, client_id).await?;
    let known = app.as_ref().map(|found| (found.id.as_str(), &found.app.secrets));
    let is_right = is_right(oidc, tenant, known, client_secret).await?;
    let has_secret = |app: &Client| app.app.config.auth_method().has_secret();
    app.filter(|app| is_right && has_secret(app) && holder::is_live_app(&oidc.edge, tenant, app, app.as_of.get()))
        .ok_or(Error::InvalidClient)
}

/// Returns the client id of a request without credentials.
fn named_only<'a>(headers: &HeaderMap, form: &'a Form) -> Option<&'a str> {
    let authenticates = ["client_secret", "client_assertion", "client_assertion_type"];
    let shows =
        headers.contains_key(header::AUTHORIZATION) || authenticates.iter().any(|name| form.get(name).is_some());
    form.get("client_id").filter(|_| !shows)
}

/// Returns an app that does not have to authenticate (RFC 6749, section 3.2.1).
async fn public(oidc: &Oidc, tenant: &Tenant, client_id: &str) -> Result<Arc<Client>, Error> {
    if !oidc.edge.ended.is_known() {
        return Err(Error::Unavailable);
    }
    let app = current::app(oidc, tenant, client_id).await?;
    let is_public = |app: &Client| app.app.config.auth_method() == AuthMethod::None;
    app.filter(|app| is_public(app) && holder::is_live_app(&oidc.edge, tenant, app, app.as_of.get()))
        .ok_or(Error::InvalidClient)
}

/// Returns the id of the client, a service user or an app. Apps may send their secrets in the header or in the form.
///
/// An unknown client takes as long as a wrong secret, and neither is told apart.
pub(crate) async fn any(oidc: &Oidc, tenant: &Tenant, headers: &HeaderMap, form: &Form) -> Result<String, Error> {
    if let Some(client_id) = named_only(headers, form) {
        return Ok(public(oidc, tenant, client_id).await?.id.clone());
    }
    let Secret { client_id, client_secret } = match credentials(headers, form)? {
        Credentials::Secret(secret) => secret,
        Credentials::Assertion(assertion) => return any_signing(oidc, tenant, &assertion, form).await,
    };
    if !oidc.edge.ended.is_known() {
        return Err(Error::Unavailable);
    }
    let name = name(client_id);
    // Apps have no names, so none is looked up by name: without Postgres that could not be answered.
    let app = match &name {
        Name::Id(id) => current::app(oidc, tenant, id).await?,
        Name::Username(_) => None,
    };
    let user = current::user(oidc, tenant, name).await?;
    let known_app = app.as_ref().map(|found| (found.id.as_str(), &found.app.secrets));
    let known = known_app.or_else(|| user.as_ref().map(|user| (user.id.as_str(), &user.user.secrets)));
    let is_right = is_right(oidc, tenant, known, &client_secret).await?;
    let app_id = match app {
        Some(app) => {
            let may = app.app.config.auth_method().has_secret()
                && holder::is_live_app(&oidc.edge, tenant, &app, app.as_of.get());
            may.then(|| app.id.clone())
        }
        None => user.filter(|user| is_live(oidc, tenant, user)).map(|user| user.id.clone()),
    };
    app_id.filter(|_| is_right).ok_or(Error::InvalidClient)
}

async fn any_signing(oidc: &Oidc, tenant: &Tenant, assertion: &Assertion<'_>, form: &Form) -> Result<String, Error> {
    match signing_user(oidc, tenant, assertion, Use::Client).await {
        Ok(user) => {
            check_id(form, &[&user.id, &user.user.username])?;
            Ok(user.id.clone())
        }
        Err(Flaw::Unsigned) => {
            let app = signing_app(oidc, tenant, assertion).await.map_err(refused)?;
            check_id(form, &[&app.id])?;
            Ok(app.id.clone())
        }
        Err(flaw) => Err(refused(flaw)),
    }
}

/// Returns the app that has signed an assertion, if that is how it authenticates.
async fn signing_app(oidc: &Oidc, tenant: &Tenant, assertion: &Assertion<'_>) -> Result<Arc<Client>, Flaw> {
    let key = assertion.key::<App>(oidc, tenant).await?;
    let app = own_app::find_app(&oidc.edge, tenant, &key.holder_id, 0).await?;
    let signs = |app: &Client| app.app.config.auth_method() == AuthMethod::PrivateKeyJwt;
    let app = app
        .filter(|app| signs(app) && holder::is_live_app(&oidc.edge, tenant, app, app.as_of.get()))
        .ok_or(Flaw::Unsigned)?;
    let takes_endpoint = app.app.allow_token_endpoint_audience;
    let by = Signatory { id: &app.id, name: None, owner: &app.owner, key: &key, takes_endpoint };
    assertion.verify::<App>(oidc, tenant, &by, Use::Client).await?;
    Ok(app)
}

/// Refuses a form whose `client_id` is not the client that has signed the assertion.
pub(crate) fn check_id(form: &Form, names: &[&str]) -> Result<(), Error> {
    if form.get("client_id").is_none_or(|client_id| names.contains(&client_id)) { Ok(()) } else { Err(ANOTHER) }
}

/// Hides from the client why it is refused. The reason is logged where a valid key has signed.
fn refused(flaw: Flaw) -> Error {
    match flaw {
        Flaw::Unknown(error) => error,
        Flaw::Claim(rule) => {
            tracing::info!(rule, "a client is refused that has signed an assertion");
            Error::InvalidClient
        }
        Flaw::Unsigned => Error::InvalidClient,
    }
}

/// Whether a secret is valid now. For an unknown client it takes the same work as for a known one.
async fn is_right(
    oidc: &Oidc,
    tenant: &Tenant,
    known: Option<(&str, &ClientSecrets)>,
    client_secret: &str,
) -> Result<bool, Error> {
    let key = oidc.keyring.key(&tenant.id, Purpose::ClientSecret).await?;
    let (id, known) = known.unzip();
    let given = secret_hash(&key, id.unwrap_or(NO_ID), client_secret);
    let given = given.expose().unwrap_or_default();
    // Both are always compared, so that the time does not depend on the match.
    let [newest, previous] = secrets(known, clock::now().as_millisecond())
        .map(|hash| secret::constant_time_eq(given.as_bytes(), hash.as_bytes()));
    Ok(newest || previous)
}

/// The id that stands in for an unknown client, as long as a real one.
const NO_ID: &str = "000000000000000000";
/// The hash that stands in for a missing one: of the same length, and of no secret.
const NO_HASH: &str = "...........................................";

/// Returns the hashes of the secrets that are valid at a time, in milliseconds since the Unix epoch: always two to
/// compare.
fn secrets(known: Option<&ClientSecrets>, now: i64) -> [&str; 2] {
    let newest = known.and_then(|secrets| secrets.newest.expose());
    let previous = known.and_then(|secrets| secrets.previous.as_ref()).filter(|previous| previous.valid_until > now);
    [newest, previous.and_then(|previous| previous.secret.expose())].map(|hash| hash.unwrap_or(NO_HASH))
}

fn credentials<'a>(headers: &HeaderMap, form: &'a Form) -> Result<Credentials<'a>, Error> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let in_header = match (given.next(), given.next()) {
        (None, _) => None,
        (Some(value), None) => {
            Some(basic(value.to_str().map_err(|_| Error::InvalidClient)?).ok_or(Error::InvalidClient)?)
        }
        (Some(_), Some(_)) => return Err(Error::InvalidRequest("more than one Authorization header")),
    };
    if let Some(assertion) = signed(form)? {
        if in_header.is_some() || form.get("client_secret").is_some() {
            return Err(TWICE);
        }
        return Ok(Credentials::Assertion(assertion));
    }
    let secret = match (in_header, form.get("client_id"), form.get("client_secret")) {
        (Some(_), _, Some(_)) => return Err(TWICE),
        (Some(secret), Some(client_id), None) if client_id != secret.client_id => return Err(ANOTHER),
        (Some(secret), _, None) => secret,
        (None, Some(client_id), Some(client_secret)) => {
            Secret { client_id: client_id.to_owned(), client_secret: client_secret.to_owned() }
        }
        (None, _, _) => return Err(Error::InvalidClient),
    };
    Ok(Credentials::Secret(secret))
}

const TWICE: Error = Error::InvalidRequest("the client authenticates in more than one way");
const ANOTHER: Error = Error::InvalidRequest("client_id is not the one that authenticates");

/// Returns the assertion in a form (RFC 7521, section 4.2).
fn signed(form: &Form) -> Result<Option<Assertion<'_>>, Error> {
    let text = match (form.get("client_assertion_type"), form.get("client_assertion")) {
        (None, None) => return Ok(None),
        (Some(ASSERTION_TYPE), Some(text)) => text,
        (Some(ASSERTION_TYPE), None) => return Err(Error::InvalidRequest("client_assertion is missing")),
        (None, Some(_)) => return Err(Error::InvalidRequest("client_assertion_type is missing")),
        (Some(_), _) => return Err(Error::InvalidRequest("client_assertion_type is not one of this server")),
    };
    Assertion::read(text).map(Some).ok_or(Error::InvalidClient)
}

/// The type of assertions that clients sign (RFC 7523, section 2.2).
const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// Parses a Basic header, whose two parts are form-urlencoded before they are joined and encoded.
fn basic(value: &str) -> Option<Secret> {
    let (scheme, encoded) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
    let (client_id, client_secret) = decoded.split_once(':')?;
    Some(Secret { client_id: form_decode(client_id)?, client_secret: form_decode(client_secret)? })
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
        let key = secret::SymmetricKey::random();
        let hash = secret_hash(&key, NO_ID, "secret");
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
        assert_eq!(credentials, Secret { client_id: "a:b".into(), client_secret: "c d+:e".into() });
    }

    #[test]
    fn a_malformed_header_is_no_credentials() {
        for malformed in ["Basic", "Basic !", "Bearer YTpi", &encoded("no-colon"), &encoded("a:%ff")] {
            assert_eq!(basic(malformed), None, "{malformed}");
        }
    }
}
