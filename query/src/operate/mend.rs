//! Actions of operators on failed events: pages that announce what will happen, and the forms that make it happen.
//!
//! A retry of all that match is one event in the log, however many there are. A discard names each, because each is
//! lost to its view for good. Both concern only the events that the page was about, and no later ones.

use std::{pin::pin, sync::Arc, time::Duration};

use askama::Template;
use axum::{extract::State, response::Response};
use base::{clock, secret};
use futures::{StreamExt, stream};
use http::StatusCode;
use jiff::Timestamp;
use page::{
    answer::see_other,
    component::{Frame, PAGE, count},
    form::Form,
};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{
    Operate,
    api_client::ApiRequest,
    failed::{self, MatchPage, Row, row},
    filter::{Chosen, Field},
    level::{Act, ListPart, OperatorLevel},
    refused::Refused,
    shell::{FAILED_EVENTS, Shell, frame},
    text::{ShownTime, failed_events, number, text},
    visit::{Instead, Posted, Visit},
};

/// How many are discarded in one step.
const MOST: u64 = 1000;
/// The number above which it has to be typed.
const TYPED: u64 = 100;
/// How many samples a page shows.
const SAMPLES: usize = 5;
/// How many are discarded at a time, and for how long further ones are begun.
const AT_ONCE: usize = 8;
const LONGEST: Duration = Duration::from_secs(45);

/// The failed events that an action concerns: these, or all that match.
struct Selection {
    ids: Vec<String>,
    chosen: Chosen,
    is_all: bool,
}

/// A command for each of several failed events.
struct RowCommand<'a> {
    /// The last part of its path.
    what: &'a str,
    body: Value,
    /// The idempotency key of the form, which the id of each one is appended to.
    key: &'a str,
}

/// The outcome of a step.
#[derive(Default)]
struct Outcome {
    done: u64,
    gone: u64,
    refused: Option<Refused>,
    /// When the first of them was decided, by the clock of the writer.
    decided: Option<Timestamp>,
}

#[derive(Template)]
#[template(path = "confirm.html")]
struct Confirm {
    frame: Frame,
    shell: Shell,
    is_discard: bool,
    /// How many this step concerns, and how many match.
    steps: u64,
    total: u64,
    samples: Vec<Row>,
    ids: Vec<String>,
    is_all: bool,
    filters: Vec<Field>,
    /// The time by which the events had failed.
    until: Timestamp,
    key: String,
    back: String,
    is_typed: bool,
    reason: String,
    reason_error: String,
    count_error: String,
}

impl Selection {
    fn of(level: OperatorLevel, form: &Form) -> Self {
        // The ids become part of a path of the API.
        let is_id = |id: &&str| id.bytes().all(|byte| byte.is_ascii_digit()) && id.parse::<u64>().is_ok();
        let ids: Vec<String> = form.all("id").filter(is_id).take(PAGE_MOST).map(str::to_owned).collect();
        Self { is_all: ids.is_empty() && form.get("all").is_some(), chosen: Chosen::of(level.filters(), form), ids }
    }

    fn is_nothing(&self) -> bool {
        !self.is_all && self.ids.is_empty()
    }

    /// The path of the list that it was chosen from.
    fn list(&self, more: &[(&str, String)]) -> String {
        self.chosen.path(FAILED_EVENTS, more)
    }
}

/// How many selected ids count, whatever a form has.
#[expect(clippy::cast_possible_truncation, reason = "it is 25")]
const PAGE_MOST: usize = PAGE as usize;

/// Finds the failed events that an action concerns, of those that had failed by a time, and how many match.
async fn select(
    operate: &Operate,
    visit: &Visit,
    selection: &Selection,
    until: Timestamp,
) -> Result<MatchPage, Refused> {
    if selection.is_all {
        let part = ListPart { offset: 0, limit: MOST, asc: true };
        return failed::search(operate, visit, selection.chosen.failed_by(until), part).await;
    }
    let mut rows = vec![];
    for id in &selection.ids {
        match failed::one(operate, visit, id).await {
            Ok(found) => rows.push(row(&found)),
            Err(Refused { status: StatusCode::NOT_FOUND, .. }) => {}
            Err(refused) => return Err(refused),
        }
    }
    let total = rows.len() as u64;
    Ok(MatchPage { rows, total })
}

