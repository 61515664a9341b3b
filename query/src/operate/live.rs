//! Pages that update themselves: a stream of server-sent events with a message a second, limited in time and number. A
//! message has the texts, classes, lines and values of a page that have changed, and nothing that could become markup.

use std::{
    collections::{BTreeMap, HashMap},
    convert::Infallible,
    sync::Arc,
    time::Duration,
};

use axum::{
    body::Body,
    extract::State,
    response::{IntoResponse, Response},
};
use base::{clock, speed::ProgressSamples};
use bytes::Bytes;
use futures::stream;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use page::{
    answer::secure,
    component::{Size, count, points},
    origin,
};
use serde::Serialize;
use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::{
    Operate, failed,
    filter::{Chosen, LOG},
    level::{ListPart, OperatorLevel},
    log,
    nodes::{self, Node},
    overview::{self, Overview},
    projections::{self, LARGE, Row, SMALL},
    reactions::Reaction,
    refused::Refused,
    seats::Seat,
    text::time_of_day,
    visit::Visit,
};

/// How long a stream lasts; browsers open another one then.
const LASTS: Duration = Duration::from_mins(5);
/// How often a message is sent, and how often if it takes a search.
const EVERY: Duration = Duration::from_secs(1);
const SEARCHED_EVERY: Duration = Duration::from_secs(2);
/// How often a message is sent to tenants.
const EVERY_OF_INSTANCE: Duration = Duration::from_secs(5);

/// The pages that can be followed, and the one of an instance.
const PAGES: [&str; 6] = ["overview", "nodes", "projections", "projection", OF_INSTANCE, "log"];
const OF_INSTANCE: &str = "failed";

/// A message: ids of elements of a page, with their current content.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize)]
struct Message {
    /// Texts.
    t: BTreeMap<String, String>,
    /// Classes.
    c: BTreeMap<String, &'static str>,
    /// Points of lines.
    p: BTreeMap<String, String>,
    /// Values of bars.
    v: BTreeMap<String, u64>,
}

struct Following {
    operate: Arc<Operate>,
    visit: Visit,
    previous: Message,
    /// The observed progress of each generation, by its place.
    building: HashMap<String, ProgressSamples>,
    /// The first message, until it is sent.
    first: Option<Message>,
    beat: tokio::time::Interval,
    until: Instant,
    _seat: Seat,
}

/// Streams updates of a page. Within an instance only the page of failed events can be followed.
pub(super) async fn follow(State(operate): State<Arc<Operate>>, headers: HeaderMap, visit: Visit) -> Response {
    let page = visit.query.get("page").unwrap_or_default();
    if origin::is_foreign(&headers) || visit.level == OperatorLevel::Instance && page != OF_INSTANCE {
        return StatusCode::FORBIDDEN.into_response();
    }
    if !PAGES.contains(&page) {
        return StatusCode::NOT_FOUND.into_response();
    }
    let seat = match visit.level {
        OperatorLevel::System => operate.seats.of_system(),
        OperatorLevel::Instance => operate.seats.of_instance(&visit.caller.tenant.id),
    };
    let Some(seat) = seat else { return StatusCode::SERVICE_UNAVAILABLE.into_response() };
    let left = u64::try_from(visit.until().as_second() - clock::now().as_second()).unwrap_or_default();
    let mut beat = interval(match visit.query.get("page") {
        _ if visit.level == OperatorLevel::Instance => EVERY_OF_INSTANCE,
        Some("overview" | "nodes" | "failed" | "log") => SEARCHED_EVERY,
        _ => EVERY,
    });
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let until = Instant::now() + LASTS.min(Duration::from_secs(left));
    let (previous, building) = (Message::default(), HashMap::new());
    let mut following = Following { operate, visit, previous, building, first: None, beat, until, _seat: seat };
    // Browsers reconnect within seconds after a stream ends, and half a minute after a refusal.
    match following.now().await {
        Ok(now) => following.first = Some(now),
        Err(refused) if refused.status.is_client_error() => return refused.status.into_response(),
        Err(_) => {}
    }
    let mut response = Response::new(Body::from_stream(stream::unfold(following, Following::next)));
    secure(&mut response);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response
}

