//! The next step for an account: back to the app once its session is enough, or to the page that asks for what is
//! missing.

use std::sync::Arc;

use axum::response::Response;
use base::clock;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use domain::{setting::login::Login as Settings, settings::Milliseconds};
use edge::{admission::own_app, error::Error};
use view::directory::Principal;

use super::{
    done,
    visit::{Instead, Visit},
};
use crate::{
    app_login::AppLogin,
    ending::FinishedRequest,
    endpoint::LOGIN,
    finish::{self, Lack, Unfinished},
    notice::Notice,
};

/// Whether an account satisfies the request of the app.
enum AccountReadiness {
    /// Nothing is missing.
    Enough(AppLogin),
    /// The person must consent first.
    Unconsented,
    /// The person may not log in with a password, and has no other way.
    WithoutPasswords,
    Lacks(Lack),
}

/// Sends the browser to the next step for the account of a user. `has_consented` means that the user has just consented
/// to what the app requests.
pub(super) async fn go_on(visit: &Visit, user_id: &str, has_consented: bool) -> Result<Response, Instead> {
    if visit.visitor.browser.account(user_id).is_none() {
        return Ok(visit.visitor.step(LOGIN));
    }
    let step = |path: &str| Ok(visit.visitor.step_with(path, user_id));
    match readiness(visit, user_id, has_consented).await? {
        AccountReadiness::Enough(logged_in) => Ok(done::lead(visit, &finish(visit, logged_in).await?)),
        AccountReadiness::Unconsented => step("/ui/login/consent"),
        AccountReadiness::WithoutPasswords => Err(visit.notice(Notice::NO_PASSWORD)),
        AccountReadiness::Lacks(Lack::Session | Lack::Check | Lack::Late | Lack::Changed) => step("/ui/login/password"),
        AccountReadiness::Lacks(Lack::Choice) => step("/ui/login/change"),
        AccountReadiness::Lacks(Lack::Inactive | Lack::User | Lack::Organization | Lack::Project) => {
            step("/ui/login/refused")
        }
    }
}

/// Returns why an account cannot be used for the request, where that is so.
pub(super) async fn lack(visit: &Visit, user_id: &str) -> Result<Option<Lack>, Instead> {
    Ok(match readiness(visit, user_id, true).await? {
        AccountReadiness::Lacks(lack) => Some(lack),
        AccountReadiness::Enough(_) | AccountReadiness::Unconsented | AccountReadiness::WithoutPasswords => None,
    })
}

/// Answers a silent request (`prompt=none`) with the account of a user, where there is one.
pub(super) async fn silently(visit: &Visit, user_id: Option<&str>) -> Result<Response, Instead> {
    let Some(user_id) = user_id else { return refuse(visit, "login_required", "nobody is logged in here").await };
    let Ok(found) = readiness(visit, user_id, false).await else { return unavailable(visit).await };
    match found {
        AccountReadiness::Enough(logged_in) => match finish(visit, logged_in).await {
            Err(_) => unavailable(visit).await,
            Ok(url) => Ok(visit.visitor.leave(&url)),
        },
        AccountReadiness::Unconsented => refuse(visit, "consent_required", "the person has to be asked").await,
        AccountReadiness::Lacks(Lack::Session | Lack::Check | Lack::Late | Lack::Changed) => {
            refuse(visit, "login_required", "the person has to log in again").await
        }
        AccountReadiness::Lacks(_) | AccountReadiness::WithoutPasswords => {
            refuse(visit, "interaction_required", "the person has to do something first").await
        }
    }
}

/// Answers a silent request (`prompt=none`) that it cannot be answered at the moment.
pub(super) async fn unavailable(visit: &Visit) -> Result<Response, Instead> {
    refuse(visit, "temporarily_unavailable", "it is not known at the moment who is logged in here").await
}

async fn readiness(visit: &Visit, user_id: &str, has_consented: bool) -> Result<AccountReadiness, Instead> {
    let visitor = &visit.visitor;
    let Some(account) = visitor.browser.account(user_id) else { return Ok(AccountReadiness::Lacks(Lack::Session)) };
    let found = finish::logged_in(&visitor.oidc, &visitor.tenant, &visit.waiting, &account.token, account.seen).await;
    let (logged_in, user) = match found {
        Ok(found) => found,
        Err(Unfinished::Lacks(lack)) => return Ok(AccountReadiness::Lacks(lack)),
        Err(Unfinished::Failed(error)) => return Err(failed(visit, &error)),
    };
    if !visit.visitor.has_passwords(&user.owner) {
        return Ok(AccountReadiness::WithoutPasswords);
    }
    if is_late(visit, &logged_in, &user) {
        return Ok(AccountReadiness::Lacks(Lack::Late));
    }
    let is_of_another = visit.app.owner != user.owner && visit.app.id != own_app::CLIENT_ID;
    let has_to_ask = visit.asks("consent") || is_of_another && !has_allowed(visit, user_id);
    Ok(if has_to_ask && !has_consented { AccountReadiness::Unconsented } else { AccountReadiness::Enough(logged_in) })
}

fn failed(visit: &Visit, error: &Error) -> Instead {
    tracing::warn!(reason = error.reason().name(), "it is not known whether a session is enough");
    visit.away()
}

/// Whether the password was checked longer ago than the settings of the person's organization allow.
fn is_late(visit: &Visit, logged_in: &AppLogin, user: &Arc<Principal>) -> bool {
    let (settings, instance_id) = (&visit.visitor.oidc.edge.settings, &visit.visitor.tenant.id);
    let chain = settings.effective::<Settings>(instance_id, &user.owner).chain;
    let counts: Milliseconds = *chain.resolve(|it| it.password_check_lifetime.as_ref()).value;
    let counts = i64::try_from(counts.whole_seconds()).unwrap_or(i64::MAX).saturating_mul(1000);
    clock::now().as_millisecond().saturating_sub(logged_in.checked_at) > counts
}

/// Returns the digest of a consent: the app and all requested scopes.
pub(super) fn consent(visit: &Visit) -> String {
    let request = &visit.waiting.request;
    let parts: [&[u8]; 3] = [b"consent", request.client_id.as_bytes(), request.scope.as_bytes()];
    URL_SAFE_NO_PAD.encode(&visit.visitor.sealed(&parts)[..12])
}

fn has_allowed(visit: &Visit, user_id: &str) -> bool {
    visit.visitor.browser.has_allowed(user_id, &consent(visit))
}

/// Finishes the request, and returns the URL that answers the app.
async fn finish(visit: &Visit, logged_in: AppLogin) -> Result<String, Instead> {
    let visitor = &visit.visitor;
    answered(visit, ending(visit).finish(&visitor.oidc, &visitor.tenant, logged_in, &visitor.headers).await)
}

fn ending(visit: &Visit) -> FinishedRequest<'_> {
    FinishedRequest { id: &visit.visitor.request, waiting: &visit.waiting, app: &visit.app }
}

/// Answers the app with an error, and sends the browser back to it.
pub(super) async fn refuse(visit: &Visit, error: &str, description: &str) -> Result<Response, Instead> {
    let visitor = &visit.visitor;
    let ended = ending(visit).refuse(&visitor.oidc, &visitor.tenant, error, description).await;
    Ok(visit.visitor.leave(&answered(visit, ended)?))
}

/// Returns the URL that answers the app, if the request had not ended before.
fn answered(visit: &Visit, ended: Result<Option<String>, crate::error::Error>) -> Result<String, Instead> {
    ended.map_err(|_| visit.away())?.ok_or_else(|| visit.notice(Notice::EXPIRED))
}
