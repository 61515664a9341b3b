//! The holder of a token: a signed or an opaque token names it, a personal one is looked up.

use std::sync::Arc;

use base::clock;
use domain::{
    context::Owner,
    resource::{
        app::App, personal_access_token::PersonalAccessToken, project::Project, signing_key::SigningKey, user::User,
    },
    role::{IMPERSONATE, IMPERSONATE_ADMINS},
    setting::oidc::Oidc as Settings,
    standard::Resource,
};
use http::request::Parts;
use proto::operation::Facts;
use serde::de::DeserializeOwned;
use view::{
    directory::{Client, Name, PersonalToken, Principal, Tenant},
    keyring::{Purpose, secret_hash},
};

use super::{Edge, Recognised, own_app};
use crate::{
    caller::{AccessToken, Basis, RefusedToken, Verified, bearer, issued, issued_by, opaque, personal},
    consistency::unavailable,
    error::{Error, Reason},
    refusal::{read_model, unheard},
    secret_token::{PERSONAL, UnverifiedSecretToken, is_kept},
};

/// A valid access token of the instance.
#[derive(Debug)]
pub struct HeldToken {
    /// The claims of the token.
    pub token: AccessToken,
    /// The id of the signing key that it belongs to; `None` for a personal access token.
    pub key_id: Option<String>,
    /// The user that it belongs to.
    pub user: Arc<Principal>,
}

/// A request to an operation, with its instance and its token. The rights of the caller are not known yet.
#[derive(Clone, Copy)]
pub(super) struct VerifiedRequest<'a> {
    pub(super) operation: &'a Facts,
    pub(super) parts: &'a Parts,
    pub(super) tenant: &'a Arc<Tenant>,
    pub(super) token: &'a Verified,
}

/// The issue of a token, or of what tokens are issued for.
struct IssuedTo<'a> {
    user_id: &'a str,
    client_id: &'a str,
    /// The sequence that the issuer had seen.
    issued: u64,
}

/// Returns the token of a request, as it was recognised before, or verified as of a sequence or later.
pub(super) async fn verify(
    edge: &Edge,
    parts: &Parts,
    tenant: &Arc<Tenant>,
    sequence: u64,
) -> Result<Arc<Verified>, RefusedToken> {
    match parts.extensions.get::<Recognised>() {
        // The keys of the instance may have changed.
        Some(known) if Arc::ptr_eq(&known.tenant, tenant) => Ok(known.token.clone()),
        _ => {
            let token = bearer(&parts.headers)?;
            if let Some(sent) = PERSONAL.parse(token) {
                return Ok(Arc::new(Verified::personal(personal(edge, tenant, sent, sequence).await?)));
            }
            if opaque::is_opaque(token) {
                let (key_id, token) = opened(edge, tenant, token).await?.ok_or_else(opaque::unopened)?;
                return Ok(Arc::new(edge.verifier.opened(key_id, token, tenant)?));
            }
            edge.verifier.verify(&parts.headers, tenant)
        }
    }
}

/// Returns the user that a token belongs to, if it is still valid, as of a sequence or later.
pub(crate) async fn caller(
    edge: &Edge,
    tenant: &Tenant,
    token: &Verified,
    sequence: u64,
) -> Result<Arc<Principal>, Error> {
    if let Some(found) = &token.personal {
        counts(edge, tenant, found).map_err(RefusedToken::into_error)?;
    }
    if token.key_id.as_ref().is_some_and(|key_id| is_deleted(edge, tenant, key_id)) {
        return Err(personal::invalid());
    }
    if token.id.as_ref().is_some_and(|id| edge.ended.revoked().has(&tenant.id, id)) {
        return Err(personal::invalid());
    }
    match &token.system {
        Some(system) => Ok(system.clone()),
        None => {
            let client_id = token.id.as_ref().map(|id| id.client_id.as_str());
            let (user_id, issued) = (token.user_id.as_str(), token.sequence);
            let issue = IssuedTo { user_id, client_id: client_id.unwrap_or(user_id), issued };
            let user = user(edge, tenant, &issue, sequence.max(issued)).await?;
            require_bases(edge, tenant, &token.bases, &user, sequence).await?;
            Ok(user)
        }
    }
}

/// Returns the claims of an access token of the instance, whatever its audience, and its user; `None` if it is not
/// valid, or the user is not active. A personal one is for every project, so for the one that asks.
///
/// # Errors
/// When that cannot be known.
pub async fn held_token(
    edge: &Edge,
    tenant: &Tenant,
    token: &str,
    project_id: &str,
) -> Result<Option<HeldToken>, Error> {
    let held = async {
        let (key_id, token) = match PERSONAL.parse(token) {
            Some(sent) => {
                let found = personal(edge, tenant, sent, 0).await.map_err(RefusedToken::quietly)?;
                (None, personal::claims(&found, edge.external.issuer(tenant), project_id))
            }
            None => {
                let own = own(edge, tenant, token).await?;
                let own = own.filter(|(_, token)| !edge.ended.revoked().has(&tenant.id, &token.id()));
                let (key_id, token) = own.ok_or_else(personal::invalid)?;
                (Some(key_id), token)
            }
        };
        let issue = IssuedTo { user_id: &token.sub, client_id: &token.client_id, issued: token.seq };
        let user = user(edge, tenant, &issue, token.seq).await?;
        require_bases(edge, tenant, &token.exchanged_for, &user, token.seq).await?;
        Ok::<_, Error>(HeldToken { token, key_id, user })
    };
    none_if_invalid(held.await)
}

