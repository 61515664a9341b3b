//! Failed events: the list, and one of them.

use std::sync::Arc;

use askama::Template;
use axum::{
    extract::{Path, State},
    response::{IntoResponse, Response},
};
use base::clock;
use http::{HeaderValue, StatusCode, header};
use jiff::Timestamp;
use page::{
    answer::secure,
    component::{Badge, Frame, PAGE, Pages, count},
};
use serde_json::Value;
use view::persons::is_of_people;

use super::{
    Operate,
    api_client::ApiRequest,
    filter::{Chosen, Field},
    level::{Act, ListPart},
    refused::Refused,
    shell::{FAILED_EVENTS, Notice, Shell, frame},
    text::{SHOWN, ShownTime, enum_name, failed_events, number, payload, text},
    visit::{Instead, Visit},
};

/// A failed event as pages show it.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) id: String,
    pub(super) view: String,
    pub(super) sequence: String,
    pub(super) instance: String,
    pub(super) kind: String,
    pub(super) aggregate: String,
    /// The target that it was not delivered to; empty for a projection.
    pub(super) target: String,
    pub(super) error: String,
    pub(super) tries: u64,
    pub(super) first: Option<ShownTime>,
    pub(super) last: Option<ShownTime>,
    /// The last failure, as the API formats it.
    failed_at: String,
    pub(super) badge: Badge,
    pub(super) state: &'static str,
    /// Who requested a retry; empty if nobody did.
    pub(super) retried_by: String,
    pub(super) retried_at: Option<ShownTime>,
    /// Who discarded it; empty if it waits.
    pub(super) discarded_by: String,
    pub(super) discarded_at: Option<ShownTime>,
    pub(super) reason: String,
}

/// A page of what a filter finds.
pub(super) struct MatchPage {
    pub(super) rows: Vec<Row>,
    pub(super) total: u64,
}

#[derive(Template)]
#[template(path = "failed.html")]
struct List {
    frame: Frame,
    shell: Shell,
    fields: Vec<Field>,
    is_filtered: bool,
    error: String,
    rows: Vec<Row>,
    total: u64,
    pages: Pages,
    key: String,
    here: String,
    retry_all: String,
    discard_all: String,
    may_retry: bool,
    may_discard: bool,
}

#[derive(Template)]
#[template(path = "failed_one.html")]
pub(super) struct FailedEventPage {
    /// What the head of the page needs.
    pub(super) frame: Frame,
    shell: Shell,
    row: Row,
    /// The event that failed, with personal data in clear text if that was requested.
    pub(super) event: Event,
    waiting: u64,
    key: String,
    may_retry: bool,
    may_discard: bool,
    /// Whether its personal data can be requested.
    may_reveal: bool,
    /// The reason for the request.
    pub(super) reason: String,
    /// What is wrong with the reason, if anything.
    pub(super) reason_error: String,
    /// What became of the personal data, if it is shown.
    pub(super) personal: Option<Vec<Personal>>,
}

/// What became of a personal member of a payload.
pub(super) struct Personal {
    pub(super) path: String,
    pub(super) became: &'static str,
}

/// An event as pages show it.
#[derive(Debug, Clone)]
pub(super) struct Event {
    pub(super) sequence: String,
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) aggregate: String,
    pub(super) instance: String,
    pub(super) actor: String,
    pub(super) at: Option<ShownTime>,
    pub(super) payload: String,
    pub(super) is_whole: bool,
}

impl Row {
    fn of(event: &Value) -> Self {
        let state = enum_name(&event["state"], "FAILED_EVENT_STATE_");
        let (badge, state) = match state.as_str() {
            "failed" if text(&event["targetId"]).is_empty() => (Badge::Parked, "Parked"),
            "failed" => (Badge::Parked, "Given up"),
            "retrying" => (Badge::Working, "Being retried"),
            "discarded" => (Badge::Done, "Discarded"),
            _ => (Badge::Unknown, "Unknown"),
        };
        Self {
            id: text(&event["id"]),
            view: text(&event["viewName"]),
            sequence: text(&event["sequence"]),
            instance: text(&event["instanceId"]),
            kind: text(&event["aggregateType"]),
            aggregate: text(&event["aggregateId"]),
            target: text(&event["targetId"]),
            error: text(&event["errorMessage"]),
            tries: number(&event["failureCount"]),
            first: ShownTime::of(&event["firstFailed"]),
            last: ShownTime::of(&event["lastFailed"]),
            failed_at: text(&event["lastFailed"]),
            badge,
            state,
            retried_by: text(&event["retriedBy"]),
            retried_at: ShownTime::of(&event["retriedAt"]),
            discarded_by: text(&event["discardedBy"]),
            discarded_at: ShownTime::of(&event["discardedAt"]),
            reason: text(&event["reason"]),
        }
    }

