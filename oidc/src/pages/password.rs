//! The page that asks for the password. The writer checks it, and counts the tries.

use askama::Template;
use axum::response::Response;
use base::fold::fold;
use domain::resource::user::contact::{EMAIL, PHONE};
use http::StatusCode;
use page::{answer::retry_after, component::Frame};
use proto::bus::{CheckPassword, checked::Fault, internal_command::Command};

use super::{
    next::go_on,
    shell::Shell,
    visit::{Instead, Posted, Visit, called, login_name},
};

#[derive(Template)]
#[template(path = "password.html")]
struct Page<'a> {
    frame: Frame,
    shell: Shell<'a>,
    name: &'a str,
    /// The login name as it is shown.
    shown: &'a str,
    error: String,
}

/// The login name whose password is asked for.
struct Addressee {
    login_name: String,
    /// The login name as it is shown.
    shown: String,
}

impl Addressee {
    /// Returns the names for a login name that was entered. A user whom this browser knows is shown as in the lists of
    /// accounts.
    async fn of(visit: &Visit, name: &str) -> Result<Self, Instead> {
        let mut shown = visit.shown_name(name).to_owned();
        if shown == name {
            return Ok(Self { login_name: name.to_owned(), shown });
        }
        for account in visit.visitor.browser.accounts() {
            let user = visit.visitor.user(account).await.map_err(|_| visit.away())?;
            if let Some(user) = user.filter(|user| fold(login_name(user)) == fold(name)) {
                visit.shown_name_of(&user).clone_into(&mut shown);
            }
        }
        Ok(Self { login_name: name.to_owned(), shown })
    }
}

/// Asks for the password.
pub(super) async fn show(visit: Visit) -> Result<Response, Instead> {
    visit.require_passwords()?;
    let form = &visit.visitor.form;
    let account = form.get("account").and_then(|user_id| visit.visitor.browser.account(user_id));
    let user = match account {
        Some(account) => visit.visitor.user(account).await.map_err(|_| visit.away())?,
        None => None,
    };
    let name = user.as_deref().map(login_name).or_else(|| visit.visitor.browser.named(&visit.visitor.request));
    let Some(name) = name else { return Ok(visit.visitor.step("/ui/login/name")) };
    let error = if form.get("again").is_some() { visit.words.get("password.again") } else { "" };
    let names = Addressee::of(&visit, name).await?;
    Ok(page(&visit, &names, StatusCode::OK, error.to_owned()))
}

/// Checks the password.
pub(super) async fn check(Posted(mut visit): Posted) -> Result<Response, Instead> {
    visit.require_passwords()?;
    let form = &visit.visitor.form;
    let (name, password) = (form.get("username"), form.raw("password").unwrap_or_default().to_owned());
    let Some(login_name) = name.map(str::to_owned) else { return Ok(visit.visitor.step("/ui/login/name")) };
    let names = Addressee::of(&visit, &login_name).await?;
    let wrong = |visit: &Visit, key: &str| {
        let error = visit.words.get(key).to_owned();
        Ok(page(visit, &names, StatusCode::UNPROCESSABLE_ENTITY, error))
    };
    if password.is_empty() {
        return wrong(&visit, "password.empty");
    }
    let (session_token, contacts) = (session_of(&visit, &login_name).await?, visit.contacts());
    let asked = CheckPassword {
        by_email: contacts.contains(&EMAIL),
        by_phone: contacts.contains(&PHONE),
        organization_id: visit.waiting.request.organization_id.clone().unwrap_or_default(),
        login_name: login_name.clone(),
        password,
        session_token,
        user_agent: Some(visit.visitor.user_agent.clone()),
    };
    let Ok(checked) = visit.visitor.ask(Command::CheckPassword(asked)).await else {
        return Ok(busy(&visit, &names));
    };
    match checked.fault() {
        Fault::Unspecified if !checked.session_token.is_empty() => {
            visit.visitor.browser.logged_in(checked.user_id.clone(), checked.session_token, checked.seen);
            go_on(&visit, &checked.user_id, false).await
        }
        Fault::Wrong => wrong(&visit, "password.wrong"),
        Fault::Tries => {
            let error = visit.words.get("password.tries").to_owned();
            let page = page(&visit, &names, StatusCode::TOO_MANY_REQUESTS, error);
            Ok(retry_after(page, checked.wait_seconds))
        }
        _ => Ok(busy(&visit, &names)),
    }
}

/// Returns the token of the session of this browser with a user of that name; empty where there is none.
async fn session_of(visit: &Visit, login_name: &str) -> Result<String, Instead> {
    let known = visit.visitor.accounts().await.map_err(|_| visit.away())?;
    Ok(called(&known, login_name, &visit.contacts()).map(|known| known.account.token.clone()).unwrap_or_default())
}

fn busy(visit: &Visit, names: &Addressee) -> Response {
    page(visit, names, StatusCode::SERVICE_UNAVAILABLE, visit.words.get("password.busy").to_owned())
}

fn page(visit: &Visit, names: &Addressee, status: StatusCode, error: String) -> Response {
    let (frame, shell) = Shell::new(visit, visit.words.get("password.title").to_owned());
    let shell = shell.wrong(!error.is_empty());
    visit.visitor.page(status, &Page { frame, shell, name: &names.login_name, shown: &names.shown, error })
}
