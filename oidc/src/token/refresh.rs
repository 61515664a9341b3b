//! The refresh grant (RFC 6749, section 6; RFC 9700, section 4.14.2): an app gets new tokens, and with them the next refresh token of the
//! same family. A refresh token that is used again ends the family.

use std::{sync::Arc, time::Instant};

use base::explain::explain;
use domain::resource::app::oidc::GrantType;
use edge::trigger::trace_of;
use http::HeaderMap;
use proto::bus::{BeginFamily, InternalOutcome, UseRefreshToken, internal_command::Command};
use view::directory::Tenant;

use super::{
    Tokens,
    login::{App, ENDED, Presented},
};
use crate::{
    Oidc,
    app_login::AppLogin,
    error::Error,
    form::Form,
    refresh_token::{RefreshToken, family_ends},
    revoke::{self, Revocation},
    scope::{self, Scope},
};

const UNKNOWN: Error = Error::InvalidGrant("the refresh token is none of this server, or has expired");
const USED: Error = Error::InvalidGrant("the refresh token was used before; what was got by it has ended");
const OVER: Error =
    Error::InvalidGrant("the refresh token has ended, or its session, or its user has another password");
const NOT_SET_UP: &str = "the app is not set up for the grant type refresh_token";

pub(super) async fn grant(
    oidc: &Oidc,
    tenant: &Arc<Tenant>,
    headers: &HeaderMap,
    form: &Form,
) -> Result<Tokens, Error> {
    let begun = Instant::now();
    let app = App::authenticated(oidc, tenant, headers, form).await?;
    let app = app.permitted(GrantType::RefreshToken, NOT_SET_UP)?;
    let sent = form.get("refresh_token").ok_or(Error::InvalidRequest("refresh_token is missing"))?;
    let token = RefreshToken::open(oidc, tenant, sent).await?.ok_or(UNKNOWN)?;
    if token.logged_in.client_id != app.client.id {
        return Err(Error::InvalidGrant("the refresh token was given to another client"));
    }
    let scope = narrowed(form.get("scope"), &token.logged_in.scope)?;
    let session_seq = oidc.edge.ended.revoked().sequence();
    let RefreshToken { logged_in, grant_id, .. } = &token;
    let presented = Presented { logged_in, scope, grant_id, session_seq, nonce: None };
    // Before the refresh token is used up: if the tokens cannot be made, it stays valid. They are returned only if it
    // may be used.
    let tokens = app.tokens(oidc, tenant, &presented, headers).await?;
    match used(oidc, &token, begun, headers).await? {
        InternalOutcome { reused: true, sequence, .. } => {
            tracing::warn!(
                instance = tenant.id,
                client = app.client.id,
                "a refresh token was used twice: its family ends"
            );
            revoke::wait_until_known(oidc, sequence).await?;
            Err(USED)
        }
        InternalOutcome { generation: 0, .. } => Err(OVER),
        InternalOutcome { generation, .. } => {
            let RefreshToken { logged_in, grant_id, family_ends, .. } = token;
            let next = RefreshToken::of(oidc, &grant_id, generation, logged_in, family_ends);
            Ok(Tokens { refresh_token: Some(next.sealed(oidc).await?), ..tokens })
        }
    }
}

/// Returns the requested part of the granted scope: all of it where none is requested.
fn narrowed<'a>(asked: Option<&'a str>, granted: &'a str) -> Result<&'a str, Error> {
    let Some(asked) = asked else { return Ok(granted) };
    let is_granted = |word: &str| granted.split(' ').any(|other| other == word);
    if asked.split(' ').filter(|word| !word.is_empty()).all(is_granted) {
        return Ok(asked);
    }
    Err(Error::InvalidScope("more is asked for than what the refresh token was given for"))
}

/// Marks a refresh token as used that was sent at a time, if it is the newest of its family. If it was used before, all
/// tokens of the family are revoked.
async fn used(oidc: &Oidc, token: &RefreshToken, sent: Instant, headers: &HeaderMap) -> Result<InternalOutcome, Error> {
    let RefreshToken { logged_in, grant_id, generation, .. } = token;
    let command = Command::UseRefreshToken(UseRefreshToken {
        session_id: logged_in.session_id.clone(),
        generation: *generation,
        checked_at: logged_in.checked_at,
        waited: u64::try_from(sent.elapsed().as_millis()).unwrap_or(u64::MAX),
        reused: Some(Revocation::of_grant(oidc, logged_in, grant_id).command(oidc, &logged_in.instance_id)),
    });
    send(oidc, &logged_in.instance_id, command, headers).await
}

/// A new family without a refresh token.
pub(super) struct Begun {
    generation: u64,
    ends: i64,
}

/// Begins a family, where the app requests a refresh token and may have one. It may be repeated.
pub(super) async fn begin(
    oidc: &Oidc,
    app: &App,
    logged_in: &AppLogin,
    grant_id: &str,
    headers: &HeaderMap,
) -> Result<Option<Begun>, Error> {
    let asks = scope::parse(Some(&logged_in.scope))?.iter().any(|(_, scope)| *scope == Scope::Offline);
    if !asks || !app.settings.allows_grant(GrantType::RefreshToken) {
        return Ok(None);
    }
    let ends = family_ends(oidc, logged_in);
    let AppLogin { user_id, client_id, session_id, .. } = logged_in.clone();
    let family_id = grant_id.to_owned();
    let command = Command::BeginFamily(BeginFamily { family_id, user_id, client_id, session_id, expires_at: ends });
    match send(oidc, &logged_in.instance_id, command, headers).await? {
        InternalOutcome { generation: 0, .. } => Err(ENDED),
        InternalOutcome { generation, .. } => Ok(Some(Begun { generation, ends })),
    }
}

impl Begun {
    /// Adds the first refresh token, which has the scope of the tokens.
    pub(super) async fn first(self, oidc: &Oidc, presented: Presented<'_>, tokens: Tokens) -> Result<Tokens, Error> {
        let logged_in = AppLogin { scope: tokens.scope.clone(), ..presented.logged_in.clone() };
        let first = RefreshToken::of(oidc, presented.grant_id, self.generation, logged_in, self.ends);
        Ok(Tokens { refresh_token: Some(first.sealed(oidc).await?), ..tokens })
    }
}

async fn send(oidc: &Oidc, instance_id: &str, command: Command, headers: &HeaderMap) -> Result<InternalOutcome, Error> {
    oidc.internal.send(instance_id, &trace_of(headers), command).await.map_err(|undone| {
        tracing::warn!(error = %explain(&undone), "a refresh token was neither given nor used");
        Error::Unavailable
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_app_asks_for_as_much_as_it_has_or_for_less() {
        let granted = "openid email offline_access";
        for (asked, got) in [
            (None, Some(granted)),
            (Some("email"), Some("email")),
            (Some("  offline_access  openid "), Some("  offline_access  openid ")),
            (Some("openid profile"), None),
            (Some("openi"), None),
        ] {
            assert_eq!(narrowed(asked, granted).ok(), got, "{asked:?}");
        }
    }
}
