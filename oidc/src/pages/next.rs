//! How it goes on for an account: back to the app once its session is enough, or to the page that asks for what is missing.

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
    ending::Ending,
    endpoint::LOGIN,
    finish::{self, Lack, Unfinished},
    logged_in::LoggedIn,
    told::Told,
};

/// What there is of an account for what the app asks.
enum Found {
    /// All.
    Enough(LoggedIn),
    /// The person must let the app have it first.
    Unconsented,
    /// The person may not log in with a password, and has nothing else.
    WithoutPasswords,
    Lacks(Lack),
}

/// Leads the browser on with the account of a user. `has_consented` says that this one has just let the app have what it asks for.
pub(super) async fn go_on(visit: &Visit, user_id: &str, has_consented: bool) -> Result<Response, Instead> {
    if visit.visitor.browser.account(user_id).is_none() {
        return Ok(visit.visitor.step(LOGIN));
    }
    let step = |path: &str| Ok(visit.visitor.step_with(path, user_id));
    match found(visit, user_id, has_consented).await? {
        Found::Enough(logged_in) => Ok(done::lead(visit, &finish(visit, logged_in).await?)),
        Found::Unconsented => step("/ui/login/consent"),
        Found::WithoutPasswords => Err(visit.told(Told::NO_PASSWORD)),
        Found::Lacks(Lack::Session | Lack::Check | Lack::Late | Lack::Changed) => step("/ui/login/password"),
        Found::Lacks(Lack::Choice) => step("/ui/login/change"),
        Found::Lacks(Lack::Inactive | Lack::User | Lack::Organization | Lack::Project) => step("/ui/login/refused"),
    }
}

/// Why an account cannot be used for what the app asks, where that is so.
pub(super) async fn lack(visit: &Visit, user_id: &str) -> Result<Option<Lack>, Instead> {
    Ok(match found(visit, user_id, true).await? {
        Found::Lacks(lack) => Some(lack),
        Found::Enough(_) | Found::Unconsented | Found::WithoutPasswords => None,
    })
}

/// Answers an app that wants nobody to be asked, with the account of a user where there is one.
pub(super) async fn silently(visit: &Visit, user_id: Option<&str>) -> Result<Response, Instead> {
    let Some(user_id) = user_id else { return refuse(visit, "login_required", "nobody is logged in here").await };
    let Ok(found) = found(visit, user_id, false).await else { return unavailable(visit).await };
    match found {
        Found::Enough(logged_in) => match finish(visit, logged_in).await {
            Err(_) => unavailable(visit).await,
            Ok(url) => Ok(visit.visitor.leave(&url)),
        },
        Found::Unconsented => refuse(visit, "consent_required", "the person has to be asked").await,
        Found::Lacks(Lack::Session | Lack::Check | Lack::Late | Lack::Changed) => {
            refuse(visit, "login_required", "the person has to log in again").await
        }
        Found::Lacks(_) | Found::WithoutPasswords => {
            refuse(visit, "interaction_required", "the person has to do something first").await
        }
    }
}

/// Tells an app that wants nobody to be asked that it cannot be answered now.
pub(super) async fn unavailable(visit: &Visit) -> Result<Response, Instead> {
    refuse(visit, "temporarily_unavailable", "it is not known at the moment who is logged in here").await
}

async fn found(visit: &Visit, user_id: &str, has_consented: bool) -> Result<Found, Instead> {
    let visitor = &visit.visitor;
    let Some(account) = visitor.browser.account(user_id) else { return Ok(Found::Lacks(Lack::Session)) };
    let shown = (account.token.as_str(), account.seen);
    let (logged_in, user) = match finish::logged_in(&visitor.oidc, &visitor.tenant, &visit.waiting, shown).await {
        Ok(found) => found,
        Err(Unfinished::Lacks(lack)) => return Ok(Found::Lacks(lack)),
        Err(Unfinished::Failed(error)) => return Err(failed(visit, &error)),
    };
    if !visit.visitor.has_passwords(&user.owner) {
        return Ok(Found::WithoutPasswords);
    }
    if is_late(visit, &logged_in, &user) {
        return Ok(Found::Lacks(Lack::Late));
    }
    let is_of_another = visit.app.owner != user.owner && visit.app.id != own_app::CLIENT_ID;
    let has_to_ask = visit.asks("consent") || is_of_another && !has_allowed(visit, user_id);
    Ok(if has_to_ask && !has_consented { Found::Unconsented } else { Found::Enough(logged_in) })
}

fn failed(visit: &Visit, error: &Error) -> Instead {
    tracing::warn!(reason = error.reason().name(), "it is not known whether a session is enough");
    visit.away()
}

/// Whether the password was checked longer ago than the settings of the person let it count.
fn is_late(visit: &Visit, logged_in: &LoggedIn, user: &Arc<Principal>) -> bool {
    let (settings, instance_id) = (&visit.visitor.oidc.edge.settings, &visit.visitor.tenant.id);
    let chain = settings.effective::<Settings>(instance_id, &user.owner).chain;
    let counts: Milliseconds = *chain.resolve(|it| it.password_check_lifetime.as_ref()).value;
    let counts = i64::try_from(counts.whole_seconds()).unwrap_or(i64::MAX).saturating_mul(1000);
    clock::now().as_millisecond().saturating_sub(logged_in.checked_at) > counts
}

/// What a person lets an app have: all of a scope.
pub(super) fn consent(visit: &Visit) -> String {
    let request = &visit.waiting.request;
    let parts: [&[u8]; 3] = [b"consent", request.client_id.as_bytes(), request.scope.as_bytes()];
    URL_SAFE_NO_PAD.encode(&visit.visitor.sealed(&parts)[..12])
}

fn has_allowed(visit: &Visit, user_id: &str) -> bool {
    visit.visitor.browser.has_allowed(user_id, &consent(visit))
}

/// Where the app is answered that somebody has logged in.
async fn finish(visit: &Visit, logged_in: LoggedIn) -> Result<String, Instead> {
    let visitor = &visit.visitor;
    answered(visit, ending(visit).finish(&visitor.oidc, &visitor.tenant, (logged_in, &visitor.headers)).await)
}

fn ending(visit: &Visit) -> Ending<'_> {
    Ending { id: &visit.visitor.request, waiting: &visit.waiting, app: &visit.app }
}

/// Tells the app that nobody logs in, and leads the browser back to it.
pub(super) async fn refuse(visit: &Visit, error: &str, description: &str) -> Result<Response, Instead> {
    let visitor = &visit.visitor;
    let ended = ending(visit).refuse(&visitor.oidc, &visitor.tenant, (error, description)).await;
    Ok(visit.visitor.leave(&answered(visit, ended)?))
}

/// Where the app is answered, if the request was not ended before.
fn answered(visit: &Visit, ended: Result<Option<String>, crate::error::Error>) -> Result<String, Instead> {
    ended.map_err(|_| visit.away())?.ok_or_else(|| visit.told(Told::EXPIRED))
}
