//! The subject and the actor of an exchange: whose the tokens are that an app shows, and what these give.

use std::sync::Arc;

use base::clock;
use domain::resource::{app::App, user::password::outdated};
use edge::{
    admission::{Edge, HeldToken},
    caller::{Actor, Basis},
};
use http::HeaderMap;
use serde::Deserialize;
use serde_json::Value;
use view::directory::{Client, Name, Principal, Tenant};

use super::Type;
use crate::{
    Oidc,
    assertion::{Assertion, Claims, Flaw, Signatory, Use},
    error::Error,
    form::Form,
    introspect::is_for,
    issue::ID_TYPE,
    session,
};

/// By how many seconds the clocks of nodes may differ.
const CLOCKS: i64 = 10;

/// Somebody of whom an app shows a token, and what that gives.
pub(super) struct Party {
    pub(super) user: Arc<Principal>,
    /// The scope of an access token; others have none.
    pub(super) scope: Option<String>,
    /// Whom the token is for.
    pub(super) audience: Vec<String>,
    /// When it expires, in seconds since the Unix epoch.
    pub(super) expires: i64,
    /// When the person was checked, where it says so.
    pub(super) auth_time: Option<i64>,
    /// Who acts by it.
    pub(super) act: Option<Actor>,
    /// Who may act, where it says so.
    pub(super) may_act: Option<Value>,
    /// What is got for it stands on these.
    pub(super) bases: Vec<Basis>,
}

/// A user whom the app names, of whom nothing was looked at yet.
pub(super) struct Named {
    pub(super) id: String,
    /// When what the app has signed expires, in seconds since the Unix epoch.
    expires: i64,
    /// Who may act, where it says so.
    pub(super) may_act: Option<Value>,
}

/// A token as it was sent, of the type that it is said to be.
pub(super) struct Given<'a> {
    kind: Type,
    token: &'a str,
}

impl<'a> Given<'a> {
    pub(super) fn subject(form: &'a Form) -> Result<Self, Error> {
        let missing = Error::InvalidRequest("subject_token is missing");
        let token = form.get("subject_token").ok_or(missing)?;
        let kind = form.get("subject_token_type").ok_or(Error::InvalidRequest("subject_token_type is missing"))?;
        match Type::of(kind) {
            None | Some(Type::Refresh) => Err(Error::InvalidRequest("a subject token of this type is not taken")),
            Some(kind) => Ok(Self { kind, token }),
        }
    }

    pub(super) fn actor(form: &'a Form) -> Result<Option<Self>, Error> {
        let (token, kind) = match (form.get("actor_token"), form.get("actor_token_type")) {
            (None, None) => return Ok(None),
            (Some(token), Some(kind)) => (token, Type::of(kind)),
            (Some(_), None) => return Err(Error::InvalidRequest("actor_token_type is missing")),
            (None, Some(_)) => return Err(Error::InvalidRequest("actor_token is missing")),
        };
        match kind {
            Some(kind @ (Type::Access | Type::Id)) => Ok(Some(Self { kind, token })),
            _ => Err(Error::InvalidRequest("an actor token of this type is not taken")),
        }
    }

    /// Whether it is nothing that the user has given, so that somebody has to act who may.
    pub(super) fn needs_actor(&self) -> bool {
        matches!(self.kind, Type::Jwt | Type::UserId)
    }
}

/// What of an ID token says whose it is.
#[derive(Deserialize)]
struct IdToken {
    sub: String,
    azp: String,
    aud: Vec<String>,
    exp: i64,
    iat: i64,
    sid: Option<String>,
    auth_time: Option<i64>,
}

/// Reads the tokens that an app shows.
pub(super) struct Reading<'a> {
    pub(super) oidc: &'a Oidc,
    pub(super) tenant: &'a Arc<Tenant>,
    pub(super) app: &'a Client,
    /// Those of the request.
    pub(super) headers: &'a HeaderMap,
    /// The sequence of the log that revocations are in, before anything is looked at.
    pub(super) session_seq: u64,
}

