//! `platform failed-events`: what views could not process or deliver, and what is done about it.

mod export;
mod watch;

use jiff::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    Failure,
    cli::{self, WhichFailedEvents},
    operator::Operator,
    output,
};

pub(crate) use self::{export::export, watch::watch};

const PATH: &str = "/system/v1/failedevents";
/// How many are listed at most.
const LISTED: u64 = 1000;

/// Prints those that are found.
pub(crate) async fn list(options: cli::ListFailedEvents) -> Result<(), Failure> {
    let operator = Operator::new(&options.at)?;
    let found = search(&operator, filters(&options.which), json!({ "limit": LISTED })).await?;
    for event in &found.events {
        output::print(if options.json { event.to_string() } else { line(event) });
    }
    output::notice(format!("{} of {} failed events", found.events.len(), found.total));
    Ok(())
}

/// Some of those that match.
struct Found {
    events: Vec<Value>,
    /// How many match.
    total: String,
}

async fn search(operator: &Operator, filters: Vec<Value>, query: Value) -> Result<Found, Failure> {
    let body = json!({ "filters": filters, "query": query });
    let mut found = operator.ask(Method::POST, &format!("{PATH}/_search"), Some(body)).await?;
    let total = found["details"]["totalResult"].as_str().unwrap_or("0").to_owned();
    let events = match found["result"].take() {
        Value::Array(events) => events,
        _ => vec![],
    };
    Ok(Found { events, total })
}

fn line(event: &Value) -> String {
    let of = |member: &str| event[member].as_str().unwrap_or_default();
    let target = of("targetId");
    let target = if target.is_empty() { String::new() } else { format!(" to target {target}") };
    let retried = match of("retriedBy") {
        "" => String::new(),
        by => format!(" (tried again by {by} since {})", of("retriedAt")),
    };
    format!(
        "{} {}: event {} of {} {} in instance {}{target} failed {} times, last at {}{retried}: {}",
        of("id"),
        of("viewName"),
        of("sequence"),
        of("aggregateType"),
        of("aggregateId"),
        of("instanceId"),
        of("failureCount"),
        of("lastFailed"),
        of("errorMessage")
    )
}

/// Prints one, with the event itself.
pub(crate) async fn show(options: cli::ShowFailedEvent) -> Result<(), Failure> {
    let operator = Operator::new(&options.at)?;
    let found = operator.ask(Method::GET, &one(&options.id), None).await?;
    output::print(serde_json::to_string_pretty(&found)?);
    Ok(())
}

/// Has views try again.
pub(crate) async fn retry(options: cli::RetryFailedEvents) -> Result<(), Failure> {
    let operator = Operator::new(&options.at)?;
    if let Some(id) = &options.id {
        operator.ask(Method::POST, &format!("{}/_retry", one(id)), None).await?;
        output::print("it is tried again");
        return Ok(());
    }
    let body = json!({ "filters": filters(&options.which) });
    let answer = operator.ask(Method::POST, &format!("{PATH}/_retry"), Some(body)).await?;
    output::print(format!("{} are tried again", answer["count"].as_str().unwrap_or("0")));
    Ok(())
}

/// Has a view leave one out.
pub(crate) async fn discard(options: cli::DiscardFailedEvent) -> Result<(), Failure> {
    let operator = Operator::new(&options.at)?;
    let body = json!({ "reason": options.reason });
    operator.ask(Method::POST, &format!("{}/_discard", one(&options.id)), Some(body)).await?;
    output::print("the view leaves it out");
    Ok(())
}

fn one(id: &str) -> String {
    let id: String = url::form_urlencoded::byte_serialize(id.as_bytes()).collect();
    format!("{PATH}/{id}")
}

fn filters(which: &WhichFailedEvents) -> Vec<Value> {
    let WhichFailedEvents { view, instance, aggregate_type, aggregate, target, error, since, before } = which;
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
    named.chain(since).chain(before).collect()
}

/// A filter by when they failed the last time.
fn last_failed(at: &str, method: &str) -> Value {
    json!({ "lastFailed": { "lastFailed": at, "method": format!("TIMESTAMP_Filter_METHOD_{method}") } })
}

/// When one failed the last time.
fn time(event: &Value) -> Option<Timestamp> {
    event["lastFailed"].as_str()?.parse().ok()
}
