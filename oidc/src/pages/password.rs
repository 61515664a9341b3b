//! The password of whoever logs in. It is compared by the node that writes, which counts the tries.

use askama::Template;
use axum::response::Response;
use base::{explain::explain, fold::fold};
use edge::trigger::trace_of;
use http::{HeaderValue, StatusCode, header};
use page::component::Frame;
use proto::bus::{CheckPassword, Checked, checked::Fault, internal_command::Command};

use super::{
    next::go_on,
    shell::Shell,
    visit::{Known, Posted, Stop, Visit},
};

#[derive(Template)]
#[template(path = "password.html")]
struct Page<'a> {
    frame: Frame,
    shell: Shell<'a>,
    name: &'a str,
    error: String,
}

/// Asks for the password.
pub(super) async fn show(mut visit: Visit) -> Result<Response, Stop> {
    let known = visit.visitor.accounts().await.map_err(|_| visit.away())?;
    let asked = visit.visitor.form.get("account");
    let account = known.iter().find(|known| Some(known.account.user_id.as_str()) == asked);
    let name = account.map(Known::login_name).or_else(|| visit.visitor.browser.named(&visit.visitor.request));
    let Some(name) = name.map(str::to_owned) else { return Ok(visit.visitor.step("/ui/login/name")) };
    Ok(page(&visit, &name, (StatusCode::OK, String::new())))
}

/// Checks the password.
pub(super) async fn check(Posted(mut visit): Posted) -> Result<Response, Stop> {
    let form = &visit.visitor.form;
    let (name, password) = (form.get("username"), form.raw("password").unwrap_or_default().to_owned());
    let Some(login_name) = name.map(str::to_owned) else { return Ok(visit.visitor.step("/ui/login/name")) };
    let wrong = |visit: &Visit, key: &str| {
        let error = visit.words.get(key).to_owned();
        Ok(page(visit, &login_name, (StatusCode::UNPROCESSABLE_ENTITY, error)))
    };
    if password.is_empty() {
        return wrong(&visit, "password.empty");
    }
    let session_token = session_of(&mut visit, &login_name).await?;
    let asked = CheckPassword { login_name: login_name.clone(), password, session_token };
    let Some(checked) = asked_for(&visit, Command::CheckPassword(asked)).await else {
        return Ok(busy(&visit, &login_name));
    };
    match checked.fault() {
        Fault::Unspecified if !checked.session_token.is_empty() => {
            visit.visitor.browser.logged_in(checked.user_id.clone(), (checked.session_token, checked.seen));
            go_on(&mut visit, &checked.user_id, false).await
        }
        Fault::Wrong => wrong(&visit, "password.wrong"),
        Fault::Tries => {
            let error = visit.words.count("password.tries", checked.wait_seconds.div_ceil(60).max(1));
            let mut response = page(&visit, &login_name, (StatusCode::TOO_MANY_REQUESTS, error));
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(checked.wait_seconds));
            Ok(response)
        }
        _ => Ok(busy(&visit, &login_name)),
    }
}

/// The session of this browser in which somebody of that name was checked before; nothing where there is none.
async fn session_of(visit: &mut Visit, login_name: &str) -> Result<String, Stop> {
    let known = visit.visitor.accounts().await.map_err(|_| visit.away())?;
    let same = known.into_iter().find(|known| fold(known.login_name()) == fold(login_name));
    Ok(same.map(|known| known.account.token).unwrap_or_default())
}

/// What becomes of a person, where the node that writes says so.
pub(super) async fn asked_for(visit: &Visit, command: Command) -> Option<Checked> {
    let visitor = &visit.visitor;
    let asked = visitor.oidc.internal.ask(&visitor.tenant.id, &trace_of(&visitor.headers), command).await;
    let outcome = asked.inspect_err(|undone| tracing::warn!(error = %explain(undone), "a password was not checked"));
    outcome.ok()?.checked
}

fn busy(visit: &Visit, name: &str) -> Response {
    page(visit, name, (StatusCode::SERVICE_UNAVAILABLE, visit.words.get("password.busy").to_owned()))
}

fn page(visit: &Visit, name: &str, (status, error): (StatusCode, String)) -> Response {
    let (frame, shell) = Shell::new(visit, visit.words.get("password.title").to_owned());
    let shell = shell.wrong(!error.is_empty());
    visit.visitor.page(status, &Page { frame, shell, name, error })
}
