//! Tokens for a person who has logged in to an app, by a code, by a refresh token, or from the authorization endpoint.

use std::sync::Arc;

use base::{clock, fault};
use domain::{
    resource::{
        app::oidc::{GrantType, Oidc as Settings},
        user::{User, password::outdated},
    },
    standard::Resource,
};
use http::HeaderMap;
use view::directory::{Client, Name, Tenant};

use super::{Tokens, of_user::Issuance};
use crate::{
    Oidc,
    app_login::AppLogin,
    client,
    error::Error,
    form::Form,
    recipient::{Login, Recipient},
};

/// The error where no tokens are issued any more.
pub(super) const ENDED: Error = Error::InvalidGrant("the session has ended, or the user is not active any more");

/// An app that requests tokens for people, and its settings.
pub(super) struct App {
    pub(super) client: Arc<Client>,
    pub(super) settings: Settings,
    /// Whether the app may refresh its tokens.
    is_refreshable: bool,
    /// Whether the app gets an access token in addition to the ID token.
    has_access_token: bool,
}

/// What an app presents to get tokens.
pub(super) struct Presented<'a> {
    pub(super) logged_in: &'a AppLogin,
    /// The scope of the tokens.
    pub(super) scope: &'a str,
    /// The id of the code or request that tokens are issued for.
    pub(super) grant_id: &'a str,
    /// The sequence of the log `SESSIONS` before the code or token was read.
    pub(super) session_seq: u64,
    /// The value that the ID token repeats.
    pub(super) nonce: Option<&'a str>,
}

impl App {
    /// Returns the app that has authenticated, whatever grant types it may use.
    pub(super) async fn authenticated(
        oidc: &Oidc,
        tenant: &Tenant,
        headers: &HeaderMap,
        form: &Form,
    ) -> Result<Self, Error> {
        let client = client::of_login(oidc, tenant, headers, form).await?;
        let settings = client.app.config.oidc().ok_or(Error::InvalidClient)?.clone();
        let is_refreshable = settings.allows_grant(GrantType::RefreshToken);
        Ok(Self { client, settings, is_refreshable, has_access_token: true })
    }

    /// Returns the app, if it may use a grant type.
    pub(super) fn permitted(self, grant: GrantType, refusal: &'static str) -> Result<Self, Error> {
        if self.settings.allows_grant(grant) { Ok(self) } else { Err(Error::UnauthorizedClient(refusal)) }
    }

    /// Makes the app that gets tokens from the authorization endpoint.
    pub(super) fn at_login(client: Arc<Client>, settings: Settings, has_access_token: bool) -> Self {
        Self { client, settings, is_refreshable: false, has_access_token }
    }

    /// Issues the tokens of a login.
    pub(super) async fn tokens(
        &self,
        oidc: &Oidc,
        tenant: &Arc<Tenant>,
        presented: &Presented<'_>,
        headers: &HeaderMap,
    ) -> Result<Tokens, Error> {
        let logged_in = presented.logged_in;
        let is_over = logged_in.session_ends <= clock::now().as_millisecond();
        if is_over || oidc.edge.ended.revoked().has_session_ended(&tenant.id, &logged_in.session_id) {
            return Err(ENDED);
        }
        let user = Name::Id(logged_in.user_id.clone());
        let user = oidc.edge.directory.principal(&tenant.id, user, logged_in.seen).await?.ok_or(ENDED)?;
        if oidc.edge.ended.is_dead(&tenant.id, &user.owner, &[(User::NAME, &user.id)], logged_in.seen) {
            return Err(ENDED);
        }
        fault::point("tokens.user_known");
        if let Some(why) = outdated(user.user.password.as_ref(), logged_in.checked_at) {
            return Err(Error::InvalidGrant(why.message()));
        }
        let recipient = Recipient::of_app(&self.client, &self.settings, self.login(presented));
        // The error of an inactive user would mean here that the client had not authenticated.
        let issuance = Issuance { oidc, recipient: &recipient, headers };
        let issued = issuance.tokens(tenant, user, Some(presented.scope)).await;
        let (tokens, subject) = issued.map_err(|error| if error == Error::InvalidClient { ENDED } else { error })?;
        // The tokens carry a newer sequence than that of the first check of the user.
        if subject.user.user.has_ended_sessions_since(logged_in.seen) {
            return Err(ENDED);
        }
        Ok(tokens)
    }

    fn login(&self, Presented { logged_in, grant_id, session_seq, nonce, .. }: &Presented<'_>) -> Login {
        Login {
            project_id: self.client.app.project_id.clone(),
            owner: self.client.owner.clone(),
            session_seq: *session_seq,
            assertions: self.settings.assertions,
            session_id: Some(logged_in.session_id.clone()),
            grant_id: Some((*grant_id).to_owned()),
            is_refreshable: self.is_refreshable,
            has_access_token: self.has_access_token,
            auth_time: Some(logged_in.checked_at / 1000),
            ends: logged_in.session_ends / 1000,
            nonce: nonce.map(str::to_owned),
            exchange: None,
        }
    }
}
