//! Whether what was checked in a session is enough for what an app has asked for.

use std::sync::Arc;

use domain::{
    rejection::Rejection,
    resource::{session::Session, user::password::outdated},
};
use edge::{error::Error, refusal::read_model};
use view::{
    directory::{Name, Principal, Tenant},
    rows::Found,
};

use crate::{
    Oidc, audience,
    auth_request::{AuthRequest, Waiting},
    logged_in::LoggedIn,
    scope, session,
    subject::Subject,
};

/// That somebody has logged in, for a session that is shown by its newest token.
///
/// # Errors
/// Where there is no such session, or more has to be checked, or the app or its project does not let the user in.
pub(crate) async fn logged_in(
    oidc: &Oidc,
    tenant: &Arc<Tenant>,
    (waiting, token): (&Waiting, &str),
) -> Result<LoggedIn, Error> {
    let found = session::shown(oidc, tenant, token).await?;
    let session = found.ok_or_else(|| {
        Rejection::invalid("finish.session_token", "must be the newest token of a session that has not ended")
    })?;
    let checked = checked(waiting, &session)?;
    let user = oidc.edge.directory.principal(&tenant.id, Name::Id(checked.user_id.to_owned()), checked.seen).await;
    let user = user.map_err(read_model)?.ok_or(INACTIVE)?;
    if let Some(why) = outdated(user.user.password.as_ref(), checked.at) {
        return Err(Rejection::Precondition(why).into());
    }
    let seen = admitted(oidc, (tenant, user), &waiting.request).await?;
    Ok(LoggedIn {
        instance_id: tenant.id.clone(),
        client_id: waiting.request.client_id.clone(),
        scope: waiting.request.scope.clone(),
        user_id: checked.user_id.to_owned(),
        seen,
        session_ends: session.state.expires_at,
        checked_at: checked.at,
        session_id: session.id,
    })
}

const INACTIVE: Rejection =
    Rejection::Precondition("the user is inactive or locked, or the organization of the user is inactive");

/// What was checked in a session.
struct Checked<'a> {
    user_id: &'a str,
    /// The sequence of the log that was known of the user then.
    seen: u64,
    /// When, in milliseconds since the Unix epoch.
    at: i64,
}

/// Whether the session is of the right person, and that was checked lately enough.
fn checked<'a>(waiting: &Waiting, session: &'a Found<Session>) -> Result<Checked<'a>, Rejection> {
    let Session { user: Some(user), password_checked_at: Some(at), .. } = &session.state else {
        return Err(Rejection::Precondition("the session lacks a check: of the user, or of the password"));
    };
    if waiting.checked_since().is_some_and(|since| *at < since) {
        let message = "the password was checked too long ago for what the app asks: check it again";
        return Err(Rejection::Precondition(message));
    }
    let hinted = waiting.request.hint_user_id.as_ref();
    if hinted.is_some_and(|hinted| *hinted != user.id) {
        return Err(Rejection::Precondition("the session is of another user than the app asks for"));
    }
    Ok(Checked { user_id: &user.id, seen: user.seen, at: *at })
}

/// Whether the user is let in: by the organization and by the projects that the app asks for. Gives the sequence of which that is true.
async fn admitted(
    oidc: &Oidc,
    (tenant, user): (&Arc<Tenant>, Arc<Principal>),
    request: &AuthRequest,
) -> Result<u64, Error> {
    let known = scope::parse(Some(&request.scope)).unwrap_or_default();
    let named = known.iter().filter_map(|(_, scope)| audience::of(tenant, scope));
    let named: Vec<&str> = named.chain([request.project_id.as_str()]).collect();
    let subject = Subject::read(oidc, (tenant.clone(), user), &named).await.map_err(|error| match error {
        crate::error::Error::InvalidClient => INACTIVE.into(),
        error => Error::from(error),
    })?;
    let Subject { user, grants, projects, sequence, .. } = &subject;
    if request.organization_id.as_ref().is_some_and(|id| *id != user.owner.id) {
        let message = "the user is of another organization than the app asks for";
        return Err(Rejection::Precondition(message).into());
    }
    if projects.values().any(|project| !project.admits(grants)) {
        let message = "a project that the app asks for does not admit the user";
        return Err(Rejection::Precondition(message).into());
    }
    Ok(*sequence)
}
