//! The page that asks for the login name.

use askama::Template;
use axum::response::Response;
use domain::resource::user::contact::EMAIL;
use http::StatusCode;
use page::component::Frame;

use super::{
    register::place,
    shell::Shell,
    visit::{Instead, Posted, Visit},
};

#[derive(Template)]
#[template(path = "name.html")]
struct Page<'a> {
    frame: Frame,
    shell: Shell<'a>,
    label: &'a str,
    name: String,
    error: &'a str,
    has_accounts: bool,
    lets_register: bool,
}

/// Asks for the login name.
pub(super) async fn show(visit: Visit) -> Result<Response, Instead> {
    visit.require_passwords()?;
    let said = visit.visitor.browser.named(&visit.visitor.request).or(visit.waiting.request.login_hint.as_deref());
    let name = said.unwrap_or_default().to_owned();
    page(&visit, StatusCode::OK, name).await
}

/// Goes on to the password, without disclosing whether a user has that name.
pub(super) async fn take(Posted(mut visit): Posted) -> Result<Response, Instead> {
    visit.require_passwords()?;
    let Some(name) = visit.visitor.form.get("username").map(str::to_owned) else {
        return page(&visit, StatusCode::UNPROCESSABLE_ENTITY, String::new()).await;
    };
    let request = visit.visitor.request.clone();
    visit.visitor.browser.name(&request, &name);
    Ok(visit.visitor.step("/ui/login/password"))
}

async fn page(visit: &Visit, status: StatusCode, name: String) -> Result<Response, Instead> {
    let title = visit.words.with("name.title", &[("app", &visit.app.app.name)]);
    let (frame, shell) = Shell::new(visit, title);
    let is_wrong = status != StatusCode::OK;
    let shell = shell.wrong(is_wrong);
    let (label, empty) = if visit.contacts().contains(&EMAIL) {
        ("name.label_email", "name.empty_email")
    } else {
        ("name.label", "name.empty")
    };
    let (label, error) = (visit.words.get(label), if is_wrong { visit.words.get(empty) } else { "" });
    let has_accounts = !visit.visitor.browser.accounts().is_empty();
    let lets_register = place(visit).await?.is_some();
    let page = Page { frame, shell, label, name, error, has_accounts, lets_register };
    Ok(visit.visitor.page(status, &page))
}
