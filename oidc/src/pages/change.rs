//! The page for somebody who must choose another password.

use askama::Template;
use axum::response::Response;
use http::StatusCode;
use page::component::Frame;
use proto::bus::{ChangePassword, checked::Fault, internal_command::Command};

use super::{
    new_password::NewPassword,
    next::go_on,
    shell::Shell,
    visit::{Instead, Posted, Visit, login_name},
};
use crate::endpoint;

#[derive(Template)]
#[template(path = "change.html")]
struct Page<'a> {
    frame: Frame,
    shell: Shell<'a>,
    account: &'a str,
    name: &'a str,
    rules: Vec<String>,
    /// The rules in the format of password managers.
    passwordrules: String,
    errors: Vec<String>,
}

/// The user whose password is changed, and the rules for a new one.
struct PasswordChange {
    user_id: String,
    login_name: String,
    new: NewPassword,
}

impl PasswordChange {
    /// Returns the user of the account that the form names; nothing where this browser has no such account.
    async fn of(visit: &Visit) -> Result<Option<Self>, Instead> {
        let user_id = visit.visitor.form.get("account").unwrap_or_default();
        let Some(account) = visit.visitor.browser.account(user_id) else { return Ok(None) };
        let Some(user) = visit.visitor.user(account).await.map_err(|_| visit.away())? else { return Ok(None) };
        let (user_id, login_name) = (user_id.to_owned(), login_name(&user).to_owned());
        Ok(Some(Self { user_id, login_name, new: NewPassword::of(&visit.visitor, &user.owner) }))
    }
}

/// Asks for another password.
pub(super) async fn show(visit: Visit) -> Result<Response, Instead> {
    let Some(whose) = PasswordChange::of(&visit).await? else { return Ok(visit.visitor.step(endpoint::LOGIN)) };
    Ok(page(&visit, &whose, StatusCode::OK, vec![]))
}

/// Changes the password.
pub(super) async fn change(Posted(mut visit): Posted) -> Result<Response, Instead> {
    let Some(whose) = PasswordChange::of(&visit).await? else { return Ok(visit.visitor.step(endpoint::LOGIN)) };
    let wrong = |visit: &Visit, errors| Ok(page(visit, &whose, StatusCode::UNPROCESSABLE_ENTITY, errors));
    let new_password = visit.visitor.form.raw("password").unwrap_or_default().to_owned();
    let faults = whose.new.faults(&visit.words, &new_password);
    if !faults.is_empty() {
        return wrong(&visit, faults);
    }
    let session_token = visit.visitor.browser.account(&whose.user_id).map(|account| account.token.clone());
    let (session_token, user_agent) = (session_token.unwrap_or_default(), Some(visit.visitor.user_agent.clone()));
    let asked = ChangePassword { session_token, new_password, user_agent, current_password: None };
    let checked = visit.visitor.ask(Command::ChangePassword(asked)).await.unwrap_or_default();
    match checked.fault() {
        Fault::Unspecified if !checked.session_token.is_empty() => {
            visit.visitor.browser.logged_in(checked.user_id.clone(), checked.session_token, checked.seen);
            go_on(&visit, &checked.user_id, false).await
        }
        Fault::Same => wrong(&visit, vec![visit.words.get("change.same").to_owned()]),
        Fault::Guessable => wrong(&visit, vec![visit.words.get("change.guessable").to_owned()]),
        Fault::Rules => wrong(&visit, whose.new.hints(&visit.words, &[])),
        // The password was checked too long ago to choose another one, or has to be entered again.
        Fault::Over | Fault::Wrong | Fault::Made => {
            let more = [("account", whose.user_id.as_str()), ("again", "1")];
            Ok(visit.visitor.step_by("/ui/login/password", &more))
        }
        Fault::Unspecified | Fault::Tries | Fault::Busy | Fault::Taken | Fault::Closed => {
            let error = visit.words.get("password.busy").to_owned();
            Ok(page(&visit, &whose, StatusCode::SERVICE_UNAVAILABLE, vec![error]))
        }
    }
}

fn page(visit: &Visit, whose: &PasswordChange, status: StatusCode, errors: Vec<String>) -> Response {
    let (frame, shell) = Shell::new(visit, visit.words.get("change.title").to_owned());
    let shell = shell.wrong(!errors.is_empty());
    let (rules, passwordrules) = (whose.new.hints(&visit.words, &errors), whose.new.for_managers());
    let (account, name) = (&whose.user_id, &whose.login_name);
    visit.visitor.page(status, &Page { frame, shell, account, name, rules, passwordrules, errors })
}