impl Reading<'_> {
    /// Whose a token is, if it is valid for the app; nothing where it is not.
    ///
    /// # Errors
    /// When that cannot be known.
    pub(super) async fn party(&self, given: &Given<'_>, acts: bool) -> Result<Option<Party>, Error> {
        match given.kind {
            Type::Access => self.access(given.token, acts).await,
            Type::Id => self.id(given.token, acts).await,
            Type::Jwt | Type::UserId | Type::Refresh => Ok(None),
        }
    }

    /// Whom the app names by what the user has not given; nothing where that is not valid.
    ///
    /// # Errors
    /// When that cannot be known, or what the app has signed breaks a rule.
    pub(super) async fn named(&self, given: &Given<'_>) -> Result<Option<Named>, Error> {
        match given.kind {
            Type::Jwt => self.signed(given.token).await,
            Type::UserId => Ok(Some(Named { id: given.token.to_owned(), expires: i64::MAX, may_act: None })),
            Type::Access | Type::Id | Type::Refresh => Ok(None),
        }
    }

    /// An access token that is for the app or its project. Whoever is acted as acts as nobody. Personal ones are for whoever has them.
    async fn access(&self, token: &str, acts: bool) -> Result<Option<Party>, Error> {
        if Edge::is_personal(token) {
            return Ok(None);
        }
        let held = self.oidc.edge.holder(self.tenant, token, &self.app.app.project_id).await?;
        let held = held.filter(|held| is_for(&held.token, self.app) && !(acts && held.token.act.is_some()));
        Ok(held.map(|HeldToken { token, key_id, user }| Party {
            user,
            bases: token.bases(key_id, acts),
            may_act: token.added.get("may_act").cloned(),
            scope: Some(token.scope),
            audience: token.aud,
            expires: token.exp,
            auth_time: token.auth_time,
            act: token.act,
        }))
    }

    /// An ID token of the app itself, from a login whose session lives. Those that were got for other tokens have no session.
    async fn id(&self, token: &str, acts: bool) -> Result<Option<Party>, Error> {
        let (edge, now) = (&self.oidc.edge, clock::now().as_second());
        let is_own = |token: &IdToken| token.azp == self.app.id && *token.aud == [self.app.id.clone()];
        let is_of_now = |token: &IdToken| token.exp > now && token.iat <= now + CLOCKS;
        let read = edge.issued_now::<IdToken>(self.tenant, token, ID_TYPE);
        let read = read.filter(|(_, token)| is_own(token) && is_of_now(token));
        let Some((key_id, token)) = read else { return Ok(None) };
        let Some(session_id) = token.sid else { return Ok(None) };
        let session = session::living(self.oidc, self.tenant, &session_id).await?;
        let Some(session) = session.map(|found| found.state) else { return Ok(None) };
        let Some(checked) = session.user.filter(|checked| checked.id == token.sub) else { return Ok(None) };
        let basis = Basis {
            jti: None,
            kid: Some(key_id),
            sub: token.sub,
            client_id: token.azp,
            sid: Some(session_id),
            grant_id: None,
            iat: token.iat,
            seq: checked.seen,
            session_seq: self.session_seq,
            acts,
        };
        let user = edge.basis_holder(self.tenant, &basis).await?;
        // The time has no parts of seconds.
        let checked_at = token.auth_time.unwrap_or_default().saturating_mul(1000).saturating_add(999);
        let user = user.filter(|user| outdated(user.user.password.as_ref(), checked_at).is_none());
        Ok(user.map(|user| Party {
            user,
            scope: None,
            audience: vec![self.app.id.clone()],
            expires: token.exp.min(session.expires_at.div_euclid(1000)),
            auth_time: token.auth_time,
            act: None,
            may_act: None,
            bases: vec![basis],
        }))
    }

    /// A JWT that the app has signed with a key of its own, a moment ago, and that names a user.
    async fn signed(&self, token: &str) -> Result<Option<Named>, Error> {
        let Some(assertion) = Assertion::read(token) else { return Ok(None) };
        let claims = async {
            let key = assertion.key::<App>(self.oidc, self.tenant).await?;
            if key.holder_id != self.app.id {
                return Err(Flaw::Unsigned);
            }
            let Client { id, owner, app, .. } = self.app;
            let by = Signatory { id, name: None, owner, takes_endpoint: app.allow_token_endpoint_audience };
            assertion.verify::<App>((self.oidc, self.tenant), &key, &by, Use::Subject).await
        };
        match claims.await {
            Ok(Claims { sub, exp, may_act, .. }) => Ok(Some(Named { id: sub, expires: exp, may_act })),
            Err(Flaw::Unsigned) => Err(super::BAD_SUBJECT),
            Err(Flaw::Claim(rule)) => Err(Error::InvalidRequest(rule)),
            Err(Flaw::Unknown(error)) => Err(error),
        }
    }

    /// The user whom the app has named, once somebody may act as that one. What is got for it stands on nothing but the user.
    pub(super) async fn user(&self, Named { id, expires, may_act }: Named) -> Result<Option<Party>, Error> {
        let user = self.oidc.edge.directory.principal(&self.tenant.id, Name::Id(id), 0).await?;
        Ok(user.filter(|user| user.is_live).map(|user| Party {
            user,
            scope: None,
            audience: vec![],
            expires,
            auth_time: None,
            act: None,
            may_act,
            bases: vec![],
        }))
    }
}
