//! `platform failed-events`: what views could not process, and what is done about it.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    Failure,
    cli::{self, WhichFailedEvents},
    operator::Operator,
    output,
};

const PATH: &str = "/system/v1/failedevents";
/// How many are listed at most.
const LISTED: u64 = 1000;

/// Prints those that are found.
pub(crate) async fn list(options: cli::ListFailedEvents) -> Result<(), Failure> {
    let operator = Operator::new(&options.at)?;
    let body = json!({ "filters": filters(&options.which), "query": { "limit": LISTED } });
    let found = operator.ask(Method::POST, &format!("{PATH}/_search"), Some(body)).await?;
    let result = found["result"].as_array().map(Vec::as_slice).unwrap_or_default();
    for event in result {
        output::print(if options.json { event.to_string() } else { line(event) });
    }
    let total = found["details"]["totalResult"].as_str().unwrap_or("0");
    output::notice(format!("{} of {total} failed events", result.len()));
    Ok(())
}

fn line(event: &Value) -> String {
    let of = |member: &str| event[member].as_str().unwrap_or_default();
    format!(
        "{} {}: event {} of {} {} in instance {} failed {} times, last at {}: {}",
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

fn filters(WhichFailedEvents { view, instance, aggregate_type, aggregate }: &WhichFailedEvents) -> Vec<Value> {
    let named =
        [("viewName", view), ("instanceId", instance), ("aggregateType", aggregate_type), ("aggregateId", aggregate)];
    named.into_iter().filter_map(|(name, value)| Some(json!({ name: value.as_ref()? }))).collect()
}
