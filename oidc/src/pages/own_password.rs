//! The page on which somebody who is logged in changes the password. It belongs to no authorization request: people
//! come here from [`home`](super::home), from a link of an app, or by the path that password managers know (W3C, A
//! Well-Known URL for Changing Passwords).

use std::sync::Arc;

use askama::Template;
use axum::{
    extract::{Request, State},
    response::Response,
};
use http::StatusCode;
use page::{
    answer::{retry_after, see_other},
    component::Frame,
};
use proto::bus::{ChangePassword, Checked, checked::Fault, internal_command::Command};

use super::{
    home::{LoginPurpose, login},
    new_password::NewPassword,
    shell::Shell,
    visit::{Instead, KnownAccount, Visitor},
};
use crate::{
    Oidc,
    endpoint::{LOGIN, OWN_PASSWORD},
    notice::Notice,
    words::Words,
};

#[derive(Template)]
#[template(path = "own_password.html")]
struct Page<'a> {
    frame: Frame,
    shell: Shell<'a>,
    account: &'a str,
    name: &'a str,
    rules: Vec<String>,
    /// The rules in the format of password managers.
    passwordrules: String,
    wrong: Wrong,
}

/// What is wrong with the input.
#[derive(Default)]
struct Wrong {
    /// The error of the current password.
    current: String,
    /// The errors of the new password.
    new: Vec<String>,
}

/// The account whose password is changed, and the rules for a new one.
struct OwnPassword {
    account: KnownAccount,
    new: NewPassword,
    words: Words,
}

impl Wrong {
    fn current(words: &Words, key: &str) -> Self {
        Self { current: words.get(key).to_owned(), new: vec![] }
    }

    fn new(words: &Words, key: &str) -> Self {
        Self { current: String::new(), new: vec![words.get(key).to_owned()] }
    }

    fn is_any(&self) -> bool {
        !self.current.is_empty() || !self.new.is_empty()
    }

    fn is_both(&self) -> bool {
        !self.current.is_empty() && !self.new.is_empty()
    }
}

impl OwnPassword {
    /// Finds the account that is named, or the only one. Somebody who is not logged in is sent to log in first, and to
    /// choose where there are several accounts.
    async fn of(visitor: &Visitor) -> Result<Self, Instead> {
        let instance = visitor.in_general();
        let known = visitor.accounts().await.map_err(|_| visitor.notice(Notice::AWAY, &instance))?;
        let mut known: Vec<_> = known.into_iter().filter(KnownAccount::is_logged_in).collect();
        if known.is_empty() {
            return Err(visitor.leave(&login(visitor, LoginPurpose::OwnPassword)).into());
        }
        if let Some(user_id) = visitor.form.get("account") {
            known.retain(|known| known.account.user_id == user_id);
        }
        let Ok([account]) = <[KnownAccount; 1]>::try_from(known) else { return Err(visitor.leave(LOGIN).into()) };
        let words = visitor.words(&account.user.owner, &[]);
        if !visitor.has_password(&account.user) {
            return Err(visitor.notice(Notice::NO_PASSWORD, &words));
        }
        Ok(Self { new: NewPassword::of(visitor, &account.user.owner), account, words })
    }

    fn page(&self, visitor: &Visitor, status: StatusCode, wrong: Wrong) -> Response {
        let (words, owner) = (&self.words, &self.account.user.owner);
        let (frame, shell) = Shell::of(visitor, words, owner, words.get("own_password.title").to_owned());
        let shell = shell.wrong(wrong.is_any());
        let (rules, passwordrules) = (self.new.hints(words, &wrong.new), self.new.for_managers());
        let (account, name) = (&self.account.account.user_id, self.account.login_name());
        visitor.page(status, &Page { frame, shell, account, name, rules, passwordrules, wrong })
    }

    /// Shows the page again, with what is wrong.
    fn refused(&self, visitor: &Visitor, checked: &Checked) -> Response {
        let words = &self.words;
        let unprocessable = StatusCode::UNPROCESSABLE_ENTITY;
        let (status, wrong) = match checked.fault() {
            Fault::Wrong => (unprocessable, Wrong::current(words, "own_password.wrong")),
            Fault::Same => (unprocessable, Wrong::new(words, "change.same")),
            Fault::Guessable => (unprocessable, Wrong::new(words, "change.guessable")),
            Fault::Rules => (unprocessable, Wrong { new: self.new.hints(words, &[]), ..Wrong::default() }),
            Fault::Tries => (StatusCode::TOO_MANY_REQUESTS, Wrong::current(words, "password.tries")),
            _ => (StatusCode::SERVICE_UNAVAILABLE, Wrong::current(words, "password.busy")),
        };
        let page = self.page(visitor, status, wrong);
        if checked.fault() == Fault::Tries { retry_after(page, checked.wait_seconds) } else { page }
    }
}

/// Redirects password managers to the page.
pub(super) async fn lead() -> Response {
    see_other(OWN_PASSWORD)
}

/// Asks for the current password and for a new one.
pub(super) async fn show(State(oidc): State<Arc<Oidc>>, request: Request) -> Result<Response, Instead> {
    let visitor = Visitor::read(&oidc, request).await?;
    let own = OwnPassword::of(&visitor).await?;
    Ok(own.page(&visitor, StatusCode::OK, Wrong::default()))
}

/// Changes the password.
pub(super) async fn change(State(oidc): State<Arc<Oidc>>, request: Request) -> Result<Response, Instead> {
    let mut visitor = Visitor::read(&oidc, request).await?;
    let own = OwnPassword::of(&visitor).await?;
    if !visitor.is_given() {
        return Ok(visitor.step_with(OWN_PASSWORD, &own.account.account.user_id));
    }
    let said = |name: &str| visitor.form.raw(name).unwrap_or_default().to_owned();
    let (current_password, new_password) = (said("current"), said("password"));
    let mut wrong = Wrong { current: String::new(), new: own.new.faults(&own.words, &new_password) };
    if current_password.is_empty() {
        own.words.get("own_password.empty").clone_into(&mut wrong.current);
    }
    if wrong.is_any() {
        return Ok(own.page(&visitor, StatusCode::UNPROCESSABLE_ENTITY, wrong));
    }
    let asked = ChangePassword {
        session_token: own.account.account.token.clone(),
        new_password,
        user_agent: Some(visitor.user_agent.clone()),
        current_password: Some(current_password),
    };
    let checked = visitor.ask(Command::ChangePassword(asked)).await.unwrap_or_default();
    match checked.fault() {
        Fault::Unspecified if !checked.session_token.is_empty() => {
            visitor.browser.logged_in(checked.user_id, checked.session_token, checked.seen);
            Ok(visitor.render_notice(Notice::PASSWORD_CHANGED, &own.words))
        }
        // The password is changed, but the browser has no session: the next login asks for it.
        Fault::Made => Ok(visitor.render_notice(Notice::PASSWORD_CHANGED, &own.words)),
        _ => Ok(own.refused(&visitor, &checked)),
    }
}
