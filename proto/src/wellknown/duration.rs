//! `google.protobuf.Duration`.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{NANOS_PER_SECOND, OutOfRange, Text, fraction};

/// A signed length of time. Seconds and nanoseconds have the same sign.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Message)]
pub struct Duration {
    /// Whole seconds.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// The nanoseconds in addition, less than a second.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

impl Duration {
    /// The duration zero.
    pub const ZERO: Self = Self::from_seconds(0);
    /// About 10 000 years, by the JSON mapping.
    const MAX_SECONDS: i64 = 315_576_000_000;

    /// Returns a duration of whole seconds.
    pub const fn from_seconds(seconds: i64) -> Self {
        Self { seconds, nanos: 0 }
    }

    /// Whether the JSON mapping can represent it.
    pub fn is_valid(&self) -> bool {
        self.seconds.abs() <= Self::MAX_SECONDS
            && self.nanos.abs() < NANOS_PER_SECOND
            && self.seconds.signum() * i64::from(self.nanos.signum()) >= 0
    }

    fn parse(text: &str) -> Option<Self> {
        let text = text.strip_suffix('s')?;
        let (sign, text) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
        let (seconds, nanos) = text.split_once('.').map_or((text, "0"), |(seconds, nanos)| (seconds, nanos));
        let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
        if !is_number(seconds) || !is_number(nanos) || nanos.len() > 9 {
            return None;
        }
        let seconds: i64 = seconds.parse().ok()?;
        let nanos: i32 = format!("{nanos:0<9}").parse().ok()?;
        Some(Self { seconds: sign * seconds, nanos: if sign < 0 { -nanos } else { nanos } }).filter(Self::is_valid)
    }
}

impl std::fmt::Display for Duration {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sign = if self.seconds < 0 || self.nanos < 0 { "-" } else { "" };
        write!(formatter, "{sign}{}{}s", self.seconds.unsigned_abs(), fraction(self.nanos.unsigned_abs()))
    }
}

impl TryFrom<std::time::Duration> for Duration {
    type Error = OutOfRange;

    fn try_from(duration: std::time::Duration) -> Result<Self, OutOfRange> {
        let seconds = i64::try_from(duration.as_secs()).map_err(|_| OutOfRange)?;
        let nanos = i32::try_from(duration.subsec_nanos()).map_err(|_| OutOfRange)?;
        Some(Self { seconds, nanos }).filter(Self::is_valid).ok_or(OutOfRange)
    }
}

impl TryFrom<Duration> for std::time::Duration {
    type Error = OutOfRange;

    /// A negative duration is out of range.
    fn try_from(duration: Duration) -> Result<Self, OutOfRange> {
        let seconds = u64::try_from(duration.seconds).map_err(|_| OutOfRange)?;
        let nanos = u32::try_from(duration.nanos).map_err(|_| OutOfRange)?;
        if duration.is_valid() { Ok(Self::new(seconds, nanos)) } else { Err(OutOfRange) }
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !self.is_valid() {
            return Err(serde::ser::Error::custom(OutOfRange));
        }
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Duration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Text { expected: "a duration in seconds such as \"3.5s\"", parse: Self::parse })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<(i64, i32)> {
        let duration: Duration = serde_json::from_value(serde_json::json!(text)).ok()?;
        Some((duration.seconds, duration.nanos))
    }

    #[test]
    fn prints_0_3_6_or_9_digits() {
        let cases = [
            ((3, 0), "3s"),
            ((0, 500_000_000), "0.500s"),
            ((1, 20_000), "1.000020s"),
            ((1, 1), "1.000000001s"),
            ((0, -500_000_000), "-0.500s"),
            ((-1, -1_000_000), "-1.001s"),
            ((0, 0), "0s"),
        ];
        for ((seconds, nanos), text) in cases {
            assert_eq!(serde_json::json!(Duration { seconds, nanos }), text);
            assert_eq!(parsed(text), Some((seconds, nanos)));
        }
    }

    #[test]
    fn refuses_what_is_no_duration() {
        for text in ["", "s", "3", "3 s", "+3s", "--3s", "3.s", ".5s", "1.0000000001s", "1e3s", "3S", "315576000001s"] {
            assert_eq!(parsed(text), None, "{text}");
        }
        assert_eq!(parsed("1.5s"), Some((1, 500_000_000)));
    }

    #[test]
    fn does_not_print_what_is_out_of_range() {
        for duration in [
            Duration::from_seconds(315_576_000_001),
            Duration { seconds: 1, nanos: -1 },
            Duration { seconds: 0, nanos: NANOS_PER_SECOND },
        ] {
            assert!(serde_json::to_value(duration).is_err());
        }
    }

    #[test]
    fn converts_to_and_from_std() {
        let half = std::time::Duration::from_millis(1500);
        assert_eq!(Duration::try_from(half).map(std::time::Duration::try_from), Ok(Ok(half)));
        assert_eq!(std::time::Duration::try_from(Duration::from_seconds(-1)), Err(OutOfRange));
        assert_eq!(Duration::try_from(std::time::Duration::MAX), Err(OutOfRange));
    }
}
