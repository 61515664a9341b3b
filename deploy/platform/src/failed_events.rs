//! `platform failed-events`: what views could not process, and what is done about it.

mod export;
mod watch;

use reqwest::Method;
use serde_json::{Value, json};

pub(crate) use self::{export::run as export, watch::run as watch};
use crate::{
    Failure,
    cli::{self, WhichFailedEvents},
    operator::Operator,
    output,
};

const PATH: &str = "/system/v1/failedevents";
/// How many are listed at most, the largest page that the platform answers.
const LISTED: usize = 1000;

/// Prints those that are found.
pub(crate) async fn list(options: cli::ListFailedEvents) -> Result<(), Failure> {
    let operator = Operator::new(&options.at)?;
    let body = json!({ "filters": filters(&options.which), "query": { "limit": LISTED } });
    let found = operator.ask(Method::POST, &format!("{PATH}/_search"), Some(body)).await?;
    let result = result(&found);
    for event in result {
        output::print(if options.json { event.to_string() } else { line(event) });
    }
    let total = found["details"]["totalResult"].as_str().unwrap_or("0");
    output::notice(match (result.len(), total) {
        (0, "0") => "nothing has failed that is asked for".to_owned(),
        (shown, total) => format!("{shown} of {total} failed events"),
    });
    Ok(())
}

fn result(found: &Value) -> &[Value] {
    found["result"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// One of them as a sentence.
fn line(event: &Value) -> String {
    let of = |member: &str| event[member].as_str().unwrap_or_default().replace(char::is_control, " ");
    let what = format!("event {} of {} {}", of("sequence"), of("aggregateType"), of("aggregateId"));
    let to = Some(of("targetId")).filter(|target| !target.is_empty());
    let to = to.map(|target| format!(" for target {target}")).unwrap_or_default();
    let since = match of("state").as_str() {
        "FAILED_EVENT_STATE_RETRYING" => {
            format!(", and {} has had it tried again at {}", of("retriedBy"), of("retriedAt"))
        }
        "FAILED_EVENT_STATE_DISCARDED" => {
            format!(", and {} has had it left out at {}: {}", of("discardedBy"), of("discardedAt"), of("reason"))
        }
        _ => String::new(),
    };
    format!(
        "{} {}: {what}{to} in instance {} failed {} times, last at {}: {}{since}",
        of("id"),
        of("viewName"),
        of("instanceId"),
        of("failureCount"),
        of("lastFailed"),
        of("errorMessage"),
    )
}

/// Prints one, with the event itself.
pub(crate) async fn show(options: cli::ShowFailedEvent) -> Result<(), Failure> {
    let operator = Operator::new(&options.at)?;
    let found = operator.ask(Method::GET, &one(&options.id), None).await?;
    if options.json {
        output::print(found);
        return Ok(());
    }
    output::print(line(&found["failedEvent"]));
    let of = |member: &str| found["event"][member].as_str().unwrap_or_default();
    if found["event"].is_object() {
        output::print(format!("{} by {} at {}: {}", of("type"), of("actorId"), of("creationDate"), of("payload")));
    }
    output::print(match found["waiting"].as_str().unwrap_or("0") {
        "0" => "no event waits behind it".to_owned(),
        "1" => "one event waits behind it".to_owned(),
        waiting => format!("{waiting} events wait behind it"),
    });
    Ok(())
}

/// Has views try again.
pub(crate) async fn retry(options: cli::RetryFailedEvents) -> Result<(), Failure> {
    let operator = Operator::new(&options.at)?;
    if let Some(id) = &options.id {
        let answer = operator.ask(Method::POST, &format!("{}/_retry", one(id)), None).await?;
        output::print(if options.json { answer.to_string() } else { "it is tried again".to_owned() });
        return Ok(());
    }
    let body = json!({ "filters": filters(&options.which) });
    let answer = operator.ask(Method::POST, &format!("{PATH}/_retry"), Some(body)).await?;
    let of = |member: &str| answer[member].as_str().unwrap_or("0").to_owned();
    output::print(match (of("count").as_str(), of("resumedViews").as_str()) {
        _ if options.json => answer.to_string(),
        ("0", "0") => "nothing has failed that is asked for".to_owned(),
        (count, "0") => format!("{count} are tried again"),
        (count, resumed) => format!("{count} are tried again, and {resumed} views go on that stood still"),
    });
    Ok(())
}

/// Has a view leave one out.
pub(crate) async fn discard(options: cli::DiscardFailedEvent) -> Result<(), Failure> {
    let operator = Operator::new(&options.at)?;
    let body = json!({ "reason": options.reason });
    let answer = operator.ask(Method::POST, &format!("{}/_discard", one(&options.id)), Some(body)).await?;
    output::print(if options.json { answer.to_string() } else { "the view leaves it out".to_owned() });
    Ok(())
}

fn one(id: &str) -> String {
    let id: String = url::form_urlencoded::byte_serialize(id.as_bytes()).collect();
    format!("{PATH}/{id}")
}

/// What is asked for, as the platform takes it.
fn filters(which: &WhichFailedEvents) -> Vec<Value> {
    let WhichFailedEvents { view, instance, aggregate_type, aggregate, error, since, until, state } = which;
    let (since, until) = (since.map(|time| time.to_string()), until.map(|time| time.to_string()));
    let state = state.map(|state| state.name().to_owned());
    let named = [
        ("viewName", view),
        ("instanceId", instance),
        ("aggregateType", aggregate_type),
        ("aggregateId", aggregate),
        ("errorMessage", error),
        ("failedFrom", &since),
        ("failedUntil", &until),
        ("state", &state),
    ];
    named.into_iter().filter_map(|(name, value)| Some(json!({ name: value.as_ref()? }))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_sentence_and_has_one_line() {
        let event = json!({
            "id": "7", "viewName": "actions", "sequence": "9", "aggregateType": "user", "aggregateId": "3",
            "targetId": "5", "instanceId": "1", "failureCount": "2", "lastFailed": "2026-11-24T00:00:00Z",
            "errorMessage": "it answered\n503", "state": "FAILED_EVENT_STATE_DISCARDED", "discardedBy": "operator",
            "discardedAt": "2026-11-25T00:00:00Z", "reason": "it is old",
        });
        assert_eq!(
            line(&event),
            "7 actions: event 9 of user 3 for target 5 in instance 1 failed 2 times, last at 2026-11-24T00:00:00Z: it answered \
             503, and operator has had it left out at 2026-11-25T00:00:00Z: it is old"
        );
    }
}