/// Refuses a token of a user if any token that it was issued for has ended, or if its holder acts as the user but
/// no longer has the right to; as of a sequence or later.
async fn require_bases(
    edge: &Edge,
    tenant: &Tenant,
    bases: &[Basis],
    user: &Principal,
    sequence: u64,
) -> Result<(), Error> {
    for basis in bases {
        let holder = of_basis(edge, tenant, basis, sequence.max(basis.seq)).await?;
        if basis.acts && !may_impersonate(edge, tenant, &holder, user) {
            return Err(Error::new(Reason::TokenInvalid, "the access token no longer permits acting as its user"));
        }
    }
    Ok(())
}

/// Returns the user of a token that another one depends on, if neither has ended; as of a sequence or later.
async fn of_basis(edge: &Edge, tenant: &Tenant, basis: &Basis, sequence: u64) -> Result<Arc<Principal>, Error> {
    let is_known =
        |key_id: &String| tenant.signing_keys.iter().any(|(id, _)| id == key_id) && !is_deleted(edge, tenant, key_id);
    if edge.ended.revoked().has(&tenant.id, &basis.id()) || !basis.kid.as_ref().is_none_or(is_known) {
        return Err(personal::invalid());
    }
    let issue = IssuedTo { user_id: &basis.sub, client_id: &basis.client_id, issued: basis.seq };
    user(edge, tenant, &issue, sequence).await
}

/// Returns the user of something that tokens may be issued for, if it is valid; `None` if it is not.
///
/// # Errors
/// When that cannot be known.
pub async fn basis_holder(edge: &Edge, tenant: &Tenant, basis: &Basis) -> Result<Option<Arc<Principal>>, Error> {
    none_if_invalid(of_basis(edge, tenant, basis, basis.seq).await)
}

