//! The page for a person who may not use an app, with the way back to it.

use askama::Template;
use axum::response::Response;
use http::StatusCode;
use page::component::Frame;

use super::{
    next::{go_on, lack, refuse},
    shell::Shell,
    visit::{Instead, Posted, Visit},
};
use crate::finish::Lack;

#[derive(Template)]
#[template(path = "refused.html")]
struct Page<'a> {
    frame: Frame,
    shell: Shell<'a>,
    message: &'a str,
    back: String,
}

/// Shows why.
pub(super) async fn show(visit: Visit) -> Result<Response, Instead> {
    let user_id = visit.visitor.form.get("account").unwrap_or_default().to_owned();
    let key = match lack(&visit, &user_id).await? {
        Some(Lack::Inactive) => "refused.inactive",
        Some(Lack::User) => "refused.user",
        Some(Lack::Organization) => "refused.organization",
        Some(Lack::Project) => "refused.project",
        Some(_) | None => return go_on(&visit, &user_id, false).await,
    };
    let app = [("app", visit.app.app.name.as_str())];
    let (title, back) = (visit.words.with("refused.title", &app), visit.words.with("refused.back", &app));
    let (frame, shell) = Shell::new(&visit, title);
    let page = Page { frame, shell, message: visit.words.get(key), back };
    Ok(visit.visitor.page(StatusCode::FORBIDDEN, &page))
}

/// Answers the app that the person has not logged in.
pub(super) async fn cancel(Posted(visit): Posted) -> Result<Response, Instead> {
    refuse(&visit, "access_denied", "the person has not logged in").await
}
