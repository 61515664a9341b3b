//! Formatting of numbers, times and texts for pages.

use std::hash::{DefaultHasher, Hash, Hasher};

use base::clock;
use jiff::Timestamp;
use page::component::count;
use serde_json::Value;

/// How much of a payload a page shows, in bytes.
pub(super) const SHOWN: usize = 64 * 1024;

/// A time, and how long ago it was.
#[derive(Debug, Clone)]
pub(super) struct ShownTime {
    /// The time for programs.
    pub(super) iso: String,
    /// The time for people, in UTC.
    pub(super) shown: String,
    /// How long ago it was.
    pub(super) age: String,
}

impl ShownTime {
    /// Formats a time.
    pub(super) fn at(at: Timestamp) -> Self {
        let seconds = u64::try_from(clock::now().as_second() - at.as_second()).unwrap_or_default();
        Self {
            iso: at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            shown: at.strftime("%Y-%m-%d %H:%M:%S").to_string(),
            age: age(seconds),
        }
    }

    /// Reads a time from a member of JSON.
    pub(super) fn of(value: &Value) -> Option<Self> {
        value.as_str()?.parse().ok().map(Self::at)
    }
}

/// The current time of day, as it is shown beside data.
pub(super) fn time_of_day() -> String {
    clock::now().strftime("%H:%M:%S").to_string()
}

/// Formats how long ago something was.
pub(super) fn age(seconds: u64) -> String {
    match seconds {
        0 => "now".to_owned(),
        1..60 => format!("{seconds} s ago"),
        60..3600 => format!("{} min ago", seconds / 60),
        3600..172_800 => format!("{} h ago", seconds / 3600),
        _ => format!("{} days ago", count(seconds / 86_400)),
    }
}

/// Formats a number of things, with singular and plural.
pub(super) fn counted(number: u64, one: &str, more: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{} {more}", count(number)) }
}

/// Formats a number of failed events.
pub(super) fn failed_events(number: u64) -> String {
    counted(number, "failed event", "failed events")
}

/// A digest by which a page detects whether it shows the same as another one.
pub(super) fn digest(shown: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    shown.hash(&mut hasher);
    hasher.finish()
}

/// A member as text.
pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A member that is a number, which JSON may have as text.
pub(super) fn number(value: &Value) -> u64 {
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or_default()
}

/// Formats a payload over several lines, cut to a length in bytes; returns whether it is complete.
pub(super) fn payload(value: &Value, most: usize) -> (String, bool) {
    let given = value.as_str().unwrap_or_default();
    let parsed: Result<Value, _> = serde_json::from_str(given);
    let pretty = parsed.and_then(|parsed| serde_json::to_string_pretty(&parsed)).unwrap_or_else(|_| given.to_owned());
    if pretty.len() <= most {
        return (pretty, true);
    }
    (pretty[..pretty.floor_char_boundary(most)].to_owned(), false)
}

/// The name of an enum value in lower case, without the common prefix.
pub(super) fn enum_name(value: &Value, prefix: &str) -> String {
    let name = value.as_str().unwrap_or_default();
    name.strip_prefix(prefix).unwrap_or(name).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn ages_and_numbers_are_words() {
        assert_eq!([0, 5, 61, 7200, 200_000].map(age), ["now", "5 s ago", "1 min ago", "2 h ago", "2 days ago"]);
        assert_eq!([1, 1284].map(failed_events), ["1 failed event", "1,284 failed events"]);
        assert_eq!([number(&json!("7")), number(&json!(7)), number(&json!(null))], [7, 7, 0]);
    }

    #[test]
    fn a_large_payload_is_cut_between_characters() {
        let large = json!(json!({ "a": "é".repeat(SHOWN) }).to_string());
        let (shown, is_whole) = payload(&large, SHOWN);
        assert!(!is_whole && shown.len() <= SHOWN && shown.ends_with('é'));
        assert!(payload(&large, usize::MAX).1, "what has no other place is shown whole");
        assert_eq!(payload(&json!("{\"a\":1}"), SHOWN), ("{\n  \"a\": 1\n}".to_owned(), true));
        assert_eq!(payload(&json!("no json"), SHOWN), ("no json".to_owned(), true));
    }
}
