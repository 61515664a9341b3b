//! `platform projections`: shows the progress of projections, and builds, compares and exchanges their generations.

use std::time::Duration;

use base::{
    clock,
    speed::{ProgressSamples, Speed, percent},
};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use view::scrub::parts_of;

use crate::{
    Failure, cli,
    operator::{Operator, segment},
    output,
};

const PATH: &str = "/system/v1/views";
/// How often the progress of a generation is requested.
const EVERY: Duration = Duration::from_secs(1);
/// The width of a progress bar, in characters.
const WIDTH: usize = 30;
/// How long to wait for a comparison, which goes on afterwards.
const COMPARING: Duration = Duration::from_mins(10);
const NEXT: &str = "VIEW_GENERATION_PLACE_NEXT";
const PREVIOUS: &str = "VIEW_GENERATION_PLACE_PREVIOUS";

/// Runs the subcommand.
pub(crate) async fn run(asked: cli::Projections) -> Result<(), Failure> {
    match asked {
        cli::Projections::List(options) => list(*options).await,
        cli::Projections::Status(options) => status(*options).await,
        cli::Projections::Replay(options) => replay(*options).await,
        cli::Projections::Verify(options) => verify(*options).await,
        cli::Projections::Switch(options) => exchange(*options, "_switch").await,
        cli::Projections::Rollback(options) => exchange(*options, "_rollback").await,
        cli::Projections::Drop(options) => drop_generation(*options).await,
    }
}

/// Prints all projections.
async fn list(options: cli::ListProjections) -> Result<(), Failure> {
    for view in views(&Operator::new(&options.at)?).await? {
        output::print(if options.json { view.to_string() } else { line(&view) });
    }
    Ok(())
}

/// Prints a projection.
async fn status(options: cli::OneProjection) -> Result<(), Failure> {
    let view = view(&Operator::new(&options.at)?, &options.name).await?;
    output::print(serde_json::to_string_pretty(&view)?);
    Ok(())
}

/// Starts building a generation from the log.
async fn replay(cli::ReplayProjection { of, wait }: cli::ReplayProjection) -> Result<(), Failure> {
    let operator = Operator::new(&of.at)?;
    operator.send(Method::POST, &path(&of.name, "_replay", &[])?, None).await?;
    output::notice("a generation is being built beside the active one");
    if wait {
        let found = follow(&operator, &of.name, NEXT).await?;
        output::print(compared(&found));
    }
    Ok(())
}

/// Compares a generation with the one that answers.
async fn verify(cli::GenerationOf { of, previous }: cli::GenerationOf) -> Result<(), Failure> {
    let (operator, place) = (Operator::new(&of.at)?, place(previous));
    operator.send(Method::POST, &path(&of.name, "_verify", &[("place", place)])?, None).await?;
    let found = follow(&operator, &of.name, place).await?;
    output::print(compared(&found));
    let is_equal = number(&found["differingRows"]) == 0;
    if is_equal { Ok(()) } else { Err("the generations differ".into()) }
}

/// Lets another generation answer.
async fn exchange(cli::Exchange { of, force }: cli::Exchange, how: &str) -> Result<(), Failure> {
    let force = if force { "true" } else { "false" };
    Operator::new(&of.at)?.send(Method::POST, &path(&of.name, how, &[("force", force)])?, None).await?;
    output::print(format!("{} has switched; the previous generation is kept up to date", of.name));
    Ok(())
}

/// Drops a generation.
async fn drop_generation(cli::GenerationOf { of, previous }: cli::GenerationOf) -> Result<(), Failure> {
    let path = path(&of.name, "_drop", &[("place", place(previous))])?;
    Operator::new(&of.at)?.send(Method::POST, &path, None).await?;
    output::print("it is dropped");
    Ok(())
}

/// Waits until a generation has caught up with the one that answers and was compared with it.
async fn follow(operator: &Operator, name: &str, place: &str) -> Result<Value, Failure> {
    let mut samples = ProgressSamples::default();
    let mut complete_since = None;
    loop {
        let view = view(operator, name).await?;
        let generations = view["generations"].as_array().map(Vec::as_slice).unwrap_or_default();
        let found = generations.iter().find(|generation| generation["place"] == place);
        let found = found.ok_or("the generation was dropped, or is active already")?;
        let is_compared = found["verifiedAt"].is_string();
        let (at, end) = (number(&found["processedSequence"]), number(&view["processedSequence"]));
        samples.add(clock::since_start(), at);
        output::notice(progress(&samples, at, end, is_compared));
        if is_compared {
            return Ok(found.clone());
        }
        if at >= end && complete_since.get_or_insert_with(Instant::now).elapsed() > COMPARING {
            return Err("it is not compared yet: see `platform projections list` and the log of the projector".into());
        }
        sleep(EVERY).await;
    }
}

