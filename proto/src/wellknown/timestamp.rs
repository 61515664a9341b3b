//! `google.protobuf.Timestamp`.

use jiff::{
    ToSpan,
    civil::{Date, DateTime, date},
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{NANOS_PER_SECOND, OutOfRange, Text, fraction};

const NANOS_PER_MILLISECOND: i64 = 1_000_000;
const SECONDS_PER_DAY: i64 = 24 * 3600;
/// The date of the Unix epoch. Dates of the time library extend to the end of the year 9999, unlike its timestamps.
const EPOCH: Date = date(1970, 1, 1);

/// A point in time, counted from the Unix epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Message)]
pub struct Timestamp {
    /// Whole seconds; negative before the epoch.
    #[prost(int64, tag = "1")]
    pub seconds: i64,
    /// The nanoseconds in addition, never negative and less than a second.
    #[prost(int32, tag = "2")]
    pub nanos: i32,
}

impl Timestamp {
    /// The first second of the year 1.
    const MIN_SECONDS: i64 = -62_135_596_800;
    /// The last second of the year 9999.
    const MAX_SECONDS: i64 = 253_402_300_799;

    /// Whether the JSON mapping can represent it.
    pub fn is_valid(&self) -> bool {
        (Self::MIN_SECONDS..=Self::MAX_SECONDS).contains(&self.seconds) && (0..NANOS_PER_SECOND).contains(&self.nanos)
    }

    /// Returns the time of milliseconds since the Unix epoch; `None` before the year 1 and after the year 9999.
    pub fn from_millisecond(milliseconds: i64) -> Option<Self> {
        let (seconds, rest) = (milliseconds.div_euclid(1000), milliseconds.rem_euclid(1000));
        let nanos = i32::try_from(rest * NANOS_PER_MILLISECOND).expect("it is less than a second");
        Some(Self { seconds, nanos }).filter(Self::is_valid)
    }

    /// Returns the milliseconds since the Unix epoch, rounded down; `None` before the year 1 and after the year 9999.
    pub fn as_millisecond(&self) -> Option<i64> {
        self.is_valid().then(|| self.seconds * 1000 + i64::from(self.nanos) / NANOS_PER_MILLISECOND)
    }

    /// Parses RFC 3339. The time library alone would accept more, such as a blank for the `T`.
    fn parse(text: &str) -> Option<Self> {
        let (date, rest) = text.split_at_checked("0000-00-00T00:00:00".len())?;
        let looks_right = date.bytes().zip("0000-00-00T00:00:00".bytes()).all(|(byte, shape)| match shape {
            b'0' => byte.is_ascii_digit(),
            _ => byte == shape,
        });
        let (local, offset) = text.split_at(date.len() + rest.find(['Z', '+', '-'])?);
        if !looks_right {
            return None;
        }
        let local: DateTime = local.parse().ok()?;
        let days = i64::from(EPOCH.until(local.date()).ok()?.get_days());
        let (hours, minutes) = (days * 24 + i64::from(local.hour()), i64::from(local.minute()));
        let seconds = (hours * 60 + minutes) * 60 + i64::from(local.second()) - seconds_of(offset)?;
        Some(Self { seconds, nanos: local.subsec_nanosecond() }).filter(Self::is_valid)
    }
}

/// Returns how many seconds an offset, `Z` or such as `+01:30`, is ahead of UTC.
fn seconds_of(offset: &str) -> Option<i64> {
    if offset == "Z" {
        return Some(0);
    }
    let (hours, minutes) = offset.get(1..)?.split_once(':')?;
    let number = |text: &str, below: i64| {
        let is_one = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<i64>().ok().filter(|number| is_one && *number < below)
    };
    let seconds = (number(hours, 24)? * 60 + number(minutes, 60)?) * 60;
    Some(if offset.starts_with('-') { -seconds } else { seconds })
}

impl From<jiff::Timestamp> for Timestamp {
    fn from(time: jiff::Timestamp) -> Self {
        let (seconds, nanos) = (time.as_second(), time.subsec_nanosecond());
        if nanos < 0 { Self { seconds: seconds - 1, nanos: nanos + NANOS_PER_SECOND } } else { Self { seconds, nanos } }
    }
}

/// The timestamps of the time library end 26 hours before the year 9999 does. Later times become its last one.
impl TryFrom<Timestamp> for jiff::Timestamp {
    type Error = OutOfRange;

    fn try_from(time: Timestamp) -> Result<Self, OutOfRange> {
        if !time.is_valid() {
            return Err(OutOfRange);
        }
        if time.seconds > Self::MAX.as_second() {
            return Ok(Self::MAX);
        }
        Self::new(time.seconds, time.nanos).map_err(|_| OutOfRange)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let out_of_range = || serde::ser::Error::custom(OutOfRange);
        let (days, seconds) = (self.seconds.div_euclid(SECONDS_PER_DAY), self.seconds.rem_euclid(SECONDS_PER_DAY));
        let date = self.is_valid().then(|| EPOCH.checked_add(days.days()).ok()).flatten().ok_or_else(out_of_range)?;
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        let fraction = fraction(self.nanos.unsigned_abs());
        serializer.collect_str(&format_args!("{date}T{hour:02}:{minute:02}:{second:02}{fraction}Z"))
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
            ((Timestamp::MAX_SECONDS, 999_999_999), "9999-12-31T23:59:59.999999999Z"),
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
        assert_eq!(parsed("9999-12-31T23:59:59.25+23:59"), Some((Timestamp::MAX_SECONDS - 86_340, 250_000_000)));
        assert_eq!(parsed("1970-01-01T00:00:00-00:00"), Some((0, 0)));
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
            "9999-12-31T23:59:59-00:01",
            "0001-01-01T00:00:00+00:01",
            "1970-01-01T00:00:00+24:00",
            "1970-01-01T00:00:00+00:60",
            "1970-01-01T00:00:00+1:000",
            "1970-01-01T00:00:00Z+00:00",
            "1970-01-01T24:00:00Z",
            "1970-01-01T00:60:00Z",
            "1970-01-01T00:00:00.1234567890Z",
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
        let last = Timestamp { seconds: Timestamp::MAX_SECONDS, nanos: 0 };
        assert_eq!(jiff::Timestamp::try_from(last), Ok(jiff::Timestamp::MAX), "it has no later ones");
    }

    #[test]
    fn converts_to_and_from_milliseconds() {
        for (milliseconds, seconds, nanos) in
            [(0, 0, 0), (-1, -1, 999_000_000), (253_402_300_799_999, Timestamp::MAX_SECONDS, 999_000_000)]
        {
            let time = Timestamp { seconds, nanos };
            assert_eq!(
                (Timestamp::from_millisecond(milliseconds), time.as_millisecond()),
                (Some(time), Some(milliseconds))
            );
        }
        assert_eq!(Timestamp { seconds: 0, nanos: 999_999 }.as_millisecond(), Some(0));
        assert_eq!(Timestamp { seconds: 0, nanos: -1 }.as_millisecond(), None);
        for milliseconds in [i64::MIN, i64::MAX, 253_402_300_800_000] {
            assert_eq!(Timestamp::from_millisecond(milliseconds), None, "{milliseconds}");
        }
    }

    /// The time library parses and prints the same texts.
    #[test]
    fn agrees_with_the_time_library() {
        for seconds in (Timestamp::MIN_SECONDS..jiff::Timestamp::MAX.as_second()).step_by(1_234_567_891) {
            let time = jiff::Timestamp::new(seconds, 0).unwrap();
            assert_eq!(printed(seconds, 0), time.to_string());
            assert_eq!(parsed(&time.to_string()), Some((seconds, 0)));
        }
    }
}