/// Sends the same command for each of them, some at a time.
async fn each(operate: &Operate, visit: &Visit, ids: Vec<String>, command: RowCommand<'_>) -> Outcome {
    let RowCommand { what, body, key } = command;
    let one = |id: String| {
        let (path, key, body) = (format!("{}/{what}", visit.level.one(&id)), format!("{key}.{id}"), body.clone());
        async move { operate.api.send(visit, ApiRequest::command(path, body, key)).await }
    };
    let results = stream::iter(ids).take_until(sleep(LONGEST)).map(one).buffer_unordered(AT_ONCE);
    let mut results = pin!(results);
    let mut outcome = Outcome::default();
    while let Some(result) = results.next().await {
        match result {
            Ok(done) => {
                outcome.done += 1;
                outcome.decided = outcome.decided.into_iter().chain(decided(&done)).min();
            }
            Err(Refused { status: StatusCode::NOT_FOUND, .. }) => outcome.gone += 1,
            Err(refused) => {
                outcome.refused = Some(refused);
                break;
            }
        }
    }
    outcome
}

impl Outcome {
    /// Redirects to the list, which reports the outcome; if nothing was done, returns why.
    fn answer(self, visit: &Visit, selection: &Selection, what: &str, wanted: u64) -> Result<Response, Instead> {
        if let Some(refused) = self.refused.as_ref().filter(|_| self.done == 0) {
            return Err(visit.refused(refused));
        }
        let mut more =
            vec![("what", what.to_owned()), ("done", self.done.to_string()), ("gone", self.gone.to_string())];
        if let Some(decided) = self.decided.filter(|_| what == "retried") {
            more.push(("retried", decided.to_string()));
        }
        if self.done + self.gone < wanted || self.refused.is_some() {
            more.push(("rest", "1".to_owned()));
        }
        Ok(see_other(&selection.list(&more)))
    }
}

/// Shows what will be tried again.
pub(super) async fn confirm_retry(State(operate): State<Arc<Operate>>, visit: Visit) -> Result<Response, Instead> {
    confirm(&operate, &visit, false).await
}

/// Shows what will be discarded.
pub(super) async fn confirm_discard(State(operate): State<Arc<Operate>>, visit: Visit) -> Result<Response, Instead> {
    confirm(&operate, &visit, true).await
}

async fn confirm(operate: &Operate, visit: &Visit, is_discard: bool) -> Result<Response, Instead> {
    let act = if is_discard { Act::Discard } else { Act::Retry };
    if !visit.may(act) {
        let message = visit.level.permission(act).to_owned();
        return Err(visit.refused(&Refused { status: StatusCode::FORBIDDEN, message }));
    }
    let (selection, until) = (Selection::of(visit.level, &visit.query), clock::now());
    if selection.is_nothing() {
        return Ok(see_other(&nothing_selected(&selection)));
    }
    let found = select(operate, visit, &selection, until).await.map_err(|refused| visit.refused(&refused))?;
    Ok(confirmation(visit, &selection, found, Confirm::new(visit, is_discard, until)))
}

/// The page that asks for confirmation.
fn confirmation(visit: &Visit, selection: &Selection, found: MatchPage, confirm: Confirm) -> Response {
    let is_wrong = !confirm.reason_error.is_empty() || !confirm.count_error.is_empty();
    let status = if is_wrong { StatusCode::BAD_REQUEST } else { StatusCode::OK };
    let steps = if confirm.is_discard { found.rows.len() as u64 } else { found.total };
    let back = selection.list(&[]);
    let ids = if selection.is_all { vec![] } else { found.rows.iter().map(|row| row.id.clone()).collect() };
    let confirm = Confirm {
        steps,
        total: found.total,
        is_typed: confirm.is_discard && steps > TYPED,
        samples: found.rows.into_iter().take(SAMPLES).collect(),
        filters: if selection.is_all { selection.chosen.set() } else { vec![] },
        is_all: selection.is_all,
        ids,
        back,
        ..confirm
    };
    visit.page(status, &confirm.frame, &confirm)
}

impl Confirm {
    fn new(visit: &Visit, is_discard: bool, until: Timestamp) -> Self {
        Self {
            frame: frame(None),
            shell: visit.shell(FAILED_EVENTS),
            is_discard,
            steps: 0,
            total: 0,
            samples: vec![],
            ids: vec![],
            is_all: false,
            filters: vec![],
            until,
            key: secret::random_text(22),
            back: String::new(),
            is_typed: false,
            reason: String::new(),
            reason_error: String::new(),
            count_error: String::new(),
        }
    }

    /// The time by which they had failed, for people.
    fn shown_until(&self) -> String {
        ShownTime::at(self.until).shown
    }

    /// The text of the button.
    fn does(&self) -> String {
        let verb = if self.is_discard { "Discard" } else { "Retry" };
        format!("{verb} {}", failed_events(self.steps))
    }
}

/// When something was decided, from the answer.
fn decided(answer: &Value) -> Option<Timestamp> {
    text(&answer["details"]["changeDate"]).parse().ok()
}

