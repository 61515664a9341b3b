//! The pages at `/ui/login` and `/ui/logout`, on which people log in and out.
//!
//! The pages are plain forms, and this node stores nothing of them: a pending authorization request, which each page
//! names, holds what an app has requested, and a sealed cookie names the sessions of a browser. [`home`] is where
//! everybody begins, [`entry`] leads to the first page that has to ask something, each page to the next, and [`next`]
//! back to the app once the session is enough.

mod accounts;
mod answer;
mod appearance;
mod brand;
mod browser;
mod change;
mod consent;
mod done;
mod entry;
mod hidden_domain;
mod home;
mod logout;
mod name;
mod new_password;
mod next;
mod operate;
mod own_password;
mod password;
mod person;
mod refused;
mod register;
mod shell;
mod user_agent;
mod visit;

pub(crate) use browser::is_signed_in_to;

use std::sync::Arc;

use axum::{
    Router,
    middleware::from_fn_with_state,
    routing::{get, post},
};
use edge::observe::{Meter, observed};
use page::asset;

use crate::{
    Oidc,
    endpoint::{ANSWER, LOGIN, LOGIN_DONE, LOGOUT, OPERATE_DONE, OWN_PASSWORD, WELL_KNOWN_PASSWORD},
    files::FILES,
    uploads,
};

/// Returns the router of the pages and their files.
pub(crate) fn routes(oidc: Arc<Oidc>) -> Router {
    let pages = Router::new()
        .route(LOGIN, get(home::enter))
        .route(LOGIN_DONE, get(home::done))
        .route(OPERATE_DONE, get(operate::begin))
        .route("/ui/login/accounts", get(accounts::show).post(accounts::choose))
        .route("/ui/login/remove", get(accounts::removal).post(accounts::remove))
        .route("/ui/login/name", get(name::show).post(name::take))
        .route("/ui/login/password", get(password::show).post(password::check))
        .route("/ui/login/register", get(register::show).post(register::register))
        .route("/ui/login/change", get(change::show).post(change::change))
        .route(OWN_PASSWORD, get(own_password::show).post(own_password::change))
        .route(WELL_KNOWN_PASSWORD, get(own_password::lead))
        .route("/ui/login/consent", get(consent::show).post(consent::allow))
        .route("/ui/login/refused", get(refused::show))
        .route("/ui/login/cancel", post(refused::cancel))
        .route(ANSWER, get(answer::show))
        .route(uploads::ROUTE, get(uploads::show))
        .route(LOGOUT, get(logout::show).post(logout::sign_out))
        .with_state(oidc);
    let theme =
        Router::new().route(appearance::ROUTE, get(appearance::stylesheet)).route(brand::FONT_ROUTE, get(brand::font));
    let files = [&FILES.stylesheet, &FILES.icon, &FILES.script, &FILES.sends].map(Clone::clone);
    let files = asset::routes(&files);
    pages.merge(theme).merge(files).layer(from_fn_with_state(Arc::new(Meter::new("none", "login")), observed))
}
