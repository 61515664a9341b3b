//! `platform failed-events`: shows the events that views could not process or deliver, and retries or discards them.

mod export;
mod watch;

use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    Failure,
    cli::{self, FailedEventState, WhichFailedEvents},
    operator::{Operator, segment},
    output,
};

pub(crate) use self::{export::export, watch::watch};

const PATH: &str = "/system/v1/failedevents";
/// How many failed events are listed at most.
const LISTED: u64 = 1000;

/// Prints the matching failed events.
pub(crate) async fn list(options: cli::ListFailedEvents) -> Result<(), Failure> {
    let operator = Operator::new(&options.at)?;
    let found = search(&operator, filters(&options.which), json!({ "limit": LISTED })).await?;
    for event in &found.events {
        output::print(if options.json { event.to_string() } else { line(event) });
    }
    let (listed, total) = (found.events.len(), &found.total);
    let more = if listed.to_string() == *total { "" } else { "; `failed-events export` prints all of them" };
    output::notice(format!("{listed} of {total} failed events{more}"));
    Ok(())
}

/// A page of the matching failed events.
struct ListedEvents {
    events: Vec<Value>,
    /// How many match in total.
    total: String,
}

async fn search(operator: &Operator, filters: Vec<Value>, query: Value) -> Result<ListedEvents, Failure> {
    let body = json!({ "filters": filters, "query": query });
    let mut found = operator.send(Method::POST, &format!("{PATH}/_search"), Some(body)).await?;
    let total = found["details"]["totalResult"].as_str().unwrap_or("0").to_owned();
    let events = match found["result"].take() {
        Value::Array(events) => events,
        _ => vec![],
    };
    Ok(ListedEvents { events, total })
}

fn line(event: &Value) -> String {
    let of = |member: &str| event[member].as_str().unwrap_or_default();
    let target = of("targetId");
    let target = if target.is_empty() { String::new() } else { format!(" to target {target}") };
    let became = match (of("discardedBy"), of("retriedBy")) {
        ("", "") => String::new(),
        ("", by) => format!(" (being retried since {}, by {by})", of("retriedAt")),
        (by, _) => format!(" (discarded by {by} at {}: {})", of("discardedAt"), of("reason")),
    };
    format!(
        "{} {}: event {} of {} {} in instance {}{target} failed {} times, first at {}, last at {}{became}: {}",
        of("id"),
        of("viewName"),
        of("sequence"),
        of("aggregateType"),
        of("aggregateId"),
        of("instanceId"),
        of("failureCount"),
        of("firstFailed"),
        of("lastFailed"),
        of("errorMessage")
    )
}

/// Prints one failed event, with the event itself.
pub(crate) async fn show(options: cli::ShowFailedEvent) -> Result<(), Failure> {
    let operator = Operator::new(&options.at)?;
    let mut found = operator.send(Method::GET, &one(&options.id)?, None).await?;
    if let Some(reason) = options.reason {
        let body = json!({ "reason": reason });
        let path = format!("{}/_reveal", one(&options.id)?);
        let mut shown = operator.send_at_once(Method::POST, &path, Some(body)).await?;
        (found["event"], found["personal"]) = (shown["event"].take(), shown["personal"].take());
    }
    output::print(if options.json { serde_json::to_string_pretty(&found)? } else { describe(&found) });
    Ok(())
}

/// Formats a failed event for people: what failed, what waits, and the event.
fn describe(found: &Value) -> String {
    let (failed, event) = (&found["failedEvent"], &found["event"]);
    let of = |value: &Value, member: &str| value[member].as_str().unwrap_or_default().to_owned();
    let waiting = match of(found, "waiting").as_str() {
        "" | "0" => "no event waits for it".to_owned(),
        "1" => "1 event waits for it".to_owned(),
        waiting => format!("{waiting} events wait for it"),
    };
    let payload = of(event, "payload");
    let payload = serde_json::from_str::<Value>(&payload).ok().and_then(|it| serde_json::to_string_pretty(&it).ok());
    let event = match of(event, "type") {
        kind if kind.is_empty() => "history does not have the event itself".to_owned(),
        kind => {
            let (by, at) = (of(event, "actorId"), of(event, "creationDate"));
            format!("{kind} by {by} at {at}: {}", payload.unwrap_or_else(|| "no payload".to_owned()))
        }
    };
    format!("{}\n{waiting}\n{event}{}", line(failed), personal(&found["personal"]))
}

