//! The pages at `/ui/login` and `/ui/logout`: who logs in here, and how that one is checked.
//!
//! The pages are plain forms, and this node keeps nothing of them: what an app asks for waits as an authorization request, which each page
//! names, and which sessions a browser has is in its sealed cookie. [`entry`] leads to the first page that there is something to ask on, each
//! page to the next, and [`next`] back to the app once the session is enough.

mod accounts;
mod browser;
mod change;
mod consent;
mod entry;
mod logout;
mod look;
mod name;
mod next;
mod password;
mod refused;
mod shell;
mod visit;

use std::sync::{Arc, LazyLock};

use axum::{
    Router,
    middleware::from_fn_with_state,
    routing::{get, post},
};
use edge::observe::{Meter, observed};
use page::{
    asset::{self, Asset},
    component::ICON,
    theme,
};

use crate::Oidc;

/// Where people log in.
pub(crate) const LOGIN: &str = "/ui/login";
/// Where they log out.
pub(crate) const LOGOUT: &str = "/ui/logout";
/// What names the authorization request in queries and forms.
pub(crate) const REQUEST: &str = "authRequest";
/// Where the files of the pages are.
const FOLDER: &str = "/ui/login/static/";

/// The files of the pages.
pub(crate) struct Files {
    /// The stylesheet of pages that belong to no instance.
    pub(crate) stylesheet: Asset,
    pub(crate) icon: Asset,
    script: Asset,
}

pub(crate) static FILES: LazyLock<Files> = LazyLock::new(|| Files {
    stylesheet: Asset::new(FOLDER, "page.css", theme::built_in()),
    icon: Asset::new(FOLDER, "icon.svg", ICON),
    script: Asset::new(FOLDER, "login.js", include_str!("../assets/login.js")),
});

/// The pages and their files.
pub(crate) fn routes(oidc: Arc<Oidc>) -> Router {
    let pages = Router::new()
        .route(LOGIN, get(entry::lead))
        .route("/ui/login/accounts", get(accounts::show).post(accounts::choose))
        .route("/ui/login/remove", get(accounts::removal).post(accounts::remove))
        .route("/ui/login/name", get(name::show).post(name::take))
        .route("/ui/login/password", get(password::show).post(password::check))
        .route("/ui/login/change", get(change::show).post(change::change))
        .route("/ui/login/consent", get(consent::show).post(consent::allow))
        .route("/ui/login/refused", get(refused::show))
        .route("/ui/login/cancel", post(refused::cancel))
        .route(LOGOUT, get(logout::show).post(logout::sign_out))
        .with_state(oidc);
    let theme = Router::new().route(look::ROUTE, get(look::stylesheet));
    let files = asset::routes(&[FILES.stylesheet.clone(), FILES.icon.clone(), FILES.script.clone()]);
    pages.merge(theme).merge(files).layer(from_fn_with_state(Arc::new(Meter::new("none", "login")), observed))
}
