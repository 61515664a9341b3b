//! Personal data in a failed event, shown once to a visitor who gives a reason. It is the answer to a form, and no
//! browser stores it: its address redirects to the failed event, and sending the form again is another disclosure.

use std::sync::Arc;

use axum::{
    extract::{Path, State},
    response::Response,
};
use base::secret;
use edge::refusal::permission_denied;
use http::StatusCode;
use page::answer::see_other;
use serde_json::{Value, json};

use super::{
    Operate,
    api_client::ApiRequest,
    failed::{self, Event, FailedEventPage, Personal},
    level::Act,
    mend::reason_error,
    refused::Refused,
    shell::FAILED_EVENTS,
    text::{enum_name, text},
    visit::{Instead, Posted, Visit},
};

/// Redirects from the address of the form to the failed event.
pub(super) async fn hidden(visit: Visit, Path(id): Path<String>) -> Result<Response, Instead> {
    let id: u64 = id.parse().map_err(|_| visit.refused(&Refused::not_found()))?;
    Ok(see_other(&format!("{FAILED_EVENTS}/{id}")))
}

/// Shows the personal data in a failed event.
pub(super) async fn reveal(
    State(operate): State<Arc<Operate>>,
    Path(id): Path<String>,
    Posted { visit, form }: Posted,
) -> Result<Response, Instead> {
    let found = failed::one(&operate, &visit, &id).await.map_err(|refused| visit.refused(&refused))?;
    if !visit.may(Act::Reveal) {
        let denied = permission_denied(visit.level.permission(Act::Reveal));
        return Err(visit.refused(&Refused::of(&denied)));
    }
    let mut one = FailedEventPage::of(&visit, &found);
    form.get("reason").unwrap_or_default().clone_into(&mut one.reason);
    one.reason_error = reason_error(&one.reason);
    if !one.reason_error.is_empty() {
        return Ok(visit.page(StatusCode::BAD_REQUEST, &one.frame, &one));
    }
    let path = format!("{}/_reveal", visit.level.one(&id));
    // Every disclosure counts, even if the same form is sent twice.
    let asked = ApiRequest::command_at_once(path, json!({ "reason": one.reason }), secret::random_text(22));
    let shown = operate.api.send(&visit, asked).await.map_err(|refused| visit.refused(&refused))?;
    one.event = Event::with_payload(&shown["event"]);
    one.personal = Some(shown["personal"].as_array().into_iter().flatten().map(Personal::of).collect());
    Ok(visit.page(StatusCode::OK, &one.frame, &one))
}

impl Personal {
    fn of(member: &Value) -> Self {
        let became = match enum_name(&member["state"], "PERSONAL_MEMBER_STATE_").as_str() {
            "shown" => "Shown",
            "erased" => "Gone: the person was erased",
            "key_lost" => "Cannot be decrypted: the key of the person is lost",
            _ => "Damaged: it cannot be decrypted with the key of the person",
        };
        Self { path: text(&member["path"]), became }
    }
}