impl Following {
    /// The next message. The stream ends if the platform does not answer, and browsers reconnect.
    async fn next(mut self) -> Option<(Result<Bytes, Infallible>, Self)> {
        self.beat.tick().await;
        if Instant::now() >= self.until {
            return None;
        }
        let now = match self.first.take() {
            Some(first) => first,
            None => self.now().await.ok()?,
        };
        let text = serde_json::to_string(&now.since(&self.previous)).ok()?;
        self.previous = now;
        Some((Ok(format!("data: {text}\n\n").into()), self))
    }

    async fn now(&mut self) -> Result<Message, Refused> {
        let (operate, visit, mut now) = (&self.operate, &self.visit, Message::default());
        now.t.insert("as-of".to_owned(), time_of_day());
        match visit.query.get("page") {
            Some("overview") => {
                now.add_overview(&overview::load(operate, visit).await?, visit.query.number("shown"));
            }
            // The nodes are in memory, and are shown even if nothing else answers.
            Some("nodes") => {
                visit.require_level(operate).await?;
                now.add_nodes(&nodes::list(operate).await, visit.query.number("shown"));
            }
            Some("projections") => {
                now.t.insert("end".to_owned(), count(operate.samples.end()));
                let found = projections::load(operate, visit).await?;
                found.rows.iter().for_each(|row| now.add(row, SMALL));
                found.reactions.iter().for_each(|reaction| now.add_reaction(reaction));
            }
            Some("projection") => {
                let rows = projections::load(operate, visit).await?.rows;
                let row = rows.iter().find(|row| visit.query.get("name") == Some(row.name.as_str()));
                let row = row.ok_or_else(Refused::not_found)?;
                now.add(row, LARGE);
                now.add_generations(row, &mut self.building);
                now.differs(visit.query.number("shown") != Some(row.page_digest()));
            }
            Some("failed") => {
                let chosen = Chosen::of(visit.level.filters(), &visit.query);
                let total = failed::find(operate, visit, &chosen, ListPart::NEWEST).await?.total;
                let more = total.saturating_sub(visit.query.number("total").unwrap_or_default());
                // An event that failed again is new, and so is one that came while another one went.
                let after = chosen.failed_after(visit.query.get("newest").unwrap_or_default());
                let newer = failed::search(operate, visit, after, ListPart::NEWEST).await?.total;
                now.fresh(more.max(newer), "new");
            }
            Some("log") => {
                let chosen = Chosen::of(LOG, &visit.query);
                let after = visit.query.number("after").unwrap_or_default();
                let filters = chosen.and(json!({ "afterSequence": after.to_string() }));
                let (_, total) = log::events(operate, visit, filters, ListPart::NEWEST).await?;
                now.fresh(total, if total == 1 { "new event" } else { "new events" });
            }
            _ => {}
        }
        Ok(now)
    }
}

impl Message {
    fn add_overview(&mut self, overview: &Overview, shown: Option<u64>) {
        let Overview { end, lag, failed, oldest, nodes, sentences, .. } = overview;
        let oldest = &oldest.as_ref().map_or_else(|| "None".to_owned(), |at| at.age.clone());
        for (id, text) in [("end", end), ("lag", lag), ("failed", failed), ("nodes", nodes), ("oldest", oldest)] {
            self.t.insert(id.to_owned(), text.to_owned());
        }
        let is_other = shown != Some(overview.page_digest());
        self.differs(is_other);
        // Other sentences do not fit in the places of the shown ones.
        let sentences = sentences.iter().enumerate().filter(|_| !is_other);
        self.t.extend(sentences.map(|(place, (_, sentence, _))| (format!("said-{place}"), sentence.clone())));
    }

