//! The pages of somebody who has logged in for no app.

use std::sync::Arc;

use askama::Template;
use axum::{
    extract::{FromRequest, Request, State},
    response::Response,
};
use base::secret::random_secret;
use domain::{context::Owner, setting::login::Login};
use edge::{admission::own_app, operate_session::shows_anything_to};
use http::StatusCode;
use page::{answer::see_other, component::Frame, form::Form};

use super::{
    entry::lead,
    shell::Shell,
    visit::{AccountView, Instead, KnownAccount, Visit, Visitor},
};
use crate::{
    Oidc,
    endpoint::{LOGIN, LOGIN_DONE, OWN_PASSWORD, REQUEST},
    notice::Notice,
};

/// The `state` of a login after which the browser goes on to change the password.
const CHANGES_PASSWORD: &str = "change-password";

#[derive(Template)]
#[template(path = "home.html")]
struct Page<'a> {
    frame: Frame,
    shell: Shell<'a>,
    accounts: Vec<Account>,
    /// Whether one of the accounts may see the pages of operators.
    operates: bool,
    /// The URL at which another account logs in.
    another: String,
}

/// An account, and whether it has a password that can be changed.
struct Account {
    shown: AccountView,
    has_password: bool,
}

/// Sends a browser that comes from an app on; otherwise shows the accounts that are logged in, or begins a login.
pub(super) async fn enter(State(oidc): State<Arc<Oidc>>, request: Request) -> Result<Response, Instead> {
    if Form::of_query(request.uri().query()).get(REQUEST).is_some() {
        return lead(Visit::from_request(request, &oidc).await?).await;
    }
    if oidc.site(request.uri(), request.headers()).is_none() {
        // Login pages are not served here, but the documentation is.
        return Ok(see_other("/docs"));
    }
    let visitor = Visitor::read(&oidc, request).await?;
    let (context, words) = (Owner::instance(&visitor.tenant.id), visitor.in_general());
    let mut known = visitor.accounts().await.map_err(|_| visitor.notice(Notice::AWAY, &words))?;
    known.retain(KnownAccount::is_logged_in);
    if known.is_empty() {
        return Ok(visitor.leave(&login(&visitor, LoginPurpose::Home)));
    }
    let (frame, shell) = Shell::of(&visitor, &words, &context, words.get("home.title").to_owned());
    let account =
        |known: &KnownAccount| Account { shown: known.into(), has_password: visitor.has_password(&known.user) };
    let accounts = known.iter().rev().map(account).collect();
    let another = login(&visitor, LoginPurpose::Another);
    let operates = known.iter().any(|known| shows_anything_to(&known.user, &visitor.tenant.id));
    Ok(visitor.page(StatusCode::OK, &Page { frame, shell, accounts, operates, another }))
}

/// Sends a browser after a login to where the settings say, or to the home page. The code for the platform's own app is
/// not used: the cookie identifies the browser.
pub(super) async fn done(State(oidc): State<Arc<Oidc>>, request: Request) -> Result<Response, Instead> {
    let visitor = Visitor::read(&oidc, request).await?;
    let context = Owner::instance(&visitor.tenant.id);
    match visitor.form.get("error") {
        // A forged link only leads to a page of the person's own.
        None if visitor.form.get("state") == Some(CHANGES_PASSWORD) => Ok(visitor.leave(OWN_PASSWORD)),
        None => {
            let chain = oidc.edge.settings.effective::<Login>(&visitor.tenant.id, &context).chain;
            let elsewhere = chain.resolve(|it| it.default_redirect_uri.as_ref()).value;
            Ok(visitor.leave(if elsewhere.is_empty() { LOGIN } else { elsewhere }))
        }
        Some("access_denied") => Ok(visitor.leave(LOGIN)),
        Some(_) => Err(visitor.notice(Notice::AWAY, &visitor.in_general())),
    }
}

/// The purpose of a login that no app has requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoginPurpose {
    Home,
    /// The home page with another account.
    Another,
    /// To change the password.
    OwnPassword,
}

/// Returns the URL of a login to the platform's own app. The verifier is discarded: the code is never exchanged.
pub(super) fn login(visitor: &Visitor, next: LoginPurpose) -> String {
    let verifier = random_secret();
    let state = (next == LoginPurpose::OwnPassword).then_some(CHANGES_PASSWORD);
    let is_another = next == LoginPurpose::Another;
    let login = own_app::Login { callback: LOGIN_DONE, scope: "openid", verifier: &verifier, state, is_another };
    own_app::login_path(&visitor.oidc.edge, &visitor.tenant, &login)
}