    /// Whether somebody can still decide about it.
    fn waits(&self) -> bool {
        self.discarded_at.is_none()
    }
}

impl Event {
    pub(super) fn of(event: &Value) -> Self {
        Self::with(event, SHOWN)
    }

    /// The event with its complete payload, if that cannot be downloaded.
    pub(super) fn with_payload(event: &Value) -> Self {
        Self::with(event, usize::MAX)
    }

    /// The event with at most so many bytes of its payload.
    fn with(event: &Value, most: usize) -> Self {
        let (payload, is_whole) = payload(&event["payload"], most);
        Self {
            sequence: text(&event["sequence"]),
            name: text(&event["type"]),
            kind: text(&event["aggregateType"]),
            aggregate: text(&event["aggregateId"]),
            instance: text(&event["instanceId"]),
            actor: text(&event["actorId"]),
            at: ShownTime::of(&event["creationDate"]),
            payload,
            is_whole,
        }
    }
}

/// Finds a page of the chosen failed events.
pub(super) async fn find(
    operate: &Operate,
    visit: &Visit,
    chosen: &Chosen,
    part: ListPart,
) -> Result<MatchPage, Refused> {
    search(operate, visit, chosen.wire(), part).await
}

/// Finds a page of the failed events that match these filters of the API.
pub(super) async fn search(
    operate: &Operate,
    visit: &Visit,
    filters: Value,
    part: ListPart,
) -> Result<MatchPage, Refused> {
    let (path, body) = visit.level.search(filters, part);
    let found = operate.api.send(visit, ApiRequest::list(path, body)).await?;
    let rows = found["result"].as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(MatchPage { rows: rows.iter().map(Row::of).collect(), total: number(&found["details"]["totalResult"]) })
}

/// The path of those that failed after a retry, and a text with their number, if there are any.
async fn failed_since(operate: &Operate, visit: &Visit, chosen: &Chosen) -> Option<(String, String)> {
    let since: Timestamp = visit.query.get("retried")?.parse().ok()?;
    let (filters, path) = chosen.failed_since(&since.to_string(), FAILED_EVENTS);
    // If this is unknown the list says why.
    let found = search(operate, visit, filters, ListPart::NEWEST).await.ok().filter(|found| found.total > 0)?;
    Some((path, format!("Show the {} that failed since", count(found.total))))
}

/// Gets one failed event from the API.
pub(super) async fn one(operate: &Operate, visit: &Visit, id: &str) -> Result<Value, Refused> {
    let is_number = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number {
        return Err(Refused::not_found());
    }
    operate.api.send(visit, ApiRequest::get(visit.level.one(id))).await
}

/// Converts a failed event, without the event itself.
pub(super) fn row(found: &Value) -> Row {
    Row::of(&found["failedEvent"])
}

/// Shows the list.
pub(super) async fn show(State(operate): State<Arc<Operate>>, visit: Visit) -> Result<Response, Instead> {
    let chosen = Chosen::of(visit.level.filters(), &visit.query);
    let (offset, now) = (visit.query.number("from").unwrap_or_default(), clock::now().to_string());
    let (found, error) = match find(&operate, &visit, &chosen, ListPart { offset, limit: PAGE, asc: false }).await {
        Ok(found) => (found, String::new()),
        Err(Refused { status: StatusCode::BAD_REQUEST, message }) if chosen.is_any() => {
            (MatchPage { rows: vec![], total: 0 }, format!("This filter finds nothing: {message}."))
        }
        Err(refused) => return Err(visit.refused(&refused)),
    };
    let MatchPage { rows, total } = found;
    // The first of the first page is the newest of all.
    let newest = rows.first().filter(|_| offset == 0).map_or(now, |row| row.failed_at.clone());
    let shown = [("page", "failed".to_owned()), ("total", total.to_string()), ("newest", newest)];
    let frame = frame(error.is_empty().then(|| chosen.path("/ui/operate/live", &shown)));
    let mut shell = visit.shell(FAILED_EVENTS);
    shell.notice = outcome_notice(&visit);
    if let Some(notice) = &mut shell.notice {
        notice.more = failed_since(&operate, &visit, &chosen).await;
    }
    let status = if error.is_empty() { StatusCode::OK } else { StatusCode::BAD_REQUEST };
    let are_waiting = rows.iter().all(Row::waits);
    let list = List {
        pages: Pages::new(offset, rows.len() as u64, total, |from| {
            chosen.path(FAILED_EVENTS, &[("from", from.to_string())])
        }),
        retry_all: chosen.path("/ui/operate/failed/retry", &[("all", "1".to_owned())]),
        discard_all: chosen.path("/ui/operate/failed/discard", &[("all", "1".to_owned())]),
        here: chosen.path(FAILED_EVENTS, &retry_parameters(&visit)),
        is_filtered: chosen.is_any(),
        fields: chosen.fields,
        may_retry: are_waiting && visit.may(Act::Retry),
        may_discard: are_waiting && visit.may(Act::Discard),
        key: base::secret::random_text(22),
        frame: frame.clone(),
        shell,
        error,
        rows,
        total,
    };
    Ok(visit.page(status, &frame, &list))
}

