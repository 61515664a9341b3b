//! The parser for times in flags.

use base::clock;
use jiff::{Span, Timestamp};

/// Parses a time: RFC 3339, or how long ago, such as `2h`.
pub(crate) fn time(text: &str) -> Result<Timestamp, String> {
    let ago = || text.parse::<Span>().ok().and_then(|span| clock::now().checked_sub(span).ok());
    text.parse()
        .ok()
        .or_else(ago)
        .ok_or_else(|| "must be a time such as 2026-11-21T10:42:13Z, or how long ago, such as 2h or 30m".to_owned())
}
