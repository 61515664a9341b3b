//! The nodes of a platform, by the heartbeats that they send once a second.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use askama::Template;
use axum::{extract::State, response::Response};
use base::clock::since_start;
use http::StatusCode;
use jiff::Timestamp;
use page::component::{Badge, Frame};

use super::{
    Operate,
    shell::{Shell, frame},
    text::{ShownTime, digest},
    visit::OfSystem,
    writer::Writes,
};

/// How long a node may be silent before that is shown, and before it is forgotten.
const SILENT: Duration = Duration::from_secs(5);
const FORGOTTEN: Duration = Duration::from_mins(10);
/// How many nodes are remembered: no platform has more.
const MOST: usize = 1000;

/// A heartbeat of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStatus {
    /// Its role.
    pub role: String,
    /// Its name.
    pub name: String,
    /// The version that it runs.
    pub version: String,
    /// The state of its readiness.
    pub state: String,
    /// When it started.
    pub since: Timestamp,
}

/// The nodes that have sent heartbeats.
#[derive(Debug, Clone, Default)]
pub struct Nodes(Arc<Mutex<NodesByName>>);

/// Nodes by role and name, and when each was received last.
type NodesByName = BTreeMap<(String, String), (NodeStatus, Duration)>;

impl Nodes {
    /// Notes a presence message of a node.
    pub fn receive(&self, seen: NodeStatus) {
        let mut nodes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let now = since_start();
        nodes.retain(|_, (_, heard)| now.saturating_sub(*heard) < FORGOTTEN);
        let name = (seen.role.clone(), seen.name.clone());
        if nodes.len() < MOST || nodes.contains_key(&name) {
            nodes.insert(name, (seen, now));
        }
    }

    fn all(&self) -> Vec<(NodeStatus, Duration)> {
        let nodes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        nodes.values().map(|(seen, heard)| (seen.clone(), since_start().saturating_sub(*heard))).collect()
    }

    /// Counts the nodes that are alive, and those that have fallen silent.
    pub(super) fn counts(&self) -> (u64, u64) {
        let (mut well, mut silent) = (0, 0);
        for (_, since) in self.all() {
            *(if since < SILENT { &mut well } else { &mut silent }) += 1;
        }
        (well, silent)
    }
}

/// A node as the page shows it.
pub(super) struct Node {
    role: String,
    name: String,
    version: String,
    since: ShownTime,
    pub(super) badge: Badge,
    pub(super) state: String,
    pub(super) heard: String,
    is_writer: bool,
}

#[derive(Template)]
#[template(path = "nodes.html")]
struct Page {
    frame: Frame,
    shell: Shell,
    nodes: Vec<Node>,
}

impl Node {
    fn of(seen: NodeStatus, since: Duration, writer: Option<&str>) -> Self {
        let is_silent = since >= SILENT;
        let (badge, state) = match seen.state.as_str() {
            _ if is_silent => (Badge::Stopped, "Silent".to_owned()),
            "ready" | "ok" => (Badge::Current, "Ready".to_owned()),
            other => (Badge::Lagging, other.to_owned()),
        };
        let seconds = since.as_secs();
        let heard = if is_silent { format!("No heartbeat for {seconds} s") } else { "Less than 5 s ago".to_owned() };
        let is_writer = writer == Some(seen.name.as_str()) && matches!(seen.role.as_str(), "command" | "standalone");
        let NodeStatus { role, name, version, since, .. } = seen;
        Self { role, name, version, since: ShownTime::at(since), badge, state, heard, is_writer }
    }

    /// The id of the node on the page.
    pub(super) fn id(&self) -> String {
        format!("{}-{}", self.role, self.name)
    }

    /// A text for the node that writes; empty for others.
    pub(super) fn writes(&self) -> &'static str {
        if self.is_writer { "writes the log" } else { "" }
    }
}

/// All nodes, for the page.
pub(super) async fn list(operate: &Operate) -> Vec<Node> {
    let writer = match &operate.api.writes {
        Writes::Elsewhere(bus) => bus.writer().await,
        Writes::Here(_) => None,
    };
    operate.nodes.all().into_iter().map(|(seen, since)| Node::of(seen, since, writer.as_deref())).collect()
}

/// A digest of these nodes, by which a page detects that it shows others.
pub(super) fn page_digest(nodes: &[Node]) -> u64 {
    digest(nodes.iter().map(|node| (&node.role, &node.name, &node.version, &node.since.iso)).collect::<Vec<_>>())
}

/// Shows the nodes.
pub(super) async fn show(State(operate): State<Arc<Operate>>, OfSystem(visit): OfSystem) -> Response {
    let nodes = list(&operate).await;
    let frame = frame(Some(format!("/ui/operate/live?page=nodes&shown={}", page_digest(&nodes))));
    let page = Page { frame: frame.clone(), shell: visit.shell("/ui/operate/nodes"), nodes };
    visit.page(StatusCode::OK, &frame, &page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_says_nothing_is_told_of() {
        let seen = |state: &str| NodeStatus {
            role: "command".to_owned(),
            name: "a".to_owned(),
            version: "1".to_owned(),
            state: state.to_owned(),
            since: Timestamp::UNIX_EPOCH,
        };
        let silent = Node::of(seen("ready"), Duration::from_secs(34), Some("a"));
        assert_eq!(
            (silent.heard.as_str(), silent.badge, silent.is_writer),
            ("No heartbeat for 34 s", Badge::Stopped, true)
        );
        assert_eq!(Node::of(seen("draining"), Duration::ZERO, None).badge, Badge::Lagging);
        let nodes = Nodes::default();
        nodes.receive(seen("ready"));
        nodes.receive(seen("draining"));
        assert_eq!((nodes.all().len(), nodes.counts()), (1, (1, 0)));
    }
}
