//! The first page: whether everything is in order, and where to look if not.

use std::sync::Arc;

use askama::Template;
use axum::{extract::State, response::Response};
use http::StatusCode;
use page::{
    answer::see_other,
    component::{Badge, Frame, count},
    form::Form,
};

use super::{
    Operate, PATH, failed,
    filter::{Chosen, FAILED},
    level::{ListPart, OperatorLevel},
    projections::{self, Followers, Row},
    reactions::Reaction,
    refused::Refused,
    shell::{FAILED_EVENTS, Shell, frame},
    text::{ShownTime, counted, digest, failed_events},
    visit::{Instead, Visit},
};

#[derive(Template)]
#[template(path = "overview.html")]
struct Page {
    frame: Frame,
    shell: Shell,
    overview: Overview,
}

/// The state of the platform.
pub(super) struct Overview {
    /// The sentences about it, each with the path of a page that says more.
    pub(super) sentences: Vec<(Badge, String, &'static str)>,
    pub(super) end: String,
    /// The longest lag, in events.
    pub(super) lag: String,
    pub(super) failed: String,
    pub(super) oldest: Option<ShownTime>,
    pub(super) nodes: String,
}

impl Overview {
    /// A digest of what the sentences are about, by which a page detects that it may replace one by another.
    pub(super) fn page_digest(&self) -> u64 {
        digest(self.sentences.iter().map(|(badge, _, path)| (badge.shape(), *path)).collect::<Vec<_>>())
    }
}

/// Collects the state of the platform.
pub(super) async fn load(operate: &Operate, visit: &Visit) -> Result<Overview, Refused> {
    let followers = projections::load(operate, visit).await?;
    let all = Chosen::of(FAILED, &Form::default());
    let oldest = failed::find(operate, visit, &all, ListPart { offset: 0, limit: 1, asc: true }).await?;
    let (nodes, silent) = operate.nodes.counts();
    Ok(Overview {
        sentences: sentences(&followers, oldest.total, silent),
        end: count(operate.samples.end()),
        lag: count(worst(&followers.rows)),
        failed: count(oldest.total),
        oldest: oldest.rows.into_iter().next().and_then(|row| row.last),
        nodes: if silent > 0 { format!("{nodes}, {silent} silent") } else { nodes.to_string() },
    })
}

/// Shows the overview.
pub(super) async fn show(State(operate): State<Arc<Operate>>, visit: Visit) -> Result<Response, Instead> {
    if visit.level == OperatorLevel::Instance {
        return Ok(see_other(FAILED_EVENTS));
    }
    let overview = load(&operate, &visit).await.map_err(|refused| visit.refused(&refused))?;
    let frame = frame(Some(format!("/ui/operate/live?page=overview&shown={}", overview.page_digest())));
    let page = Page { frame: frame.clone(), shell: visit.shell(PATH), overview };
    Ok(visit.page(StatusCode::OK, &frame, &page))
}

/// The longest lag, in events.
fn worst(rows: &[Row]) -> u64 {
    rows.iter().map(|row| row.lag.events).max().unwrap_or_default()
}

/// The sentences about the platform, the most important first, each with the path of a page that says more.
fn sentences(
    Followers { rows, reactions }: &Followers,
    failed: u64,
    silent: u64,
) -> Vec<(Badge, String, &'static str)> {
    const PROJECTIONS: &str = "/ui/operate/projections";
    let mut sentences = vec![];
    for row in rows.iter().filter(|row| row.badge == Badge::Stopped) {
        sentences.push((
            Badge::Stopped,
            format!("{} has stopped until an operator acts: {}", row.name, row.stopped),
            PROJECTIONS,
        ));
    }
    if failed > 0 {
        let waits = if failed == 1 { "waits" } else { "wait" };
        let text = format!("{} {waits} to be retried or discarded.", failed_events(failed));
        sentences.push((Badge::Parked, text, FAILED_EVENTS));
    }
    for row in rows.iter().filter(|row| row.badge == Badge::Lagging) {
        let is = counted(row.lag.events, "event", "events");
        sentences.push((Badge::Lagging, format!("{} lags by {is}.", row.name), PROJECTIONS));
    }
    for Reaction { name, seconds, events, waiting, .. } in reactions.iter().filter(|one| one.badge == Badge::Lagging) {
        let text = format!("{name} lags by {seconds} s. Events not processed: {events}; not done: {waiting}.");
        sentences.push((Badge::Lagging, text, PROJECTIONS));
    }
    let unknown = rows.iter().filter(|row| row.badge == Badge::Unknown).count() as u64;
    if unknown > 0 {
        let text = format!(
            "{} sent no report yet. Check that a projector runs.",
            counted(unknown, "projection has", "projections have")
        );
        sentences.push((Badge::Unknown, text, PROJECTIONS));
    }
    let unheard = reactions.iter().filter(|reaction| reaction.is_silent()).count() as u64;
    if unheard > 0 {
        let text = format!(
            "{} sent no report lately. Check that a command node runs, and that it may publish progress.0.reaction.",
            counted(unheard, "reaction has", "reactions have")
        );
        sentences.push((Badge::Unknown, text, PROJECTIONS));
    }
    if silent > 0 {
        let text = format!("{} fallen silent.", counted(silent, "node has", "nodes have"));
        sentences.push((Badge::Stopped, text, "/ui/operate/nodes"));
    }
    let lags = |row: &&Row| matches!(row.badge, Badge::Stopped | Badge::Lagging | Badge::Unknown);
    if !rows.iter().any(|row| lags(&row)) {
        sentences.push((Badge::Current, format!("All {} projections are current.", rows.len()), PROJECTIONS));
    }
    sentences
}
