//! Who logs in.

use askama::Template;
use axum::response::Response;
use domain::setting::login::Login;
use http::StatusCode;
use page::component::Frame;

use super::{
    next::login_name,
    shell::Shell,
    visit::{Posted, Stop, Visit},
};
use crate::told::Told;

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
    if !has_passwords(&visit) {
        return Err(visit.told(Told::NO_PASSWORD));
    }
    let request = &visit.waiting.request;
    let hinted = match &request.hint_user_id {
        Some(id) => visit.visitor.user(id).await.map_err(|_| visit.away())?,
        None => None,
    };
    let hinted = hinted.as_ref().map(|user| login_name(user)).or(request.login_hint.as_deref());
    let name = visit.visitor.browser.named(&visit.visitor.request).or(hinted).unwrap_or_default().to_owned();
    Ok(page(&visit, (StatusCode::OK, ""), name))
}

/// Goes on to the password. Whether somebody has that name is not told.
pub(super) async fn take(Posted(mut visit): Posted) -> Result<Response, Stop> {
    let Some(name) = visit.visitor.form.get("username").map(str::to_owned) else {
        return Ok(page(&visit, (StatusCode::UNPROCESSABLE_ENTITY, "name.empty"), String::new()));
    };
    let request = visit.visitor.request.clone();
    visit.visitor.browser.name(&request, &name);
    Ok(visit.visitor.step("/ui/login/password"))
}

/// Whether people may log in with passwords.
fn has_passwords(visit: &Visit) -> bool {
    let (settings, instance_id) = (&visit.visitor.oidc.edge.settings, &visit.visitor.tenant.id);
    let chain = settings.effective::<Login>(instance_id, &visit.context).chain;
    *chain.resolve(|it| it.allow_username_password.as_ref()).value
}

fn page(visit: &Visit, (status, error): (StatusCode, &str), name: String) -> Response {
    let title = visit.words.with("name.title", &[("app", &visit.app.app.name)]);
    let (frame, shell) = Shell::new(visit, title);
    let shell = shell.wrong(!error.is_empty());
    let has_accounts = !visit.visitor.browser.accounts().is_empty();
    visit.visitor.page(status, &Page { frame, shell, name, error: visit.words.get(error), has_accounts })
}
