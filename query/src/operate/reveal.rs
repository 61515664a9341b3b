//! What is personal in a failed event, shown once to whoever says why. It is the answer to a form and has no address: whoever loads
//! the page again does not see it, and no browser keeps it.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    response::Response,
};
use base::secret;
use http::StatusCode;
use serde_json::{Value, json};

use super::{
    Operate,
    ask::Asked,
    failed::{Event, One, Personal},
    mend::reason_error,
    text::{text, word},
    visit::{Instead, Posted},
};

/// Shows what is personal in one.
pub(super) async fn reveal(
    State(operate): State<Arc<Operate>>,
    Path(id): Path<String>,
    Posted { visit, form }: Posted,
) -> Result<Response, Instead> {
    let found = operate.one(&visit, &id).await.map_err(|refused| visit.refused(&refused))?;
    let mut one = One::of(&visit, &found);
    form.get("reason").unwrap_or_default().clone_into(&mut one.reason);
    one.reason_error = reason_error(&one.reason);
    if !one.reason_error.is_empty() {
        return Ok(visit.page(StatusCode::BAD_REQUEST, &one.frame, &one));
    }
    let path = format!("{}/_reveal", visit.reach.one(&id));
    // Every look is one of its own, also where the same form is sent twice.
    let asked = Asked::command(path, json!({ "reason": one.reason }), secret::random_text(22));
    let shown = operate.api.ask(&visit, asked).await.map_err(|refused| visit.refused(&refused))?;
    one.event = Event::of(&shown["event"]);
    one.personal = Some(shown["personal"].as_array().into_iter().flatten().map(Personal::of).collect());
    Ok(visit.page(StatusCode::OK, &one.frame, &one))
}

impl Personal {
    fn of(member: &Value) -> Self {
        let became = match word(&member["state"], "PERSONAL_MEMBER_STATE_").as_str() {
            "shown" => "Shown",
            "erased" => "Gone: the person was erased",
            _ => "Damaged: the key of the person does not open it",
        };
        Self { path: text(&member["path"]), became }
    }
}
