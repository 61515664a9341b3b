//! `platform target`: prints recent deliveries to a target.

use reqwest::Method;
use serde_json::Value;

use crate::{
    Failure, cli,
    operator::{Operator, RESOURCES, segment},
    output,
};

/// Prints the last attempts to deliver events to a target.
pub(crate) async fn deliveries(options: cli::TargetDeliveries) -> Result<(), Failure> {
    let operator = Operator::new(&options.at)?;
    let path = format!("{RESOURCES}/targets/{}/deliveries", segment(&options.id)?);
    let found = operator.send(Method::GET, &path, None).await?;
    let attempts = found["result"].as_array().map(Vec::as_slice).unwrap_or_default();
    for attempt in attempts {
        output::print(if options.json { attempt.to_string() } else { line(attempt) });
    }
    output::notice(match attempts.len() {
        0 => "no event was delivered to it lately".to_owned(),
        1 => "the last attempt".to_owned(),
        count => format!("the last {count} attempts"),
    });
    Ok(())
}

fn line(attempt: &Value) -> String {
    let of = |member: &str| attempt[member].as_str().unwrap_or_default();
    let outcome = match of("outcome") {
        "DELIVERY_OUTCOME_DELIVERED" => "was delivered".to_owned(),
        "DELIVERY_OUTCOME_GIVEN_UP" => format!("was given up: {}", of("errorMessage")),
        _ => format!("failed, and is being retried: {}", of("errorMessage")),
    };
    format!(
        "{} {} event {} of {} {}, attempt {}, {outcome}",
        of("attemptedAt"),
        of("eventType"),
        of("sequence"),
        of("aggregateType"),
        of("aggregateId"),
        attempt["attempt"]
    )
}
