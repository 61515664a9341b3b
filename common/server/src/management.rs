//! The management port of a node: liveness, readiness, version and metrics. It does not authenticate anybody, so it
//! belongs on an address that only operators can access.

mod process;

use std::sync::Arc;

use axum::{
    Json, Router,
    extract::State,
    response::{IntoResponse, Response},
    routing::get,
};
use base::{
    clock,
    health::{Component, Health, State as Condition},
    metric::{self, catalog::BUILD_INFO},
};
use http::{StatusCode, header};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

/// The content type of Prometheus's text format.
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The running program.
#[derive(Debug, Clone, Serialize)]
pub struct Version {
    /// The program.
    pub name: &'static str,
    /// Its version.
    pub version: &'static str,
    /// The commit that it was built from, if the build knew it.
    pub commit: Option<&'static str>,
    /// The compiler.
    pub rust: &'static str,
    /// The newest revision of the events of each aggregate that it can read.
    pub events: Map<String, Value>,
}

/// A node as its management port knows it.
#[derive(Debug, Clone)]
pub struct Management {
    /// `standalone`, `command`, `query`, `projector` or `oidc`.
    pub role: &'static str,
    /// The name of the node.
    pub node: String,
    /// The running program.
    pub version: Version,
    /// The health of the parts of the node.
    pub health: Health,
    /// Cancelled when the node is asked to stop.
    pub stopping: CancellationToken,
    started: Timestamp,
}

/// The readiness of a node and the state of its parts.
#[derive(Debug, PartialEq, Serialize)]
struct Readiness<'a> {
    role: &'a str,
    node: &'a str,
    state: &'static str,
    checks: Vec<Check>,
}

/// A part of a node.
#[derive(Debug, PartialEq, Serialize)]
struct Check {
    name: String,
    #[serde(flatten)]
    part: Component,
}

impl Management {
    /// Describes a node that has just started.
    pub fn new(
        role: &'static str,
        node: String,
        version: Version,
        health: Health,
        stopping: CancellationToken,
    ) -> Self {
        metric::catalog::prepare();
        let build = [version.version, version.commit.unwrap_or_default(), version.rust, role];
        BUILD_INFO.with(&build).set_bool(true);
        Self { role, node, version, health, stopping, started: clock::now() }
    }

    /// The routes of the port.
    pub fn routes(self) -> Router {
        Router::new()
            .route("/livez", get(async || "ok\n"))
            .route("/readyz", get(ready))
            .route("/version", get(version))
            .route("/metrics", get(metrics))
            .with_state(Arc::new(self))
    }

    fn readiness(&self) -> (StatusCode, Readiness<'_>) {
        let parts = self.health.parts();
        let state =
            if self.stopping.is_cancelled() { "draining" } else { worst(parts.values().map(|part| &part.state)) };
        let status =
            if matches!(state, "draining" | "starting") { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::OK };
        let checks = parts.into_iter().map(|(name, part)| Check { name, part }).collect();
        (status, Readiness { role: self.role, node: &self.node, state, checks })
    }
}

/// The state of a node whose parts report here, as in its readiness.
pub fn state_of(health: &Health) -> &'static str {
    worst(health.parts().values().map(|part| &part.state))
}

/// The state of a node with parts in these states. A node without parts is starting.
fn worst<'a>(states: impl Iterator<Item = &'a Condition>) -> &'static str {
    let told = states.map(|state| match state {
        Condition::Ok | Condition::Standby => (0, "ready"),
        Condition::Degraded(_) | Condition::Stalled(_) => (1, "degraded"),
        Condition::Outdated(_) => (2, "outdated"),
        Condition::Starting(_) => (3, "starting"),
    });
    told.max().map_or("starting", |(_, name)| name)
}

async fn ready(State(management): State<Arc<Management>>) -> Response {
    let (status, readiness) = management.readiness();
    (status, Json(readiness)).into_response()
}

async fn version(State(management): State<Arc<Management>>) -> Response {
    Json(json!(management.version)).into_response()
}

async fn metrics(State(management): State<Arc<Management>>) -> Response {
    process::measure(management.started);
    ([(header::CONTENT_TYPE, TEXT)], metric::render()).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn management(health: &Health) -> Management {
        let version = Version { name: "platform", version: "0", commit: None, rust: "1", events: Map::new() };
        Management::new("query", "n".to_owned(), version, health.clone(), CancellationToken::new())
    }

    #[test]
    fn a_node_is_ready_when_nothing_keeps_it_from_serving() {
        let health = Health::default();
        let management = management(&health);
        let told = || {
            let (status, readiness) = management.readiness();
            (status.as_u16(), readiness.state)
        };
        assert_eq!(told(), (503, "starting"), "nothing is known yet");
        let reason = || "why".to_owned();
        for (state, expected) in [
            (Condition::Starting(reason()), (503, "starting")),
            (Condition::Ok, (200, "ready")),
            (Condition::Standby, (200, "ready")),
            (Condition::Degraded(reason()), (200, "degraded")),
            (Condition::Stalled(reason()), (200, "degraded")),
            (Condition::Outdated(reason()), (200, "outdated")),
        ] {
            health.report("part", state.clone());
            assert_eq!(told(), expected, "{state:?}");
        }
        health.report("part", Condition::Ok);
        management.stopping.cancel();
        assert_eq!(told(), (503, "draining"));
    }

    #[test]
    fn the_worst_part_counts() {
        let health = Health::default();
        health.report("a", Condition::Degraded(String::new()));
        health.report("b", Condition::Ok);
        assert_eq!(management(&health).readiness().1.state, "degraded");
        health.report("c", Condition::Starting(String::new()));
        assert_eq!(management(&health).readiness().1.state, "starting");
    }
}
