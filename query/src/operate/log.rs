//! The end of the log, newest first, and one event of it.

use std::sync::Arc;

use askama::Template;
use axum::{
    extract::{Path, State},
    response::Response,
};
use http::StatusCode;
use page::component::{Frame, PAGE, Pages};
use serde_json::{Value, json};

use super::{
    Operate,
    api_client::ApiRequest,
    failed::Event,
    filter::{Chosen, Field, LOG},
    level::ListPart,
    refused::Refused,
    shell::{Shell, frame},
    text::number,
    visit::{Instead, OfSystem, Visit},
};

const LIST: &str = "/ui/operate/log";
const API: &str = "/system/v1/events/_search";

#[derive(Template)]
#[template(path = "log.html")]
struct List {
    frame: Frame,
    shell: Shell,
    fields: Vec<Field>,
    is_filtered: bool,
    error: String,
    rows: Vec<Event>,
    pages: Pages,
    here: String,
}

#[derive(Template)]
#[template(path = "log_one.html")]
struct EventPage {
    frame: Frame,
    shell: Shell,
    event: Event,
}

/// Finds a part of the events that match, and how many there are.
pub(super) async fn events(
    operate: &Operate,
    visit: &Visit,
    filters: Value,
    part: ListPart,
) -> Result<(Vec<Event>, u64), Refused> {
    let body = json!({ "query": part.query(), "filters": filters });
    let found = operate.api.send(visit, ApiRequest::list(API, body)).await?;
    let rows = found["result"].as_array().map(Vec::as_slice).unwrap_or_default();
    Ok((rows.iter().map(Event::of).collect(), number(&found["details"]["totalResult"])))
}

/// Shows the end of the log.
pub(super) async fn show(State(operate): State<Arc<Operate>>, OfSystem(visit): OfSystem) -> Result<Response, Instead> {
    let (chosen, offset) = (Chosen::of(LOG, &visit.query), visit.query.number("from").unwrap_or_default());
    let (found, error) =
        match events(&operate, &visit, chosen.wire(), ListPart { offset, limit: PAGE, asc: false }).await {
            Ok(found) => (found, String::new()),
            Err(Refused { status: StatusCode::BAD_REQUEST, message }) => {
                ((vec![], 0), format!("This filter finds nothing: {message}."))
            }
            Err(refused) => return Err(visit.refused(&refused)),
        };
    let (rows, total) = found;
    let newest = rows.first().map(|event| event.sequence.clone()).filter(|_| offset == 0);
    let live = newest.map(|newest| chosen.path("/ui/operate/live", &[("page", "log".to_owned()), ("after", newest)]));
    let frame = frame(live);
    let status = if error.is_empty() { StatusCode::OK } else { StatusCode::BAD_REQUEST };
    let list = List {
        pages: Pages::new(offset, rows.len() as u64, total, |from| chosen.path(LIST, &[("from", from.to_string())])),
        here: chosen.path(LIST, &[]),
        is_filtered: chosen.is_any(),
        fields: chosen.fields,
        frame: frame.clone(),
        shell: visit.shell(LIST),
        error,
        rows,
    };
    Ok(visit.page(status, &frame, &list))
}

/// Shows one event.
pub(super) async fn show_one(
    State(operate): State<Arc<Operate>>,
    OfSystem(visit): OfSystem,
    Path(sequence): Path<String>,
) -> Result<Response, Instead> {
    let unknown = || visit.refused(&Refused::not_found());
    let before = sequence.parse::<u64>().ok().and_then(|sequence| sequence.checked_sub(1)).ok_or_else(unknown)?;
    let after = json!([{ "afterSequence": before.to_string() }]);
    let found = events(&operate, &visit, after, ListPart { offset: 0, limit: 1, asc: true })
        .await
        .map_err(|refused| visit.refused(&refused))?;
    let event = found.0.into_iter().next().filter(|event| event.sequence == sequence).ok_or_else(unknown)?;
    let frame = frame(None);
    let one = EventPage { frame: frame.clone(), shell: visit.shell(LIST), event };
    Ok(visit.page(StatusCode::OK, &frame, &one))
}
