//! The subject and the actor of an exchange: the users of the tokens that an app sends, and what these tokens give.

use std::sync::Arc;

use base::clock;
use domain::resource::{app as resource, user::password::outdated};
use edge::{
    admission::{HeldToken, holder},
    caller::{Actor, Basis},
};
use http::HeaderMap;
use serde::Deserialize;
use serde_json::Value;
use view::directory::{Client, Name, Principal, Tenant};

use super::{App, Type};
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

/// A user whose token an app sends, and what the token gives.
pub(super) struct Party {
    pub(super) user: Arc<Principal>,
    /// The scope of an access token; others have none.
    pub(super) scope: Option<String>,
    /// The audience of the token.
    pub(super) audience: Vec<String>,
    /// When the token expires, in seconds since the Unix epoch.
    pub(super) expires: i64,
    /// When the person authenticated, where the token has that, in seconds since the Unix epoch.
    pub(super) auth_time: Option<i64>,
    /// Who acts by the token.
    pub(super) act: Option<Actor>,
    /// Who may act as the user, where the token names that.
    pub(super) may_act: Option<Value>,
    /// The tokens that those exchanged for it are based on.
    pub(super) bases: Vec<Basis>,
}

/// A user whom the app names, and of whom nothing was read yet.
pub(super) struct UnverifiedUser {
    pub(super) id: String,
    /// When the assertion of the app expires, in seconds since the Unix epoch.
    expires: i64,
    /// Who may act as the user, where the assertion names that.
    pub(super) may_act: Option<Value>,
}

/// A token as it was sent, with its stated type.
pub(super) struct SubmittedToken<'a> {
    kind: Type,
    token: &'a str,
}

impl<'a> SubmittedToken<'a> {
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

    /// Whether the user has not issued or agreed to the token, so that an actor is needed who may act as the user.
    pub(super) fn needs_actor(&self) -> bool {
        matches!(self.kind, Type::Jwt | Type::UserId)
    }
}

/// The claims of an ID token that name its user and login.
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

/// Reads the tokens that an app sends.
pub(super) struct Reading<'a> {
    pub(super) oidc: &'a Oidc,
    pub(super) tenant: &'a Arc<Tenant>,
    pub(super) app: &'a App,
    /// The headers of the request.
    pub(super) headers: &'a HeaderMap,
    /// The sequence of the log `SESSIONS` before anything is read.
    pub(super) session_seq: u64,
}

impl Reading<'_> {
    /// Returns the user of a token, if it is valid for the app; nothing where it is not.
    ///
    /// # Errors
    /// When that cannot be determined.
    pub(super) async fn party(&self, given: &SubmittedToken<'_>, acts: bool) -> Result<Option<Party>, Error> {
        match given.kind {
            Type::Access => self.access(given.token, acts).await,
            Type::Id => self.id(given.token, acts).await,
            Type::Jwt | Type::UserId | Type::Refresh => Ok(None),
        }
    }

    /// Returns the user whom the app names by an assertion or an id; nothing for a token of another type.
    ///
    /// # Errors
    /// When that cannot be determined, or the assertion is not valid.
    pub(super) async fn named(&self, given: &SubmittedToken<'_>) -> Result<Option<UnverifiedUser>, Error> {
        match given.kind {
            Type::Jwt => self.signed(given.token).await,
            Type::UserId => Ok(Some(UnverifiedUser { id: given.token.to_owned(), expires: i64::MAX, may_act: None })),
            Type::Access | Type::Id | Type::Refresh => Ok(None),
        }
    }

    /// Reads an access token for the app or its project. A token with an actor is refused as an actor token, and a
    /// personal access token always.
    async fn access(&self, token: &str, acts: bool) -> Result<Option<Party>, Error> {
        if holder::is_personal(token) {
            return Ok(None);
        }
        let held = holder::held_token(&self.oidc.edge, self.tenant, token, &self.app.client.app.project_id).await?;
        let held = held.filter(|held| is_for(&held.token, &self.app.client) && !(acts && held.token.act.is_some()));
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

    /// Reads an ID token of the app, from a login whose session is live. ID tokens that were exchanged for others have
    /// no session.
    async fn id(&self, token: &str, acts: bool) -> Result<Option<Party>, Error> {
        let (edge, now) = (&self.oidc.edge, clock::now().as_second());
        let is_own = |token: &IdToken| token.azp == self.app.client.id && *token.aud == [self.app.client.id.clone()];
        let is_of_now = |token: &IdToken| token.exp > now && token.iat <= now + CLOCKS;
        let read = holder::issued_now::<IdToken>(edge, self.tenant, token, ID_TYPE);
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
        let user = holder::basis_holder(edge, self.tenant, &basis).await?;
        // `auth_time` is in seconds, so the check may have been up to 999 ms later.
        let checked_at = token.auth_time.unwrap_or_default().saturating_mul(1000).saturating_add(999);
        let user = user.filter(|user| outdated(user.user.password.as_ref(), checked_at).is_none());
        Ok(user.map(|user| Party {
            user,
            scope: None,
            audience: vec![self.app.client.id.clone()],
            expires: token.exp.min(session.expires_at.div_euclid(1000)),
            auth_time: token.auth_time,
            act: None,
            may_act: None,
            bases: vec![basis],
        }))
    }

    /// Reads a JWT that names a user, and that the app has signed recently with a key of its own.
    async fn signed(&self, token: &str) -> Result<Option<UnverifiedUser>, Error> {
        let Some(assertion) = Assertion::read(token) else { return Ok(None) };
        let claims = async {
            let key = assertion.key::<resource::App>(self.oidc, self.tenant).await?;
            if key.holder_id != self.app.client.id {
                return Err(Flaw::Unsigned);
            }
            let Client { id, owner, app, .. } = &*self.app.client;
            let takes_endpoint = app.allow_token_endpoint_audience;
            let by = Signatory { id, name: None, owner, key: &key, takes_endpoint };
            assertion.verify::<resource::App>(self.oidc, self.tenant, &by, Use::Subject).await
        };
        match claims.await {
            Ok(Claims { sub, exp, may_act, .. }) => Ok(Some(UnverifiedUser { id: sub, expires: exp, may_act })),
            Err(Flaw::Unsigned) => Err(super::BAD_SUBJECT),
            Err(Flaw::Claim(rule)) => Err(Error::InvalidRequest(rule)),
            Err(Flaw::Unknown(error)) => Err(error),
        }
    }

    /// Reads the user whom the app has named, once an actor is permitted. The new token is based on no other token.
    pub(super) async fn user(
        &self,
        UnverifiedUser { id, expires, may_act }: UnverifiedUser,
    ) -> Result<Option<Party>, Error> {
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
