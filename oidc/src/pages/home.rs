//! Who has logged in for no app: what there is for that one, and how it goes on.

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
    visit::{Instead, KnownAccount, Shown, Visit, Visitor},
};
use crate::{
    Oidc,
    endpoint::{LOGIN, LOGIN_DONE, OWN_PASSWORD, REQUEST},
    told::Told,
};

/// What comes back with a browser that goes on to change the password.
const CHANGES_PASSWORD: &str = "change-password";

#[derive(Template)]
#[template(path = "home.html")]
struct Page<'a> {
    frame: Frame,
    shell: Shell<'a>,
    accounts: Vec<Account>,
    /// Whether one of them may see the pages of operators.
    operates: bool,
    /// Where another one logs in.
    another: String,
}

/// An account, and whether it has a password that can be changed.
struct Account {
    shown: Shown,
    has_password: bool,
}

/// Leads a browser on that an app has sent; shows any other one who is logged in there, or has somebody log in.
pub(super) async fn enter(State(oidc): State<Arc<Oidc>>, request: Request) -> Result<Response, Instead> {
    if Form::of_query(request.uri().query()).get(REQUEST).is_some() {
        return lead(Visit::from_request(request, &oidc).await?).await;
    }
    if oidc.site(request.uri(), request.headers()).is_none() {
        // There are no pages to log in on, and what is for everybody is not among them.
        return Ok(see_other("/docs"));
    }
    let visitor = Visitor::read(&oidc, request).await?;
    let (context, words) = (Owner::instance(&visitor.tenant.id), visitor.in_general());
    let mut known = visitor.accounts().await.map_err(|_| visitor.told(Told::AWAY, &words))?;
    known.retain(KnownAccount::is_logged_in);
    if known.is_empty() {
        return Ok(visitor.leave(&login(&visitor, Next::Home)));
    }
    let (frame, shell) = Shell::of(&visitor, (&words, &context), words.get("home.title").to_owned());
    let account =
        |known: &KnownAccount| Account { shown: known.into(), has_password: visitor.has_password(&known.user) };
    let accounts = known.iter().rev().map(account).collect();
    let another = login(&visitor, Next::Another);
    let operates = known.iter().any(|known| shows_anything_to(&known.user, &visitor.tenant.id));
    Ok(visitor.page(StatusCode::OK, &Page { frame, shell, accounts, operates, another }))
}

/// Takes who has logged in to where the settings say, or to what there is. What the platform's own app was answered is of no use to
/// anybody: the browser knows.
pub(super) async fn done(State(oidc): State<Arc<Oidc>>, request: Request) -> Result<Response, Instead> {
    let visitor = Visitor::read(&oidc, request).await?;
    let context = Owner::instance(&visitor.tenant.id);
    match visitor.form.get("error") {
        // Whoever makes such a link has the person see that page.
        None if visitor.form.get("state") == Some(CHANGES_PASSWORD) => Ok(visitor.leave(OWN_PASSWORD)),
        None => {
            let chain = oidc.edge.settings.effective::<Login>(&visitor.tenant.id, &context).chain;
            let elsewhere = chain.resolve(|it| it.default_redirect_uri.as_ref()).value;
            Ok(visitor.leave(if elsewhere.is_empty() { LOGIN } else { elsewhere }))
        }
        Some("access_denied") => Ok(visitor.leave(LOGIN)),
        Some(_) => Err(visitor.told(Told::AWAY, &visitor.in_general())),
    }
}

/// What somebody logs in for, for whom no app has asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    Home,
    /// The same with another account.
    Another,
    /// To change the password.
    OwnPassword,
}

/// Where somebody logs in to the platform's own app. Nobody has the verifier: the code is not taken up.
pub(super) fn login(visitor: &Visitor, next: Next) -> String {
    let verifier = random_secret();
    let state = (next == Next::OwnPassword).then_some(CHANGES_PASSWORD);
    let is_another = next == Next::Another;
    let login = own_app::Login { callback: LOGIN_DONE, scope: "openid", verifier: &verifier, state, is_another };
    visitor.oidc.edge.login(&visitor.tenant, &login)
}
