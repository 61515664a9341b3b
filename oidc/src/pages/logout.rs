//! The page for signing out of all accounts of a browser, where no app has named a session, or one of another browser.
//! Any page can send a browser here, so the person is asked.

use std::sync::Arc;

use askama::Template;
use axum::{
    extract::{Request, State},
    response::Response,
};
use domain::context::Owner;
use edge::{secret_token::SESSION, trigger::trace_of};
use http::StatusCode;
use page::component::Frame;
use proto::bus::{EndSession, internal_command::Command};

use super::{
    browser::{Account, Browser},
    shell::Shell,
    visit::{AccountView, Instead, Visitor},
};
use crate::{
    Oidc,
    after_logout::{self, AfterLogout},
    endpoint::LOGOUT,
    error::Error,
    hinted::{self, Hinted},
    notice::Notice,
    revoke,
    words::Words,
};

/// The parameters that are passed on until the person has answered.
const ALONG: [&str; 4] = {
    let [client_id, uri, state] = after_logout::PARAMETERS;
    [client_id, uri, state, hinted::PARAMETER]
};

#[derive(Template)]
#[template(path = "logout.html")]
struct Page<'a> {
    frame: Frame,
    shell: Shell<'a>,
    accounts: Vec<AccountView>,
    along: Vec<(&'static str, &'a str)>,
    /// The URL that the browser goes on to without signing out.
    stay: Option<String>,
}

/// Asks whether the person signs out.
pub(super) async fn show(State(oidc): State<Arc<Oidc>>, request: Request) -> Result<Response, Instead> {
    let visitor = Visitor::read(&oidc, request).await?;
    let (context, words) = instance_words(&visitor);
    let next = next_of(&visitor, &words).await?;
    let mut hinted = hinted_of(&visitor, &words).await?;
    let unknown = |_| visitor.notice(Notice::MAYBE_SIGNED_OUT, &words);
    let known = visitor.accounts().await.map_err(unknown)?;
    let is_it = |hinted: &Hinted| known.iter().any(|known| known.account.session_id() == Some(hinted.sid.as_str()));
    // No question is needed: an app has named the session, and the page "signed out" will be true for this browser.
    if let Some(hinted) = hinted.take_if(|hinted| known.is_empty() || is_it(hinted)) {
        hinted.end(&visitor.oidc, &visitor.tenant, &visitor.headers).await.map_err(unknown)?;
        return Ok(over(&visitor, next, &words));
    }
    if known.is_empty() {
        return Ok(over(&visitor, next, &words));
    }
    let (frame, shell) = Shell::of(&visitor, &words, &context, words.get("logout.title").to_owned());
    let accounts = known.iter().rev().map(AccountView::from).collect();
    let along = visitor.sent(&ALONG);
    Ok(visitor.page(StatusCode::OK, &Page { frame, shell, accounts, along, stay: next }))
}

/// Ends every session of the browser, and with "everywhere" all other sessions of its users, too.
pub(super) async fn sign_out(State(oidc): State<Arc<Oidc>>, request: Request) -> Result<Response, Instead> {
    let mut visitor = Visitor::read(&oidc, request).await?;
    let (_, words) = instance_words(&visitor);
    let next = next_of(&visitor, &words).await?;
    if !visitor.is_given() {
        let query = serde_urlencoded::to_string(visitor.sent(&ALONG)).unwrap_or_default();
        return Ok(visitor.leave(&format!("{LOGOUT}?{query}")));
    }
    let unknown = |_| visitor.notice(Notice::MAYBE_SIGNED_OUT, &words);
    if let Some(hinted) = hinted_of(&visitor, &words).await? {
        hinted.end(&visitor.oidc, &visitor.tenant, &visitor.headers).await.map_err(unknown)?;
    }
    end_accounts(&visitor, visitor.form.get("everywhere").is_some()).await.map_err(unknown)?;
    // A new browser id makes earlier forms useless.
    visitor.browser = Browser::new();
    Ok(over(&visitor, next, &words))
}

fn instance_words(visitor: &Visitor) -> (Owner, Words) {
    (Owner::instance(&visitor.tenant.id), visitor.in_general())
}

/// Returns the URL that the browser goes on to, where the named app has registered it.
async fn next_of(visitor: &Visitor, words: &Words) -> Result<Option<String>, Instead> {
    let along = AfterLogout {
        client_id: visitor.form.get("client_id"),
        uri: visitor.form.get("post_logout_redirect_uri"),
        state: visitor.form.get("state"),
    };
    along.next(&visitor.oidc, &visitor.tenant).await.map_err(|notice| visitor.notice(notice, words))
}

/// Returns the session that an app has named, which ends, too.
async fn hinted_of(visitor: &Visitor, words: &Words) -> Result<Option<Hinted>, Instead> {
    let Some(sealed) = visitor.form.get(hinted::PARAMETER) else { return Ok(None) };
    let opened = Hinted::open(&visitor.oidc, &visitor.tenant, sealed).await;
    let opened = opened.map_err(|_| visitor.notice(Notice::MAYBE_SIGNED_OUT, words))?;
    opened.map(Some).ok_or_else(|| visitor.notice(Notice::BAD_HINT, words))
}

fn over(visitor: &Visitor, next: Option<String>, words: &Words) -> Response {
    match next {
        Some(url) => visitor.leave(&url),
        None => visitor.render_notice(Notice::SIGNED_OUT, words),
    }
}

/// Ends the session of an account, with all tokens that were issued in it.
pub(super) async fn end(visitor: &Visitor, account: &Account) -> Result<(), Error> {
    let Some(sent) = SESSION.parse(&account.token) else { return Ok(()) };
    let (session_id, user_id) = (sent.id.to_owned(), account.user_id.clone());
    let command = Command::EndSession(EndSession { session_id, client_id: user_id.clone(), user_id });
    revoke::have_ended(&visitor.oidc, &visitor.tenant, command, &trace_of(&visitor.headers)).await
}

/// Ends the sessions of the accounts of the browser. A failure with one account does not keep those of the others from
/// ending.
async fn end_accounts(visitor: &Visitor, is_everywhere: bool) -> Result<(), Error> {
    let known = if is_everywhere { visitor.accounts().await? } else { vec![] };
    let mut all_ended = Ok(());
    for account in visitor.browser.accounts() {
        let is_known = known.iter().any(|known| known.account.user_id == account.user_id);
        let ended = if is_known { end_all(visitor, account.user_id.clone()).await } else { Ok(()) };
        // A session of a user who could not be signed out everywhere stays, so that the user can try again.
        let ended = if ended.is_ok() { end(visitor, account).await } else { ended };
        all_ended = all_ended.and(ended);
    }
    all_ended
}

/// Ends all sessions of a person, in other browsers, too, with all tokens that were issued in them.
async fn end_all(visitor: &Visitor, user_id: String) -> Result<(), Error> {
    revoke::have_all_ended(&visitor.oidc, &visitor.tenant, user_id, &trace_of(&visitor.headers)).await
}
