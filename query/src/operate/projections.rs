//! Projections, indexes and other followers of the log: their progress, their speed, and their failures.

use std::sync::Arc;

use askama::Template;
use axum::{
    extract::{Path, State},
    response::Response,
};
use base::{
    secret,
    speed::{ProgressSamples, Speed, percent},
};
use http::StatusCode;
use page::{
    answer::see_other,
    component::{Badge, Chart, Frame, Size, count},
};
use serde_json::{Value, json};
use view::{projection::PROJECTIONS, scrub::parts_of};

use super::{
    Operate,
    api_client::ApiRequest,
    level::Act,
    reactions::Reaction,
    refused::Refused,
    samples::Lag,
    shell::{Shell, frame},
    text::{ShownTime, digest, enum_name, number, text},
    visit::{Instead, OfSystem, Posted, Visit},
};

/// The path in the menu.
const LIST: &str = "/ui/operate/projections";
const EQUAL: &str = "Equal";
/// How many seconds a projection may lack an event and still count as current.
const CURRENT: u64 = 2;
/// The sizes of charts: in a table, and alone.
pub(super) const SMALL: Size = Size { width: 120, height: 24 };
pub(super) const LARGE: Size = Size { width: 600, height: 160 };

/// A projection as pages show it.
pub(super) struct Row {
    pub(super) name: String,
    pub(super) database: String,
    pub(super) version: u64,
    pub(super) badge: Badge,
    pub(super) state: &'static str,
    /// Why it has stopped; empty if it has not.
    pub(super) stopped: String,
    pub(super) failed: u64,
    pub(super) position: String,
    pub(super) lag: Lag,
    pub(super) at: Option<ShownTime>,
    pub(super) generations: Vec<GenerationRow>,
    check: Check,
}

/// What the regular check against the log has found.
struct Check {
    /// What the view consists of.
    parts: &'static str,
    checked: Option<ShownTime>,
    rows: String,
    repaired: Option<ShownTime>,
    repaired_rows: String,
    examples: String,
}

/// A generation beside the one that answers.
pub(super) struct GenerationRow {
    /// `next` or `previous`.
    pub(super) place: String,
    since: Option<ShownTime>,
    /// Its position, and that of the one that answers.
    pub(super) reached: u64,
    end: u64,
    pub(super) failed: u64,
    compared: String,
}

#[derive(Template)]
#[template(path = "projections.html")]
struct List {
    frame: Frame,
    shell: Shell,
    end: String,
    rows: Vec<(Row, Chart)>,
    reactions: Vec<(Reaction, Chart)>,
}

/// The followers of the log.
pub(super) struct Followers {
    /// Projections, including indexes.
    pub(super) rows: Vec<Row>,
    pub(super) reactions: Vec<Reaction>,
}

#[derive(Template)]
#[template(path = "projection.html")]
struct ProjectionPage {
    frame: Frame,
    shell: Shell,
    row: Row,
    chart: Chart,
    values: Vec<(usize, String)>,
    /// Whether the visitor may have generations built and exchanged, and dropped.
    may_change: bool,
    may_drop: bool,
}

impl ProjectionPage {
    fn has(&self, place: &str) -> bool {
        self.row.generations.iter().any(|beside| beside.place == place)
    }

    /// Whether the next generation has the same rows as the one that answers.
    fn is_equal(&self) -> bool {
        self.row
            .generations
            .iter()
            .any(|beside| beside.place == "next" && beside.compared == EQUAL && beside.failed == 0)
    }
}

impl GenerationRow {
    fn of(generation: &Value, end: u64) -> Self {
        let compared = match (ShownTime::of(&generation["verifiedAt"]), number(&generation["differingRows"])) {
            (None, _) => "Not yet".to_owned(),
            (Some(_), 0) => EQUAL.to_owned(),
            (Some(_), differing) => format!("{} rows differ", count(differing)),
        };
        Self {
            place: enum_name(&generation["place"], "VIEW_GENERATION_PLACE_"),
            since: ShownTime::of(&generation["since"]),
            reached: number(&generation["processedSequence"]),
            end,
            failed: number(&generation["failedEventCount"]),
            compared,
        }
    }

    /// Its position.
    pub(super) fn position(&self) -> String {
        count(self.reached)
    }

    /// How much it has of the one that answers, in percent.
    pub(super) fn percent(&self) -> u64 {
        percent(self.reached, self.end)
    }