/// Returns a progress bar with percent, events per second and the time that is left.
fn progress(samples: &ProgressSamples, at: u64, end: u64, is_compared: bool) -> String {
    let percent = percent(at, end);
    let full = usize::try_from(percent).unwrap_or_default() * WIDTH / 100;
    let bar = format!("[{}{}] {percent} %", "#".repeat(full), ".".repeat(WIDTH - full));
    if is_compared {
        return bar;
    }
    if at >= end {
        return format!("{bar}, it is compared");
    }
    match samples.speed(end) {
        Some(Speed { per_second, seconds_left }) => format!("{bar}, {per_second} events/s, {seconds_left} s left"),
        None => bar,
    }
}

fn compared(found: &Value) -> String {
    let failed = match number(&found["failedEventCount"]) {
        0 => String::new(),
        failed => format!("; it could not process {failed} events"),
    };
    let differing = number(&found["differingRows"]);
    if differing == 0 {
        return format!("it has caught up with the active generation and equals it{failed}");
    }
    let examples = found["differingExamples"].as_array().map(Vec::as_slice).unwrap_or_default();
    let examples: Vec<&str> = examples.iter().filter_map(Value::as_str).collect();
    format!("{differing} rows differ from the active generation{failed}, among them: {}", examples.join(", "))
}

fn line(view: &Value) -> String {
    let of = |value: &Value, member: &str| value[member].as_str().unwrap_or_default().to_owned();
    let end = number(&view["processedSequence"]);
    let generations = view["generations"].as_array().map(Vec::as_slice).unwrap_or_default();
    let beside = generations.iter().map(|generation| {
        let name = if generation["place"] == PREVIOUS { "previous" } else { "next" };
        let at = number(&generation["processedSequence"]);
        let percent = percent(at, end);
        let state = match (generation["verifiedAt"].is_string(), number(&generation["differingRows"])) {
            (false, _) => "not compared yet".to_owned(),
            (true, 0) => "equal".to_owned(),
            (true, differing) => format!("{differing} rows differ"),
        };
        format!("; {name}: {at} ({percent} %), {state}, {} failed events", number(&generation["failedEventCount"]))
    });
    let beside: String = beside.collect();
    let (name, log, failed) = (of(view, "viewName"), of(view, "log"), number(&view["failedEventCount"]));
    let stopped = match of(view, "stoppedReason") {
        reason if reason.is_empty() => reason,
        reason => format!("; it has stopped until an operator acts: {reason}"),
    };
    let (version, check) = (number(&view["version"]), check(&view["check"], parts_of(&name)));
    format!("{name} version {version}: {end} of {log}, {failed} failed events{stopped}{check}{beside}")
}

/// Says what the regular check against the log has found of the parts of a view.
fn check(found: &Value, parts: &str) -> String {
    let checked = found["checkedAt"].as_str().map(|at| format!("; checked {at}"));
    let repaired = found["repairedAt"].as_str().map(|at| {
        let examples = found["repairedExamples"].as_array().map(Vec::as_slice).unwrap_or_default();
        let examples: Vec<&str> = examples.iter().filter_map(Value::as_str).collect();
        format!("; {} {parts} repaired, the last {at}: {}", number(&found["repairedRows"]), examples.join(", "))
    });
    [checked, repaired].into_iter().flatten().collect()
}

/// Returns a view.
async fn view(operator: &Operator, name: &str) -> Result<Value, Failure> {
    let found = views(operator).await?.into_iter().find(|view| view["viewName"] == name);
    Ok(found.ok_or_else(|| format!("there is no projection {name}; `platform projections list` names them"))?)
}

async fn views(operator: &Operator) -> Result<Vec<Value>, Failure> {
    let mut found = operator.send(Method::POST, &format!("{PATH}/_search"), Some(json!({}))).await?;
    Ok(match found["result"].take() {
        Value::Array(views) => views,
        _ => vec![],
    })
}

fn path(name: &str, what: &str, query: &[(&str, &str)]) -> Result<String, Failure> {
    let query = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
    Ok(format!("{PATH}/{}/{what}?{query}", segment(name)?))
}

const fn place(is_previous: bool) -> &'static str {
    if is_previous { PREVIOUS } else { NEXT }
}

/// Parses a number of the API: those of 64 bits are strings.
fn number(value: &Value) -> u64 {
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or_default()
}