/// Returns the claims of a token with a `typ` that the instance has issued under its current name, and the key that
/// signed it, whether or not it has expired; `None` if it is no such token, or its key is deleted.
pub fn issued_now<C: DeserializeOwned>(edge: &Edge, tenant: &Tenant, token: &str, r#type: &str) -> Option<(String, C)> {
    let issuer = edge.external.issuer(tenant);
    let signed = issued_by(token, tenant, r#type, Some(&issuer));
    signed.filter(|(key_id, _)| !is_deleted(edge, tenant, key_id))
}

/// Whether the instance allows users with the right to impersonation to act as others.
pub fn has_impersonation(edge: &Edge, tenant: &Tenant) -> bool {
    let settings = edge.settings.effective::<Settings>(&tenant.id, &Owner::instance(&tenant.id));
    *settings.chain.resolve(|settings| settings.enable_impersonation.as_ref()).value
}

/// Whether a user may act as another one, as far as is known here: it takes more if that one has roles.
fn may_impersonate(edge: &Edge, tenant: &Tenant, actor: &Principal, user: &Principal) -> bool {
    let mut places = user.memberships.iter().map(|held| &held.context);
    has_impersonation(edge, tenant)
        && actor.may(IMPERSONATE, &user.owner.chain(&tenant.id))
        && places.all(|context| actor.may(IMPERSONATE_ADMINS, &context.chain(&tenant.id)))
}

/// Returns the claims of a token that the instance has issued, whatever its audience and whether or not what it
/// depends on still exists, and its signing key; `None` if it is no such token, or has expired.
async fn own(edge: &Edge, tenant: &Tenant, token: &str) -> Result<Option<(String, AccessToken)>, Error> {
    let read = if opaque::is_opaque(token) {
        let opened = opened(edge, tenant, token).await?;
        opened.and_then(|(key_id, token)| Some((key_id, edge.verifier.of_now(token, tenant).ok()?)))
    } else {
        edge.verifier.read(token, tenant)
    };
    Ok(read.filter(|(key_id, _)| !is_deleted(edge, tenant, key_id)))
}

/// Returns the claims of a token that the instance has ever issued to a client, under whatever issuer name and
/// regardless of the clock of this node, since other nodes may accept it.
///
/// # Errors
/// When the key of opaque tokens is unavailable.
pub async fn claims_ever_issued(edge: &Edge, tenant: &Tenant, token: &str) -> Result<Option<AccessToken>, Error> {
    if opaque::is_opaque(token) {
        Ok(opened(edge, tenant, token).await?.map(|(_, token)| token))
    } else {
        Ok(issued(token, tenant))
    }
}

/// Returns the claims of an opaque token that the instance has issued, and the signing key that it belongs to.
async fn opened(edge: &Edge, tenant: &Tenant, token: &str) -> Result<Option<(String, AccessToken)>, Error> {
    let Some(sent) = opaque::parse(token) else { return Ok(None) };
    let Some((kid, key)) = tenant.signing_keys.iter().find(|(id, _)| id == sent.kid) else { return Ok(None) };
    let secrets = edge.tokens.keyring().key(&tenant.id, Purpose::ClientSecret).await.map_err(unavailable)?;
    let opened = sent.open(&opaque::key(&secrets, key), &tenant.id);
    Ok(opened.map(|token| (kid.clone(), token)))
}

/// Whether something looks like a personal access token.
pub fn is_personal(token: &str) -> bool {
    PERSONAL.parse(token).is_some()
}

/// Returns a personal access token, if it is valid; as of a sequence or later.
async fn personal(
    edge: &Edge,
    tenant: &Tenant,
    sent: UnverifiedSecretToken<'_>,
    sequence: u64,
) -> Result<Arc<PersonalToken>, RefusedToken> {
    let key = edge.tokens.keyring().key(&tenant.id, Purpose::ClientSecret).await.map_err(unavailable)?;
    let found = edge.directory.personal_access_token(&tenant.id, sent.id, sequence).await.map_err(read_model)?;
    let given = secret_hash(&key, sent.id, sent.secret);
    let unknown =
        || RefusedToken::personal(sent.id, false, personal::invalid(), "it does not exist, or its secret is wrong");
    let found = found.filter(|found| is_kept(&given, &found.token.secret)).ok_or_else(unknown)?;
    counts(edge, tenant, &found)?;
    Ok(found)
}

/// Refuses a personal access token that has expired, or was deleted since it was looked up.
fn counts(edge: &Edge, tenant: &Tenant, found: &PersonalToken) -> Result<(), RefusedToken> {
    let PersonalToken { as_of, id, token, .. } = found;
    // The token may have been deleted so long ago that it is forgotten, while the read model does not know it yet.
    if !edge.ended.is_known() || !edge.ended.knows_since(as_of.get()) {
        return Err(unheard().into());
    }
    if token.expires_at <= clock::now().as_millisecond() {
        let error = Error::new(Reason::TokenExpired, "the access token has expired");
        return Err(RefusedToken::personal(id, true, error, "it has expired"));
    }
    let on = [(PersonalAccessToken::NAME, id.as_str())];
    if edge.ended.is_dead(&tenant.id, &Owner::system(), &on, as_of.get()) {
        return Err(RefusedToken::personal(id, true, personal::invalid(), "it was deleted"));
    }
    Ok(())
}

/// Whether a key of an instance was deleted since the instance was looked up.
fn is_deleted(edge: &Edge, tenant: &Tenant, key_id: &str) -> bool {
    edge.ended.is_dead(&tenant.id, &Owner::system(), &[(SigningKey::NAME, key_id)], tenant.as_of.get())
}

/// Returns the user of a token, if neither it nor the app has ended since the issue, as of a sequence or later.
async fn user(
    edge: &Edge,
    tenant: &Tenant,
    &IssuedTo { user_id: id, client_id, issued }: &IssuedTo<'_>,
    sequence: u64,
) -> Result<Arc<Principal>, Error> {
    if !edge.ended.is_known() {
        return Err(unheard());
    }
    // A service user is its own client.
    if client_id != id && !has_live_app(edge, tenant, client_id, issued, sequence).await? {
        return Err(Error::new(Reason::TokenInvalid, "the app of the access token is not active"));
    }
    let user = edge.directory.principal(&tenant.id, Name::Id(id.to_owned()), sequence).await;
    // What is known of the user may be older than the token.
    let is_dead = |user: &Principal| {
        let since = issued.min(user.as_of.get());
        edge.ended.is_dead(&tenant.id, &user.owner, &[(User::NAME, &user.id)], since)
    };
    let user = user.map_err(read_model)?.filter(|user| user.is_live && !is_dead(user));
    user.ok_or_else(|| Error::new(Reason::TokenInvalid, "the user of the access token is not active"))
}

/// Whether an app and its project exist and are switched on, and have been ever since a token was issued.
async fn has_live_app(edge: &Edge, tenant: &Tenant, id: &str, issued: u64, sequence: u64) -> Result<bool, Error> {
    let app = own_app::find_app(edge, tenant, id, sequence).await.map_err(read_model)?;
    Ok(app.is_some_and(|app| is_live_app(edge, tenant, &app, issued)))
}

/// Whether an app and its project exist and are on, and have been since a sequence, or since the app was read.
pub fn is_live_app(edge: &Edge, tenant: &Tenant, app: &Client, since: u64) -> bool {
    let on = [(App::NAME, app.id.as_str()), (Project::NAME, &app.app.project_id)];
    app.is_live && !edge.ended.is_dead(&tenant.id, &app.owner, &on, since.min(app.as_of.get()))
}

/// Turns the refusal of a token into `None`, and passes on other errors.
fn none_if_invalid<T>(held: Result<T, Error>) -> Result<Option<T>, Error> {
    match held {
        Ok(held) => Ok(Some(held)),
        Err(error) if [Reason::TokenInvalid, Reason::TokenExpired].contains(&error.reason()) => Ok(None),
        Err(error) => Err(error),
    }
}
