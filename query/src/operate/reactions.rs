//! Reactions: work that follows from events, other than projections, and its progress.

use page::component::{Badge, Chart, Size, count};
use serde_json::Value;
use view::reaction::DELIVERIES;

use super::{
    samples::Pace,
    text::{enum_name, number, text},
};

/// How many seconds old missing or unfinished events of a reaction may be while it counts as current.
const CURRENT: u64 = 5;

/// A reaction as pages show it.
pub(super) struct Reaction {
    pub(super) name: String,
    /// What the reaction does.
    pub(super) does: &'static str,
    pub(super) badge: Badge,
    pub(super) state: &'static str,
    pub(super) failed: u64,
    pub(super) position: String,
    pub(super) events: String,
    pub(super) seconds: u64,
    pub(super) waiting: String,
    pub(super) pace: Pace,
}

impl Reaction {
    /// Converts a reaction from the API.
    pub(super) fn of(reaction: &Value, pace: Pace) -> Self {
        let (name, seconds) = (text(&reaction["name"]), number(&reaction["lagSeconds"]));
        let failed = number(&reaction["failedEventCount"]);
        let (badge, state) = match enum_name(&reaction["state"], "REACTION_STATE_").as_str() {
            "working" if seconds > CURRENT => (Badge::Lagging, "Lagging"),
            "working" if failed > 0 => (Badge::Parked, "Given up"),
            "working" => (Badge::Current, "Current"),
            _ => (Badge::Unknown, "Silent"),
        };
        Self {
            does: does(&name),
            badge,
            state,
            failed,
            position: count(number(&reaction["processedSequence"])),
            events: count(number(&reaction["lag"])),
            seconds,
            waiting: count(number(&reaction["waiting"])),
            name,
            pace,
        }
    }

    /// How many events it takes up a second.
    pub(super) fn rate(&self) -> String {
        count(self.pace.rate)
    }

    /// The chart of its missing and unfinished events.
    pub(super) fn chart(&self, size: Size) -> Chart {
        Chart::new(format!("rc-{}", self.name), self.title(), size, &self.pace.values)
    }

    /// The title of the chart.
    pub(super) fn title(&self) -> String {
        let values = &self.pace.values;
        let [now, highest] =
            [values.last(), values.iter().max()].map(|value| count(value.copied().unwrap_or_default()));
        format!("Not done by {}, 60 s: now {now}, highest {highest}", self.name)
    }

    /// Whether no node reports it.
    pub(super) fn is_silent(&self) -> bool {
        self.badge == Badge::Unknown
    }
}

/// What a reaction does, in a few words.
fn does(name: &str) -> &'static str {
    match name {
        DELIVERIES => "Delivers events to targets",
        "mending" => "Retries and discards deliveries that were given up",
        "sweep" => "Removes references to removed objects",
        "session_ends" => "Ends the sessions of users who may no longer log in, or who ended all their sessions",
        "erasures" => "Destroys the keys of people who were removed",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use view::reaction::REACTIONS;

    use super::*;

    #[test]
    fn each_reaction_is_explained() {
        assert!(REACTIONS.iter().all(|name| !does(name).is_empty()));
    }

    #[test]
    fn that_one_is_behind_comes_before_what_was_given_up() {
        let badge = |seconds: u64, failed: u64, state: &str| {
            let state = format!("REACTION_STATE_{state}");
            let reported = json!({ "state": state, "lagSeconds": seconds, "failedEventCount": failed });
            Reaction::of(&reported, Pace::default()).badge
        };
        assert_eq!(badge(0, 0, "WORKING"), Badge::Current);
        assert_eq!(badge(60, 0, "WORKING"), Badge::Lagging);
        assert_eq!(badge(60, 1, "WORKING"), Badge::Lagging);
        assert_eq!(badge(0, 1, "WORKING"), Badge::Parked);
        assert_eq!(badge(0, 0, "SILENT"), Badge::Unknown);
    }
}
