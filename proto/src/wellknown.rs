//! Times and durations, whose JSON form is text, and JSON objects.
//!
//! The canonical forms are those of the proto JSON mapping: RFC 3339 with `Z`, and seconds with `s`, both with 0, 3, 6
//! or 9 digits of fraction.

mod duration;
mod structure;
mod timestamp;

pub use duration::Duration;
pub use structure::Struct;
pub use timestamp::Timestamp;

const NANOS_PER_SECOND: i32 = 1_000_000_000;

/// The error for a value that the JSON mapping cannot represent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfRange;

impl std::fmt::Display for OutOfRange {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("the time or duration is out of range")
    }
}

impl std::error::Error for OutOfRange {}

/// Formats the fraction of a second with its point, in as few groups of three digits as possible; empty for none.
fn fraction(nanos: u32) -> String {
    let digits = format!("{nanos:09}");
    match (nanos, nanos % 1_000_000, nanos % 1_000) {
        (0, _, _) => String::new(),
        (_, 0, _) => format!(".{}", &digits[..3]),
        (_, _, 0) => format!(".{}", &digits[..6]),
        _ => format!(".{digits}"),
    }
}

/// A serde visitor that parses text.
struct Text<T> {
    expected: &'static str,
    parse: fn(&str) -> Option<T>,
}

impl<T> serde::de::Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.expected)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<T, E> {
        (self.parse)(text).ok_or_else(|| E::invalid_value(serde::de::Unexpected::Str(text), &self))
    }
}
