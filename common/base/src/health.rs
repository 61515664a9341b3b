//! The health of the parts of a node, as they report it: what its management port shows, and its readiness.
//!
//! A part in trouble calls [`Health::report`]; that is all it has to do. Whether the node still takes requests follows
//! from the states alone: a node that can serve from the data it has is ready.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use serde::Serialize;

use crate::metric::catalog::COMPONENT_STATE;

/// The most seconds that a healthy part may lag.
pub const LAGS: f64 = 10.0;

/// The state of a part of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", content = "reason", rename_all = "lowercase")]
pub enum State {
    /// The part works.
    Ok,
    /// Another node does its work, and it is prepared to take it over.
    Standby,
    /// The part is not available yet. The node is not ready before it is.
    Starting(String),
    /// The node goes on without the part, with reduced service.
    Degraded(String),
    /// The part does not go on, and retries.
    Stalled(String),
    /// The part met something that only a newer version of the platform knows, and has given up its work.
    Outdated(String),
}

/// A part of a node.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Component {
    /// Its state.
    #[serde(flatten)]
    pub state: State,
    /// Its position in the log, if it follows the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<LogProgress>,
}

/// The position of a part in the log, and how far it lags.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LogProgress {
    /// The last event that it processed.
    pub sequence: u64,
    /// The stream sequence of the last record that it processed.
    #[serde(skip)]
    pub stream_sequence: u64,
    /// How many events it has not processed.
    pub lag_events: u64,
    /// The age of the first of them, in seconds.
    pub lag_seconds: f64,
}

/// The position in the log that a part reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reached {
    /// The sequence of the last event that it processed.
    pub sequence: u64,
    /// The stream sequence of the last record that it processed.
    pub stream_sequence: u64,
}

/// The parts of a node. Clones share the same parts.
#[derive(Debug, Clone, Default)]
pub struct Health(Arc<Mutex<BTreeMap<String, Component>>>, Arc<OnceLock<SocketAddr>>);

impl State {
    /// The names of all states.
    pub const NAMES: [&str; 6] = ["ok", "standby", "starting", "degraded", "stalled", "outdated"];

    /// Returns the name of the state.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Standby => "standby",
            Self::Starting(_) => "starting",
            Self::Degraded(_) => "degraded",
            Self::Stalled(_) => "stalled",
            Self::Outdated(_) => "outdated",
        }
    }

    /// Whether a node with a part in this state takes requests.
    pub fn is_ready(&self) -> bool {
        !matches!(self, Self::Starting(_))
    }
}

impl Health {
    /// Remembers the address of the management port, which shows the health.
    pub fn set_address(&self, address: SocketAddr) {
        let _ = self.1.set(address);
    }

    /// Returns the address of the management port.
    pub fn address(&self) -> Option<SocketAddr> {
        self.1.get().copied()
    }

    /// Reports the state of a part.
    pub fn report(&self, part: &str, state: State) {
        let mut parts = self.lock();
        if parts.get(part).is_some_and(|known| known.state == state) {
            return;
        }
        for name in State::NAMES {
            COMPONENT_STATE.with(&[part, name]).set_bool(name == state.name());
        }
        match parts.get_mut(part) {
            Some(known) => known.state = state,
            None => drop(parts.insert(part.to_owned(), Component { state, place: None })),
        }
    }

    /// Reports the position of a part; how far it lags is measured elsewhere.
    pub fn report_position(&self, part: &str, reached: Reached) {
        if let Some(part) = self.lock().get_mut(part) {
            let place = part.place.get_or_insert_default();
            (place.sequence, place.stream_sequence) = (reached.sequence, reached.stream_sequence);
        }
    }

    /// Reports that a part has no position in the log, because another node does its work.
    pub fn clear_position(&self, part: &str) {
        if let Some(part) = self.lock().get_mut(part) {
            part.place = None;
        }
    }

    /// Reports how far a part lags.
    pub fn lag(&self, part: &str, events: u64, seconds: f64) {
        if let Some(place) = self.lock().get_mut(part).and_then(|part| part.place.as_mut()) {
            (place.lag_events, place.lag_seconds) = (events, seconds);
        }
    }

    /// Returns all parts, by name. A part that lags for long is degraded, even if it goes on.
    pub fn parts(&self) -> BTreeMap<String, Component> {
        let mut parts = self.lock().clone();
        for part in parts.values_mut() {
            if part.state == State::Ok && part.place.is_some_and(|place| place.lag_seconds > LAGS) {
                part.state = State::Degraded("it lags: the log grows faster than it can follow".to_owned());
            }
        }
        parts
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Component>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_part_tells_state_reason_and_place() {
        let health = Health::default();
        health.report("a", State::Ok);
        health.report("b", State::Outdated("event 7 is new".to_owned()));
        health.report_position("a", Reached { sequence: 3, stream_sequence: 2 });
        health.report_position("unknown", Reached::default());
        let parts = serde_json::to_value(health.parts()).unwrap();
        let a = json!({ "state": "ok", "place": { "sequence": 3, "lagEvents": 0, "lagSeconds": 0.0 } });
        assert_eq!(parts, json!({ "a": a, "b": { "state": "outdated", "reason": "event 7 is new" } }));
    }

    #[test]
    fn a_part_that_lags_long_is_not_well() {
        let health = Health::default();
        health.report("a", State::Ok);
        health.report_position("a", Reached { sequence: 3, stream_sequence: 2 });
        for (seconds, expected) in [(LAGS, "ok"), (LAGS + 0.1, "degraded"), (0.0, "ok")] {
            health.lag("a", 300, seconds);
            assert_eq!(health.parts()["a"].state.name(), expected, "{seconds}");
        }
    }

    #[test]
    fn only_what_cannot_serve_is_not_ready() {
        let reason = String::new;
        let unready = [State::Starting(reason())];
        let ready =
            [State::Ok, State::Standby, State::Degraded(reason()), State::Stalled(reason()), State::Outdated(reason())];
        assert!(unready.iter().all(|state| !state.is_ready()) && ready.iter().all(State::is_ready));
        let names: Vec<&str> = ready.iter().chain(&unready).map(State::name).collect();
        assert!(State::NAMES.iter().all(|name| names.contains(name)) && names.len() == State::NAMES.len());
    }
}
