//! The page with the form that answers an app (OAuth 2.0 Form Post Response Mode, section 2): a script submits it, or a
//! person who presses its button.

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
    visit::{Instead, Visitor},
};
use crate::{Oidc, answer::ByForm, files::FILES, notice::Notice};

#[derive(Template)]
#[template(path = "answer.html")]
struct Page<'a> {
    frame: Frame,
    shell: Shell<'a>,
    by_form: &'a ByForm,
}

/// Shows the form.
pub(super) async fn show(State(oidc): State<Arc<Oidc>>, request: Request) -> Result<Response, Instead> {
    let visitor = Visitor::read(&oidc, request).await?;
    let context = Owner::instance(&visitor.tenant.id);
    let words = visitor.words(&context, &[]);
    let sealed = visitor.form.get("answer").unwrap_or_default();
    let opened = ByForm::open(&oidc, &visitor.tenant.id, sealed).await;
    let opened = opened.map_err(|_| visitor.notice(Notice::AWAY, &words))?;
    let by_form = opened.ok_or_else(|| visitor.notice(Notice::EXPIRED, &words))?;
    let (frame, shell) = Shell::of(&visitor, &words, &context, words.get("name.submit").to_owned());
    let frame = Frame { script: Some(FILES.sends.path.clone()), ..frame };
    // Without a choice of language: the form opens only once.
    let shell = Shell { languages: vec![], ..shell };
    Ok(visitor.page_with(&FILES.sends, StatusCode::OK, &Page { frame, shell, by_form: &by_form }))
}
