//! Preferences of clients, which are met where possible (RFC 7240).

use std::time::Duration;

use http::HeaderMap;

/// The header and metadata key that names the preferences that were applied (RFC 7240, section 3).
pub const APPLIED: &str = "preference-applied";
/// The applied preference of a write that waited until the read models had it.
pub const WAITED: &str = "wait";

const HEADER: &str = "prefer";
/// How long a write waits by default.
const DEFAULT_WAIT: Duration = Duration::from_secs(2);
/// The longest that a write waits.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// How long a write has to wait for the read models (RFC 7240, section 4.3), in whole seconds and at most 10 s; 2 s if
/// the client gives no time. A malformed preference is ignored.
pub(crate) fn wait(headers: &HeaderMap) -> Option<Duration> {
    let lines = headers.get_all(HEADER).iter().filter_map(|line| line.to_str().ok());
    let mut preferences = lines.flat_map(|line| line.split(',')).map(|preference| {
        let preference = preference.split(';').next().unwrap_or_default();
        let (name, value) = preference.split_once('=').unwrap_or((preference, ""));
        (name.trim(), value.trim().trim_matches('"'))
    });
    let (_, seconds) = preferences.find(|(name, _)| name.eq_ignore_ascii_case("wait"))?;
    match seconds {
        "" => Some(DEFAULT_WAIT),
        seconds => Some(Duration::from_secs(seconds.parse().ok()?).min(LONGEST_WAIT)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_wait_counts_and_nonsense_does_not() {
        for (line, waits) in [
            ("wait", Some(2)),
            ("WAIT=5", Some(5)),
            ("respond-async, wait = \"3\"; x=y", Some(3)),
            ("wait=3600", Some(10)),
            ("wait=1, wait=4", Some(1)),
            ("wait=0", Some(0)),
            ("wait=soon", None),
            ("wait=-1", None),
            ("waiting", None),
            ("", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(HEADER, line.parse().unwrap());
            assert_eq!(wait(&headers), waits.map(Duration::from_secs), "{line}");
        }
    }
}