    /// The progress in words, and the speed of the build, as far as it was observed.
    pub(super) fn built(&self, samples: &ProgressSamples) -> String {
        let percent = self.percent();
        match samples.speed(self.end) {
            Some(Speed { per_second, seconds_left }) => {
                format!("{percent} %, {} events a second, {} s left", count(per_second), count(seconds_left))
            }
            None => format!("{percent} %"),
        }
    }
}

impl Check {
    fn of(found: &Value, view: &str) -> Self {
        let examples = found["repairedExamples"].as_array().map(Vec::as_slice).unwrap_or_default();
        Self {
            parts: parts_of(view),
            checked: ShownTime::of(&found["checkedAt"]),
            rows: count(number(&found["checkedRows"])),
            repaired: ShownTime::of(&found["repairedAt"]),
            repaired_rows: count(number(&found["repairedRows"])),
            examples: examples.iter().map(text).collect::<Vec<_>>().join(", "),
        }
    }
}

impl Row {
    fn of(view: &Value, lag: Lag) -> Self {
        let failed = number(&view["failedEventCount"]);
        let (badge, state) = state(&enum_name(&view["state"], "VIEW_STATE_"), failed, &lag);
        let position = lag.position.unwrap_or_else(|| number(&view["processedSequence"]));
        let generations = view["generations"].as_array().map(Vec::as_slice).unwrap_or_default();
        Self {
            name: text(&view["viewName"]),
            database: text(&view["database"]),
            version: number(&view["version"]),
            badge,
            state,
            stopped: text(&view["stoppedReason"]),
            failed,
            position: count(position),
            lag,
            at: ShownTime::of(&view["timestamp"]),
            generations: generations.iter().map(|generation| GenerationRow::of(generation, position)).collect(),
            check: Check::of(&view["check"], &text(&view["viewName"])),
        }
    }

    /// A digest of the generations, by which a page detects that it shows others.
    pub(super) fn page_digest(&self) -> u64 {
        digest(self.generations.iter().map(|beside| (&beside.place, &beside.compared)).collect::<Vec<_>>())
    }

    /// How many events it lacks.
    pub(super) fn events(&self) -> String {
        count(self.lag.events)
    }

    /// How many seconds it has lacked the first of them.
    pub(super) fn seconds(&self) -> String {
        match self.lag.seconds {
            60.. => "60 or more".to_owned(),
            seconds => seconds.to_string(),
        }
    }

    /// How many events it processes a second.
    pub(super) fn rate(&self) -> String {
        count(self.lag.rate)
    }

    /// Its chart.
    pub(super) fn chart(&self, size: Size) -> Chart {
        Chart::new(format!("c-{}", self.name), self.title(), size, &self.lag.values)
    }

    /// The title of the chart.
    pub(super) fn title(&self) -> String {
        let highest = self.lag.values.iter().max().copied().unwrap_or_default();
        format!("Lag of {}, 60 s: now {}, highest {}", self.name, self.events(), count(highest))
    }
}

fn state(name: &str, failed: u64, lag: &Lag) -> (Badge, &'static str) {
    match name {
        "stopped" => (Badge::Stopped, "Stopped"),
        "building" => (Badge::Working, "Building"),
        _ if lag.position.is_none() => (Badge::Unknown, "Unknown"),
        _ if failed > 0 => (Badge::Parked, "Parked"),
        _ if lag.events > 0 && lag.seconds > CURRENT => (Badge::Lagging, "Lagging"),
        _ => (Badge::Current, "Current"),
    }
}

/// Gets all projections, and the other followers of the log.
pub(super) async fn load(operate: &Operate, visit: &Visit) -> Result<Followers, Refused> {
    let found = operate.api.send(visit, ApiRequest::list("/system/v1/views/_search", json!({}))).await?;
    let list = |name: &str| found[name].as_array().map(Vec::as_slice).unwrap_or_default();
    let row = |view| Row::of(view, operate.samples.lag(view["viewName"].as_str().unwrap_or_default()));
    let reaction =
        |reported| Reaction::of(reported, operate.samples.pace(reported["name"].as_str().unwrap_or_default()));
    let (rows, reactions) = (list("result").iter().map(row), list("reactions").iter().map(reaction));
    Ok(Followers { rows: rows.collect(), reactions: reactions.collect() })
}

