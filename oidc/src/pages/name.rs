//! Who logs in.

use askama::Template;
use axum::response::Response;
use http::StatusCode;
use page::component::Frame;

use super::{
    shell::Shell,
    visit::{Posted, Stop, Visit},
};
#[derive(Template)]
#[template(path = "name.html")]
struct Page<'a> {
    frame: Frame,
    shell: Shell<'a>,
    name: String,
    error: &'a str,
    has_accounts: bool,
}

/// Asks for the login name.
pub(super) async fn show(visit: Visit) -> Result<Response, Stop> {
    visit.insist_on_passwords()?;
    let said = visit.visitor.browser.named(&visit.visitor.request).or(visit.waiting.request.login_hint.as_deref());
    let name = said.unwrap_or_default().to_owned();
    Ok(page(&visit, (StatusCode::OK, ""), name))
}

/// Goes on to the password. Whether somebody has that name is not told.
pub(super) async fn take(Posted(mut visit): Posted) -> Result<Response, Stop> {
    visit.insist_on_passwords()?;
    let Some(name) = visit.visitor.form.get("username").map(str::to_owned) else {
        return Ok(page(&visit, (StatusCode::UNPROCESSABLE_ENTITY, "name.empty"), String::new()));
    };
    let request = visit.visitor.request.clone();
    visit.visitor.browser.name(&request, &name);
    Ok(visit.visitor.step("/ui/login/password"))
}

fn page(visit: &Visit, (status, error): (StatusCode, &str), name: String) -> Response {
    let title = visit.words.with("name.title", &[("app", &visit.app.app.name)]);
    let (frame, shell) = Shell::new(visit, title);
    let shell = shell.wrong(!error.is_empty());
    let has_accounts = !visit.visitor.browser.accounts().is_empty();
    visit.visitor.page(status, &Page { frame, shell, name, error: visit.words.get(error), has_accounts })
}