/// The parameters about a retry, so that a refresh shows what came of it.
fn retry_parameters(visit: &Visit) -> Vec<(&'static str, String)> {
    let names = ["what", "done", "gone", "retried"].into_iter().filter(|_| visit.query.get("retried").is_some());
    names.filter_map(|name| Some((name, visit.query.get(name)?.to_owned()))).collect()
}

/// The outcome of the last action, in numbers only: anybody who makes a link can make this sentence.
fn outcome_notice(visit: &Visit) -> Option<Notice> {
    let (done, gone) = (visit.query.number("done")?, visit.query.number("gone").unwrap_or_default());
    let (verb, rest) = match visit.query.get("what")? {
        "retried" => ("retried", "The others were not: retry them in another step."),
        "discarded" => ("discarded", "More match: discard them in another step."),
        _ => {
            return Some(Notice {
                text: "Nothing was done: select failed events first.".to_owned(),
                is_good: false,
                more: None,
            });
        }
    };
    let mut text = match done {
        0 => format!("Nothing was {verb}."),
        1 => format!("1 failed event was {verb}."),
        _ => format!("{} were {verb}.", failed_events(done)),
    };
    if gone > 0 {
        let were = if gone == 1 { "1 was".to_owned() } else { format!("{gone} were") };
        text = format!("{text} {were} not there any more.");
    }
    if visit.query.get("rest").is_some() {
        text = format!("{text} {rest}");
    }
    Some(Notice { text, is_good: done > 0, more: None })
}

/// Shows one failed event.
pub(super) async fn show_one(
    State(operate): State<Arc<Operate>>,
    visit: Visit,
    Path(id): Path<String>,
) -> Result<Response, Instead> {
    let found = one(&operate, &visit, &id).await.map_err(|refused| visit.refused(&refused))?;
    let one = FailedEventPage::of(&visit, &found);
    Ok(visit.page(StatusCode::OK, &one.frame, &one))
}

impl FailedEventPage {
    /// The page of one failed event, without personal data.
    pub(super) fn of(visit: &Visit, found: &Value) -> Self {
        let row = row(found);
        let may = |act| row.waits() && visit.may(act);
        Self {
            frame: frame(None),
            shell: visit.shell(FAILED_EVENTS),
            may_retry: may(Act::Retry),
            may_discard: may(Act::Discard),
            may_reveal: may(Act::Reveal) && is_of_people(&row.kind),
            row,
            event: Event::of(&found["event"]),
            waiting: number(&found["waiting"]),
            key: base::secret::random_text(22),
            reason: String::new(),
            reason_error: String::new(),
            personal: None,
        }
    }
}

/// Downloads the complete payload of a failed event.
pub(super) async fn download(
    State(operate): State<Arc<Operate>>,
    visit: Visit,
    Path(id): Path<String>,
) -> Result<Response, Instead> {
    let found = one(&operate, &visit, &id).await.map_err(|refused| visit.refused(&refused))?;
    let mut response = text(&found["event"]["payload"]).into_response();
    secure(&mut response);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    let attached = format!("attachment; filename=\"event-{}.json\"", number(&found["event"]["sequence"]));
    headers.extend(HeaderValue::from_str(&attached).map(|value| (header::CONTENT_DISPOSITION, value)).ok());
    Ok(response)
}