/// Shows all projections.
pub(super) async fn show(State(operate): State<Arc<Operate>>, OfSystem(visit): OfSystem) -> Result<Response, Instead> {
    let found = load(&operate, &visit).await.map_err(|refused| visit.refused(&refused))?;
    let Followers { rows, reactions } = found;
    let rows = rows.into_iter().map(|row| {
        let chart = row.chart(SMALL);
        (row, chart)
    });
    let reactions = reactions.into_iter().map(|reaction| {
        let chart = reaction.chart(SMALL);
        (reaction, chart)
    });
    let frame = frame(Some("/ui/operate/live?page=projections".to_owned()));
    let (shell, end) = (visit.shell(LIST), count(operate.samples.end()));
    let list = List { frame: frame.clone(), shell, end, rows: rows.collect(), reactions: reactions.collect() };
    Ok(visit.page(StatusCode::OK, &frame, &list))
}

/// Shows one projection.
pub(super) async fn show_one(
    State(operate): State<Arc<Operate>>,
    OfSystem(visit): OfSystem,
    Path(name): Path<String>,
) -> Result<Response, Instead> {
    let found = load(&operate, &visit).await.map_err(|refused| visit.refused(&refused))?;
    let unknown = || Refused::not_found();
    let row = found.rows.into_iter().find(|row| row.name == name).ok_or_else(|| visit.refused(&unknown()))?;
    let frame = frame(Some(format!("/ui/operate/live?page=projection&name={}&shown={}", row.name, row.page_digest())));
    let newest = row.lag.values.iter().rev().enumerate();
    let values = newest.step_by(5).map(|(ago, value)| (ago, count(*value))).collect();
    let (shell, chart) = (visit.shell(LIST), row.chart(LARGE));
    let (may_change, may_drop) = (visit.may(Act::Retry), visit.may(Act::Discard));
    let one = ProjectionPage { frame: frame.clone(), shell, row, chart, values, may_change, may_drop };
    Ok(visit.page(StatusCode::OK, &frame, &one))
}

/// Requests to build, compare, exchange or drop a generation.
pub(super) async fn change(
    State(operate): State<Arc<Operate>>,
    Path(name): Path<String>,
    Posted { visit, form }: Posted,
) -> Result<Response, Instead> {
    let what = match form.get("what").unwrap_or_default() {
        "replay" => "_replay",
        "verify" => "_verify?place=VIEW_GENERATION_PLACE_NEXT",
        "switch" => "_switch",
        "rollback" => "_rollback",
        "drop-next" => "_drop?place=VIEW_GENERATION_PLACE_NEXT",
        "drop-previous" => "_drop?place=VIEW_GENERATION_PLACE_PREVIOUS",
        _ => return Err(visit.refused(&Refused::not_found())),
    };
    let known = PROJECTIONS.iter().find(|known| known.name == name);
    let name = known.ok_or_else(|| visit.refused(&Refused::not_found()))?.name;
    let asked = format!("/system/v1/views/{name}/{what}");
    let asked = ApiRequest::command(&asked, json!({}), secret::random_text(22));
    operate.api.send(&visit, asked).await.map_err(|refused| visit.refused(&refused))?;
    Ok(see_other(&format!("{LIST}/{name}")))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_is_built_says_how_far_how_fast_and_how_long() {
        let found = |at: &str| json!({ "place": "VIEW_GENERATION_PLACE_NEXT", "processedSequence": at });
        let beside = GenerationRow::of(&found("4000"), 10_000);
        let mut samples = ProgressSamples::default();
        assert_eq!((beside.percent(), beside.built(&samples)), (40, "40 %".to_owned()));
        for (second, reached) in [(1, 1000), (2, 4000)] {
            samples.add(Duration::from_secs(second), reached);
        }
        assert_eq!(beside.built(&samples), "40 %, 3,000 events a second, 2 s left");
        assert_eq!(GenerationRow::of(&found("7"), 0).percent(), 100, "an empty log is all built");
    }

    #[test]
    fn what_a_person_has_to_look_at_comes_first() {
        let lag = |events, seconds| Lag { position: Some(1), events, seconds, ..Lag::default() };
        assert_eq!(state("serving", 0, &lag(0, 0)).0, Badge::Current);
        assert_eq!(state("serving", 0, &lag(5, 1)).0, Badge::Current);
        assert_eq!(state("serving", 0, &lag(5, 9)).0, Badge::Lagging);
        assert_eq!(state("serving", 1, &lag(5, 9)).0, Badge::Parked);
        assert_eq!(state("stopped", 1, &lag(5, 9)).0, Badge::Stopped);
        assert_eq!(state("serving", 0, &Lag::default()).0, Badge::Unknown);
    }
}