/// Formats the state of the personal members of a payload, a line each; nothing where they were not requested.
fn personal(members: &Value) -> String {
    let line = |member: &Value| {
        let (path, state) = (member["path"].as_str().unwrap_or_default(), member["state"].as_str().unwrap_or_default());
        let state = match state {
            "PERSONAL_MEMBER_STATE_SHOWN" => "is shown",
            "PERSONAL_MEMBER_STATE_ERASED" => "is gone: the person was erased",
            "PERSONAL_MEMBER_STATE_KEY_LOST" => "cannot be shown: the key of the person is lost",
            _ => "is damaged, and cannot be shown",
        };
        format!("\n{path} {state}")
    };
    members.as_array().into_iter().flatten().map(line).collect()
}

/// Retries failed events.
pub(crate) async fn retry(options: cli::RetryFailedEvents) -> Result<(), Failure> {
    let operator = Operator::new(&options.at)?;
    if let Some(id) = &options.id {
        operator.send(Method::POST, &format!("{}/_retry", one(id)?), None).await?;
        print(options.json, &json!({ "count": 1 }), "it is being retried");
        return Ok(());
    }
    let body = json!({ "filters": filters(&options.which) });
    let answer = operator.send(Method::POST, &format!("{PATH}/_retry"), Some(body)).await?;
    let count: u64 = answer["count"].as_str().and_then(|count| count.parse().ok()).unwrap_or_default();
    print(options.json, &json!({ "count": count }), &format!("{count} are being retried"));
    Ok(())
}

/// Discards a failed event.
pub(crate) async fn discard(options: cli::DiscardFailedEvent) -> Result<(), Failure> {
    let operator = Operator::new(&options.at)?;
    let body = json!({ "reason": options.reason });
    operator.send(Method::POST, &format!("{}/_discard", one(&options.id)?), Some(body)).await?;
    print(options.json, &json!({ "id": options.id }), "the view discards it");
    Ok(())
}

/// Prints what was done, for programs or for people.
fn print(is_json: bool, value: &Value, sentence: &str) {
    output::print(if is_json { value.to_string() } else { sentence.to_owned() });
}

fn one(id: &str) -> Result<String, Failure> {
    Ok(format!("{PATH}/{}", segment(id)?))
}

fn filters(which: &WhichFailedEvents) -> Vec<Value> {
    let WhichFailedEvents { view, instance, aggregate_type, aggregate, target, error, since, before, state } = which;
    let named = [
        ("viewName", view),
        ("instanceId", instance),
        ("aggregateType", aggregate_type),
        ("aggregateId", aggregate),
        ("targetId", target),
        ("errorMessage", error),
    ];
    let named = named.into_iter().filter_map(|(name, value)| Some(json!({ name: value.as_ref()? })));
    let since = since.map(|at| last_failed(&at.to_string(), "GREATER_OR_EQUALS"));
    let before = before.map(|at| last_failed(&at.to_string(), "LESS"));
    let state = state.map(|state| {
        json!({ "state": match state {
            FailedEventState::Failed => "FAILED_EVENT_STATE_FAILED",
            FailedEventState::Retrying => "FAILED_EVENT_STATE_RETRYING",
            FailedEventState::Discarded => "FAILED_EVENT_STATE_DISCARDED",
        } })
    });
    named.chain(since).chain(before).chain(state).collect()
}

/// Returns a filter by the time of the last failure.
fn last_failed(at: &str, method: &str) -> Value {
    json!({ "lastFailed": { "lastFailed": at, "method": format!("TIMESTAMP_Filter_METHOD_{method}") } })
}

/// Returns the time of the last failure.
fn time(event: &Value) -> Option<Timestamp> {
    event["lastFailed"].as_str()?.parse().ok()
}
