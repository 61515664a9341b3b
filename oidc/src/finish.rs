//! Checks whether a session satisfies an authorization request, and names what is missing otherwise.

use std::sync::Arc;

use base::fault;
use domain::{
    rejection::Rejection,
    resource::{
        session::Session,
        user::password::{Outdated, outdated},
    },
};
use edge::{error::Error, refusal::read_model};
use view::{
    directory::{Name, Principal, Tenant},
    rows::StoredResource,
};

use crate::{
    Oidc,
    app_login::AppLogin,
    audience,
    auth_request::{AuthRequest, PendingRequest},
    catch_up, scope, session,
    subject::Subject,
};

/// Why a session is not enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lack {
    /// The session has ended, or the token is not its newest.
    Session,
    /// The user or the password was not checked in the session.
    Check,
    /// The password was checked too long ago.
    Late,
    /// The password has been changed since it was checked.
    Changed,
    /// The person must choose another password.
    Choice,
    /// The person may not log in now.
    Inactive,
    /// The app asks for somebody else.
    User,
    /// The app asks for people of another organization.
    Organization,
    /// A project does not let the person in.
    Project,
}

impl From<Lack> for Rejection {
    fn from(lack: Lack) -> Self {
        let message = match lack {
            Lack::Session => {
                let rule = "must be the newest token of a session that has not ended";
                return Self::invalid("finish.session_token", rule);
            }
            Lack::Check => "the session lacks a check: of the user, or of the password",
            Lack::Late => "the password was checked too long ago for what the app asks: check it again",
            Lack::Changed => Outdated::Changed.message(),
            Lack::Choice => Outdated::MustChoose.message(),
            Lack::Inactive => "the user is inactive or locked, or the organization of the user is inactive",
            Lack::User => "the session is of another user than the app asks for",
            Lack::Organization => "the user is of another organization than the app asks for",
            Lack::Project => "a project that the app asks for does not admit the user",
        };
        Self::Precondition(message)
    }
}

/// Why a login is not complete.
pub(crate) enum Unfinished {
    /// Something is missing.
    Lacks(Lack),
    /// The check has failed.
    Failed(Error),
}

impl From<Lack> for Unfinished {
    fn from(lack: Lack) -> Self {
        Self::Lacks(lack)
    }
}

impl From<Error> for Unfinished {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<crate::error::Error> for Unfinished {
    fn from(error: crate::error::Error) -> Self {
        Self::Failed(error.into())
    }
}

impl From<Unfinished> for Error {
    fn from(unfinished: Unfinished) -> Self {
        match unfinished {
            Unfinished::Lacks(lack) => Rejection::from(lack).into(),
            Unfinished::Failed(error) => error,
        }
    }
}

/// Returns the login and the user of a session, which is given by its newest token, as of a sequence or later.
///
/// # Errors
/// Where there is no such session, more has to be checked, or the app or its project does not admit the user.
pub(crate) async fn logged_in(
    oidc: &Oidc,
    tenant: &Arc<Tenant>,
    waiting: &PendingRequest,
    token: &str,
    seen: u64,
) -> Result<(AppLogin, Arc<Principal>), Unfinished> {
    let session = session::session_by_token(oidc, tenant, token).await?.ok_or(Lack::Session)?;
    fault::point("finish.session_shown");
    let checked = checked(waiting, &session)?;
    let seen = checked.seen.max(seen);
    catch_up::as_of(oidc, seen).await?;
    let user = oidc.edge.directory.principal(&tenant.id, Name::Id(checked.user_id.to_owned()), seen).await;
    let user = user.map_err(read_model)?.ok_or(Lack::Inactive)?;
    match outdated(user.user.password.as_ref(), checked.at) {
        None => {}
        Some(Outdated::MustChoose) => return Err(Lack::Choice.into()),
        Some(Outdated::Changed) => return Err(Lack::Changed.into()),
    }
    let admitted = admitted(oidc, tenant, user.clone(), &waiting.request).await?;
    // Sessions of the user may have ended since this one was read.
    if admitted.user.user.has_ended_sessions_since(checked.seen) {
        return Err(Lack::Session.into());
    }
    let logged_in = AppLogin {
        instance_id: tenant.id.clone(),
        client_id: waiting.request.client_id.clone(),
        scope: waiting.request.scope.clone(),
        user_id: checked.user_id.to_owned(),
        seen: admitted.sequence,
        session_ends: session.state.expires_at,
        checked_at: checked.at,
        session_id: session.id,
    };
    Ok((logged_in, user))
}

/// The checks of a session.
struct Checked<'a> {
    user_id: &'a str,
    /// The sequence of the log as of which the user was checked.
    seen: u64,
    /// When the password was checked, in milliseconds since the Unix epoch.
    at: i64,
}

/// Returns the checks of a session, if it is of the requested user and was checked recently enough.
fn checked<'a>(waiting: &PendingRequest, session: &'a StoredResource<Session>) -> Result<Checked<'a>, Lack> {
    let Session { user: Some(user), password_checked_at: Some(at), .. } = &session.state else {
        return Err(Lack::Check);
    };
    if waiting.checked_since().is_some_and(|since| *at < since) {
        return Err(Lack::Late);
    }
    let hinted = waiting.request.hint_user_id.as_ref();
    if hinted.is_some_and(|hinted| *hinted != user.id) {
        return Err(Lack::User);
    }
    Ok(Checked { user_id: &user.id, seen: user.seen, at: *at })
}

/// Returns the user with grants and projects, if the requested organization and projects admit the user.
async fn admitted(
    oidc: &Oidc,
    tenant: &Arc<Tenant>,
    user: Arc<Principal>,
    request: &AuthRequest,
) -> Result<Subject, Unfinished> {
    let known = scope::parse(Some(&request.scope)).unwrap_or_default();
    let named = known.iter().filter_map(|(_, scope)| audience::of(tenant, scope));
    let named: Vec<&str> = named.chain([request.project_id.as_str()]).collect();
    let subject = Subject::read(oidc, tenant.clone(), user, &named).await.map_err(|error| match error {
        crate::error::Error::InvalidClient => Unfinished::Lacks(Lack::Inactive),
        error => error.into(),
    })?;
    let Subject { user, grants, projects, .. } = &subject;
    if request.organization_id.as_ref().is_some_and(|id| *id != user.owner.id) {
        return Err(Lack::Organization.into());
    }
    if projects.values().any(|project| !project.admits(grants)) {
        return Err(Lack::Project.into());
    }
    Ok(subject)
}
