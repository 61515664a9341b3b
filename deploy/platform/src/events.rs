//! `platform events`: lists and exports the events of all instances, as a running platform returns them.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{Failure, cli, operator::Operator, output};

const SEARCH: &str = "/system/v1/events/_search";
/// The largest page that the platform returns.
const PAGE: u64 = 1000;

/// Prints the newest of the selected events, the newest last.
pub(crate) async fn list(options: cli::ListEvents) -> Result<(), Failure> {
    let operator = Operator::new(&options.wanted.at)?;
    let body = json!({ "query": { "limit": options.limit }, "filters": filters(&options.wanted) });
    let found = operator.send(Method::POST, SEARCH, Some(body)).await?;
    let result = found["result"].as_array().map(Vec::as_slice).unwrap_or_default();
    for event in result.iter().rev() {
        output::print(if options.json { event.to_string() } else { line(event) });
    }
    let total = found["details"]["totalResult"].as_str().unwrap_or_default();
    output::notice(format!("{} of {total} events", result.len()));
    Ok(())
}

/// Prints all selected events as JSON, one a line, the oldest first, and the sequence to continue after.
pub(crate) async fn export(options: cli::ExportEvents) -> Result<(), Failure> {
    let operator = Operator::new(&options.wanted.at)?;
    let wanted = filters(&options.wanted);
    let (mut last, mut count) = (options.after, 0);
    loop {
        let later = json!({ "afterSequence": last.to_string() });
        let filters: Vec<&Value> = wanted.iter().chain([&later]).collect();
        let body = json!({ "query": { "limit": PAGE, "asc": true }, "filters": filters });
        let found = operator.send(Method::POST, SEARCH, Some(body)).await;
        let found = found.map_err(|error| format!("{error}; {count} events are printed, go on with --after {last}"))?;
        let result = found["result"].as_array().map(Vec::as_slice).unwrap_or_default();
        for event in result {
            output::print(event);
            let sequence = event["sequence"].as_str().and_then(|sequence| sequence.parse().ok());
            last = sequence.ok_or("the platform returned an event without a sequence")?;
        }
        count += result.len();
        if found["details"]["endOfList"] == json!(true) || result.is_empty() {
            output::notice(format!("{count} events; go on with --after {last}"));
            return Ok(());
        }
    }
}

/// Returns the filters of the request to the platform.
fn filters(wanted: &cli::WantedEvents) -> Vec<Value> {
    let texts = [
        ("instanceId", &wanted.instance),
        ("type", &wanted.r#type),
        ("aggregateType", &wanted.aggregate_type),
        ("aggregateId", &wanted.aggregate),
        ("actorId", &wanted.actor),
    ];
    let mut filters: Vec<Value> =
        texts.iter().filter_map(|(name, text)| Some(json!({ *name: text.as_ref()? }))).collect();
    for (time, method) in [(&wanted.since, "GREATER_OR_EQUALS"), (&wanted.until, "LESS")] {
        let Some(time) = time else { continue };
        let method = format!("TIMESTAMP_Filter_METHOD_{method}");
        filters.push(json!({ "creationDate": { "creationDate": time.to_string(), "method": method } }));
    }
    filters
}

fn line(event: &Value) -> String {
    let text = |name: &str| event[name].as_str().unwrap_or_default().replace(char::is_control, " ");
    let or_none = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    format!(
        "{} {} {} {}/{} v{} {} by {}",
        text("sequence"),
        text("creationDate"),
        or_none(text("instanceId")),
        text("aggregateType"),
        text("aggregateId"),
        text("version"),
        text("type"),
        or_none(text("actorId")),
    )
}
