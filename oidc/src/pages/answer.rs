//! The form by which an app is answered (OAuth 2.0 Form Post Response Mode, section 2): a script sends it, or whoever presses its button.

use std::sync::Arc;

use askama::Template;
use axum::{
    extract::{Request, State},
    response::Response,
};
use domain::context::Owner;
use http::StatusCode;
use page::component::Frame;

use super::{
    shell::Shell,
    visit::{Stop, Visitor},
};
use crate::{Oidc, answer::Posted, files::FILES, told::Told};

#[derive(Template)]
#[template(path = "answer.html")]
struct Page<'a> {
    frame: Frame,
    shell: Shell<'a>,
    posted: &'a Posted,
}

/// Shows the form.
pub(super) async fn show(State(oidc): State<Arc<Oidc>>, request: Request) -> Result<Response, Stop> {
    let visitor = Visitor::read(&oidc, request).await?;
    let context = Owner::instance(&visitor.tenant.id);
    let words = visitor.words(&context, &[]);
    let sealed = visitor.form.get("answer").unwrap_or_default();
    let opened = Posted::open(&oidc, &visitor.tenant.id, sealed).await;
    let opened = opened.map_err(|_| visitor.told(Told::AWAY, &words))?;
    let posted = opened.ok_or_else(|| visitor.told(Told::EXPIRED, &words))?;
    let (frame, shell) = Shell::of(&visitor, (&words, &context), words.get("name.submit").to_owned());
    let frame = Frame { script: Some(FILES.sends.path.clone()), ..frame };
    Ok(visitor.page(StatusCode::OK, &Page { frame, shell, posted: &posted }))
}
