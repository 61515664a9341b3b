//! The pages on which somebody chooses one of the accounts of a browser, or removes one.

use askama::Template;
use axum::response::Response;
use http::StatusCode;
use page::component::Frame;

use super::{
    logout::end,
    next::go_on,
    shell::Shell,
    visit::{AccountView, Instead, KnownAccount, Posted, Visit},
};
use crate::notice::Notice;

#[derive(Template)]
#[template(path = "accounts.html")]
struct Accounts<'a> {
    frame: Frame,
    shell: Shell<'a>,
    message: String,
    accounts: Vec<AccountView>,
}

/// Shows the accounts to choose from.
pub(super) async fn show(visit: Visit) -> Result<Response, Instead> {
    let known = visit.visitor.accounts().await.map_err(|_| visit.away())?;
    if known.is_empty() {
        return Ok(visit.visitor.step("/ui/login/name"));
    }
    let message = visit.words.with("accounts.message", &[("app", &visit.app.app.name)]);
    let (frame, shell) = Shell::new(&visit, visit.words.get("accounts.title").to_owned());
    let page = Accounts {
        frame,
        shell,
        message,
        accounts: known.iter().rev().map(|it| account_view(&visit, it, &known)).collect(),
    };
    Ok(visit.visitor.page(StatusCode::OK, &page))
}

/// Returns an account as the list shows it.
fn account_view(visit: &Visit, account: &KnownAccount, known: &[KnownAccount]) -> AccountView {
    AccountView { login_name: visit.shown_name_among(&account.user, known).to_owned(), ..AccountView::from(account) }
}

/// Goes on with the chosen account.
pub(super) async fn choose(Posted(visit): Posted) -> Result<Response, Instead> {
    let user_id = visit.visitor.form.get("account").unwrap_or_default().to_owned();
    if visit.visitor.browser.account(&user_id).is_none() {
        return Ok(visit.visitor.step("/ui/login/accounts"));
    }
    go_on(&visit, &user_id, false).await
}

#[derive(Template)]
#[template(path = "remove.html")]
struct Removal<'a> {
    frame: Frame,
    shell: Shell<'a>,
    accounts: Vec<(String, String)>,
}

/// Asks which account is removed.
pub(super) async fn removal(visit: Visit) -> Result<Response, Instead> {
    let known = visit.visitor.accounts().await.map_err(|_| visit.away())?;
    if known.is_empty() {
        return Ok(visit.visitor.step("/ui/login/name"));
    }
    let text =
        |it: &KnownAccount| visit.words.with("remove.submit", &[("name", visit.shown_name_among(&it.user, &known))]);
    let accounts = known.iter().rev().map(|it| (it.account.user_id.clone(), text(it))).collect();
    let (frame, shell) = Shell::new(&visit, visit.words.get("remove.title").to_owned());
    Ok(visit.visitor.page(StatusCode::OK, &Removal { frame, shell, accounts }))
}

/// Ends the session of an account, and forgets it.
pub(super) async fn remove(Posted(mut visit): Posted) -> Result<Response, Instead> {
    let user_id = visit.visitor.form.get("account").unwrap_or_default().to_owned();
    if let Some(account) = visit.visitor.browser.account(&user_id).cloned() {
        end(&visit.visitor, &account).await.map_err(|_| visit.notice(Notice::MAYBE_SIGNED_OUT))?;
        visit.visitor.browser.forget(&user_id);
    }
    Ok(visit.visitor.step("/ui/login/accounts"))
}