/// Retries the selected failed events, or all that match.
pub(super) async fn retry(
    State(operate): State<Arc<Operate>>,
    Posted { visit, form }: Posted,
) -> Result<Response, Instead> {
    let (selection, key) = (Selection::of(visit.level, &form), key(&form));
    if selection.is_nothing() {
        return Ok(see_other(&nothing_selected(&selection)));
    }
    if !selection.is_all {
        let command = RowCommand { what: "_retry", body: json!({}), key: &key };
        let outcome = each(&operate, &visit, selection.ids.clone(), command).await;
        return outcome.answer(&visit, &selection, "retried", selection.ids.len() as u64);
    }
    let (path, body) = visit.level.retry(selection.chosen.failed_by(until(&form)));
    let done = operate
        .api
        .send(&visit, ApiRequest::command(path, body, key))
        .await
        .map_err(|refused| visit.refused(&refused))?;
    let outcome = Outcome { done: number(&done["count"]), decided: decided(&done), ..Outcome::default() };
    outcome.answer(&visit, &selection, "retried", 0)
}

/// Discards the confirmed failed events.
pub(super) async fn discard(
    State(operate): State<Arc<Operate>>,
    Posted { visit, form }: Posted,
) -> Result<Response, Instead> {
    let selection = Selection::of(visit.level, &form);
    if selection.is_nothing() {
        return Ok(see_other(&nothing_selected(&selection)));
    }
    if form.get("confirmed").is_none() {
        let ids: Vec<(&str, String)> = selection.ids.iter().map(|id| ("id", id.clone())).collect();
        return Ok(see_other(&selection.chosen.path("/ui/operate/failed/discard", &ids)));
    }
    let until = until(&form);
    let found = select(&operate, &visit, &selection, until).await.map_err(|refused| visit.refused(&refused))?;
    let mut confirm = Confirm::new(&visit, true, until);
    confirm.reason = form.get("reason").unwrap_or_default().to_owned();
    let steps = found.rows.len() as u64;
    confirm.reason_error = reason_error(&confirm.reason);
    if steps > TYPED && typed(&form) != Some(steps) {
        confirm.count_error = format!("Enter {}, the number of failed events", count(steps));
    }
    if !confirm.reason_error.is_empty() || !confirm.count_error.is_empty() {
        return Ok(confirmation(&visit, &selection, found, confirm));
    }
    let wanted = if selection.is_all { found.total } else { steps };
    let ids = found.rows.into_iter().map(|row| row.id).collect();
    let (body, key) = (json!({ "reason": confirm.reason }), key(&form));
    let command = RowCommand { what: "_discard", body, key: &key };
    let outcome = each(&operate, &visit, ids, command).await;
    outcome.answer(&visit, &selection, "discarded", wanted)
}

/// What is wrong with a reason.
pub(super) fn reason_error(reason: &str) -> String {
    let (length, is_plain) = (reason.chars().count(), !reason.chars().any(char::is_control));
    match length {
        _ if reason.trim().is_empty() => "Enter the reason".to_owned(),
        1..=1000 if is_plain => String::new(),
        1..=1000 => "The reason must be one line".to_owned(),
        _ => format!("The reason must have 1,000 characters or fewer; it has {}", count(length as u64)),
    }
}

fn typed(form: &Form) -> Option<u64> {
    form.get("count")?.replace([',', ' ', '.'], "").parse().ok()
}

/// The idempotency key of a write, which is the same if a form is sent twice.
fn key(form: &Form) -> String {
    let given = form.get("key").filter(|key| key.len() <= 64 && key.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    given.map_or_else(|| secret::random_text(22), str::to_owned)
}

fn nothing_selected(selection: &Selection) -> String {
    selection.list(&[("what", "nothing".to_owned()), ("done", "0".to_owned())])
}

/// When the confirmed page was shown.
fn until(form: &Form) -> Timestamp {
    form.get("until").and_then(|until| until.parse().ok()).unwrap_or_else(clock::now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_one_line_of_a_thousand_characters() {
        assert_eq!(reason_error("known bug"), "");
        assert_eq!(["", " ", "\u{a0}"].map(reason_error), ["Enter the reason"; 3]);
        assert!(reason_error("a\nb").contains("one line"));
        assert!(reason_error(&"é".repeat(1000)).is_empty() && reason_error(&"é".repeat(1001)).contains("1,001"));
    }

    #[test]
    fn a_count_may_have_its_thousands_apart() {
        let typed = |text: &str| super::typed(&Form::of_query(Some(text)));
        assert_eq!([typed("count=1,284"), typed("count=1284"), typed("count=x")], [Some(1284), Some(1284), None]);
    }

    #[test]
    fn boxes_come_before_all() {
        let selection = Selection::of(OperatorLevel::System, &Form::of_query(Some("id=1&id=2&all=1")));
        assert!(!selection.is_all && selection.ids == ["1", "2"]);
        assert!(Selection::of(OperatorLevel::System, &Form::of_query(Some("all=1"))).is_all);
        assert!(Selection::of(OperatorLevel::System, &Form::default()).is_nothing());
    }
}