    fn add_nodes(&mut self, nodes: &[Node], shown: Option<u64>) {
        self.differs(shown != Some(nodes::page_digest(nodes)));
        for node in nodes {
            let id = node.id();
            self.t.insert(format!("b-{id}"), format!("{} {}", node.badge.shape(), node.state));
            self.c.insert(format!("b-{id}"), node.badge.class());
            self.t.insert(format!("h-{id}"), node.heard.clone());
            self.t.insert(format!("w-{id}"), node.writes().to_owned());
        }
    }

    /// Sets whether there is something that the page does not show.
    fn differs(&mut self, differs: bool) {
        let text = if differs { "Show what has changed" } else { "Refresh" };
        self.t.insert("fresh".to_owned(), text.to_owned());
    }

    fn add(&mut self, row: &Row, size: Size) {
        let name = &row.name;
        self.t.insert(format!("p-{name}"), row.position.clone());
        self.t.insert(format!("e-{name}"), row.events());
        self.t.insert(format!("s-{name}"), row.seconds());
        self.t.insert(format!("r-{name}"), row.rate());
        self.t.insert(format!("f-{name}"), row.failed.to_string());
        self.t.insert(format!("b-{name}"), format!("{} {}", row.badge.shape(), row.state));
        self.c.insert(format!("b-{name}"), row.badge.class());
        self.p.insert(format!("c-{name}"), points(size, &row.lag.values));
        self.t.insert(format!("c-{name}-title"), row.title());
    }

    fn add_generations(&mut self, row: &Row, building: &mut HashMap<String, ProgressSamples>) {
        for beside in &row.generations {
            let place = &beside.place;
            let samples = building.entry(place.clone()).or_default();
            samples.add(clock::since_start(), beside.reached);
            self.t.insert(format!("gp-{place}"), beside.position());
            self.t.insert(format!("gb-{place}"), beside.built(samples));
            self.t.insert(format!("gf-{place}"), beside.failed.to_string());
            self.v.insert(format!("gv-{place}"), beside.percent());
        }
    }

    fn add_reaction(&mut self, reaction: &Reaction) {
        let name = &reaction.name;
        self.t.insert(format!("rp-{name}"), reaction.position.clone());
        self.t.insert(format!("re-{name}"), reaction.events.clone());
        self.t.insert(format!("rs-{name}"), reaction.seconds.to_string());
        self.t.insert(format!("rw-{name}"), reaction.waiting.clone());
        self.t.insert(format!("rr-{name}"), reaction.rate());
        self.p.insert(format!("rc-{name}"), points(SMALL, &reaction.pace.values));
        self.t.insert(format!("rc-{name}-title"), reaction.title());
        self.t.insert(format!("rf-{name}"), reaction.failed.to_string());
        self.t.insert(format!("rb-{name}"), format!("{} {}", reaction.badge.shape(), reaction.state));
        self.c.insert(format!("rb-{name}"), reaction.badge.class());
    }

    /// Sets how many there are that the page does not show.
    fn fresh(&mut self, number: u64, what: &str) {
        let text = if number == 0 { "Refresh".to_owned() } else { format!("Show {} {what}", count(number)) };
        self.t.insert("fresh".to_owned(), text);
    }

    /// The difference from the previous message.
    fn since(&self, previous: &Self) -> Self {
        fn changed<T: Clone + PartialEq>(
            now: &BTreeMap<String, T>,
            before: &BTreeMap<String, T>,
        ) -> BTreeMap<String, T> {
            let is_new = |(id, value): &(&String, &T)| before.get(*id) != Some(*value);
            now.iter().filter(is_new).map(|(id, value)| (id.clone(), value.clone())).collect()
        }
        Self {
            t: changed(&self.t, &previous.t),
            c: changed(&self.c, &previous.c),
            p: changed(&self.p, &previous.p),
            v: changed(&self.v, &previous.v),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_changed_is_told() {
        let mut before = Message::default();
        before.fresh(0, "new");
        before.t.insert("end".to_owned(), "7".to_owned());
        let mut now = before.clone();
        now.fresh(3, "new");
        let sent = now.since(&before);
        assert_eq!(sent.t, BTreeMap::from([("fresh".to_owned(), "Show 3 new".to_owned())]));
    }
}
