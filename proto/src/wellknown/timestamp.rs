//! `google.protobuf.Timestamp`.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{NANOS_PER_SECOND, OutOfRange, Text, fraction};

/// A point in time, counted from the Unix epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Message)]
pub struct Timestamp {
    /// Whole seconds; negative before the epoch.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// What comes on top of them, never negative and less than a second.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

impl Timestamp {
    /// The first second of the year 1.
    const MIN_SECONDS: i64 = -62_135_596_800;
    /// The last second of the year 9999 by the JSON mapping, but the time library ends a little earlier, so that every
    /// time has a date in every zone.
    const MAX_SECONDS: i64 = 253_402_207_200 - 1;

    /// Whether the JSON mapping can write it.
    pub fn is_valid(&self) -> bool {
        (Self::MIN_SECONDS..=Self::MAX_SECONDS).contains(&self.seconds) && (0..NANOS_PER_SECOND).contains(&self.nanos)
    }

    /// RFC 3339. The time library alone would take more than that, such as a blank for the `T`, or a zone in brackets.
    fn parse(text: &str) -> Option<Self> {
        let (date, rest) = text.split_at_checked("0000-00-00T00:00:00".len())?;
        let looks_right = date.bytes().zip("0000-00-00T00:00:00".bytes()).all(|(byte, shape)| match shape {
            b'0' => byte.is_ascii_digit(),
            _ => byte == shape,
        });
        let (_, offset) = rest.split_at(rest.find(['Z', '+', '-'])?);
        let offset_fits = offset == "Z" || (offset.len() == "+00:00".len() && offset.as_bytes()[3] == b':');
        if !looks_right || !offset_fits {
            return None;
        }
        text.parse::<jiff::Timestamp>().ok().map(Self::from).filter(Self::is_valid)
    }
}

impl From<jiff::Timestamp> for Timestamp {
    fn from(time: jiff::Timestamp) -> Self {
        let (seconds, nanos) = (time.as_second(), time.subsec_nanosecond());
        if nanos < 0 { Self { seconds: seconds - 1, nanos: nanos + NANOS_PER_SECOND } } else { Self { seconds, nanos } }
    }
}

impl TryFrom<Timestamp> for jiff::Timestamp {
    type Error = OutOfRange;

    fn try_from(time: Timestamp) -> Result<Self, OutOfRange> {
        if !time.is_valid() {
            return Err(OutOfRange);
        }
        Self::new(time.seconds, time.nanos).map_err(|_| OutOfRange)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let time = jiff::Timestamp::try_from(*self).map_err(serde::ser::Error::custom)?;
        serializer.collect_str(&format_args!(
            "{}{}Z",
            time.strftime("%Y-%m-%dT%H:%M:%S"),
            fraction(self.nanos.unsigned_abs())
        ))
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "a time of RFC 3339 such as \"2026-01-31T12:00:00Z\"";
        deserializer.deserialize_str(Text { expected, parse: Self::parse })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(seconds: i64, nanos: i32) -> String {
        serde_json::to_value(Timestamp { seconds, nanos }).unwrap().as_str().unwrap().to_owned()
    }

    fn parsed(text: &str) -> Option<(i64, i32)> {
        let time: Timestamp = serde_json::from_value(serde_json::json!(text)).ok()?;
        Some((time.seconds, time.nanos))
    }

    #[test]
    fn prints_utc_with_z_and_0_3_6_or_9_digits() {
        let cases = [
            ((0, 0), "1970-01-01T00:00:00Z"),
            ((1_767_225_600, 120_000_000), "2026-01-01T00:00:00.120Z"),
            ((1_767_225_600, 1_000), "2026-01-01T00:00:00.000001Z"),
            ((1_767_225_600, 1), "2026-01-01T00:00:00.000000001Z"),
            ((-1, 500_000_000), "1969-12-31T23:59:59.500Z"),
            ((Timestamp::MIN_SECONDS, 0), "0001-01-01T00:00:00Z"),
            ((Timestamp::MAX_SECONDS, 999_999_999), "9999-12-30T21:59:59.999999999Z"),
        ];
        for ((seconds, nanos), text) in cases {
            assert_eq!(printed(seconds, nanos), text);
            assert_eq!(parsed(text), Some((seconds, nanos)));
        }
    }

    #[test]
    fn takes_any_offset_and_length_of_fraction() {
        assert_eq!(parsed("1970-01-01T01:00:00+01:00"), Some((0, 0)));
        assert_eq!(parsed("1969-12-31T23:30:00.5-00:30"), Some((0, 500_000_000)));
    }

    #[test]
    fn refuses_what_is_not_rfc_3339_or_out_of_range() {
        for text in [
            "",
            "now",
            "1970-01-01",
            "1970-01-01 00:00:00Z",
            "1970-01-01T00:00:00",
            "1970-01-01T00:00:00z",
            "1970-01-01T00:00Z",
            "1970-01-01T00:00:00.Z",
            "1970-01-01T00:00:00+01",
            "1970-01-01T00:00:00Z[UTC]",
            "1970-02-30T00:00:00Z",
            "0000-12-31T23:59:59Z",
            "9999-12-31T00:00:00Z",
            "10000-01-01T00:00:00Z",
            "1970-01-01T00:00:00\u{e9}",
        ] {
            assert_eq!(parsed(text), None, "{text}");
        }
        assert!(serde_json::to_value(Timestamp { seconds: Timestamp::MAX_SECONDS + 1, nanos: 0 }).is_err());
    }

    #[test]
    fn converts_to_and_from_jiff() {
        for (seconds, nanos) in [(0, 0), (-1, 500_000_000), (1_767_225_600, 7)] {
            let time = Timestamp { seconds, nanos };
            assert_eq!(jiff::Timestamp::try_from(time).map(Timestamp::from), Ok(time));
        }
        assert_eq!(jiff::Timestamp::try_from(Timestamp { seconds: 0, nanos: -1 }), Err(OutOfRange));
    }
}
