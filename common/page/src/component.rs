//! Components of pages that need more than a template.

use std::fmt::Write;

/// The platform's own icon.
pub const ICON: &str = include_str!("../assets/icon.svg");

/// The data for the head of every page.
#[derive(Debug, Clone)]
pub struct Frame {
    /// The path of the stylesheet.
    pub stylesheet: String,
    /// The path of the stylesheet with the font, if the page has one of its own.
    pub font: Option<String>,
    /// The icons. Browsers take the last one that fits.
    pub icons: Vec<Icon>,
    /// The path of the script, where the page has one.
    pub script: Option<String>,
    /// The path of the stream that the page follows, if any.
    pub live: Option<String>,
    /// The language of the page, as HTML names it.
    pub lang: &'static str,
    /// The direction of the text: `ltr` or `rtl`.
    pub dir: &'static str,
    /// The supported colour schemes: `light`, `dark` or both.
    pub schemes: &'static str,
    /// The text of the link that skips to the content.
    pub skip: String,
}

/// An icon of a page in the browser.
#[derive(Debug, Clone)]
pub struct Icon {
    /// The path.
    pub path: String,
    /// The media type.
    pub kind: &'static str,
    /// The media query under which it applies; empty if always.
    pub media: &'static str,
}

impl Frame {
    /// The frame of a page in English, with these files, and colours for light and dark.
    pub fn english(stylesheet: &str, icon: &str) -> Self {
        Self {
            stylesheet: stylesheet.to_owned(),
            font: None,
            icons: vec![Icon { path: icon.to_owned(), kind: "image/svg+xml", media: "" }],
            script: None,
            live: None,
            lang: "en",
            dir: "ltr",
            schemes: "light dark",
            skip: "Skip to the content".to_owned(),
        }
    }
}

/// The state of something, shown by shape, word and colour, so that none of them alone is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Badge {
    /// It is up to date.
    Current,
    /// It lags behind the log.
    Lagging,
    /// Something waits for a person.
    Parked,
    /// It has stopped.
    Stopped,
    /// It is under way.
    Working,
    /// It is over.
    Done,
    /// Its state is unknown.
    Unknown,
}

impl Badge {
    /// The CSS class of its colour.
    pub fn class(self) -> &'static str {
        match self {
            Self::Current => "badge ok",
            Self::Lagging | Self::Working => "badge warning",
            Self::Parked | Self::Stopped => "badge danger",
            Self::Done | Self::Unknown => "badge muted",
        }
    }

    /// The shape.
    pub fn shape(self) -> &'static str {
        match self {
            Self::Current | Self::Done => "●",
            Self::Lagging | Self::Working => "▲",
            Self::Parked => "◆",
            Self::Stopped => "■",
            Self::Unknown => "○",
        }
    }
}

/// A line chart of values over time, the newest last.
#[derive(Debug, Clone)]
pub struct Chart {
    /// The id in the page, by which its line can be updated.
    pub id: String,
    /// The description for people who cannot see it.
    pub title: String,
    /// The size.
    pub size: Size,
    /// The points of the line.
    pub points: String,
}

/// The size of a chart, in pixels.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// The width.
    pub width: u32,
    /// The height.
    pub height: u32,
}

/// How many values a chart shows.
pub const POINTS: usize = 60;

impl Chart {
    /// A chart of these values.
    pub fn new(id: impl Into<String>, title: impl Into<String>, size: Size, values: &[u64]) -> Self {
        Self { id: id.into(), title: title.into(), size, points: points(size, values) }
    }
}

/// The points of a line through values, the highest of which reaches the top. Fewer values begin further to the right.
pub fn points(Size { width, height }: Size, values: &[u64]) -> String {
    let shown = &values[values.len().saturating_sub(POINTS)..];
    let highest = shown.iter().copied().max().unwrap_or_default().max(1);
    let (width, room) = (u64::from(width), u64::from(height.saturating_sub(4)));
    let (first, last) = ((POINTS - shown.len()) as u64, (POINTS - 1) as u64);
    let mut text = String::new();
    for (at, value) in (first..).zip(shown) {
        let across = 1 + at * width.saturating_sub(2) / last;
        let down =
            2 + room - u64::try_from(u128::from(*value) * u128::from(room) / u128::from(highest)).unwrap_or(room);
        let gap = if text.is_empty() { "" } else { " " };
        let _ = write!(text, "{gap}{across},{down}");
    }
    text
}

/// The navigation between the pages of a list.
#[derive(Debug, Clone)]
pub struct Pages {
    /// The range that is shown, and the total.
    pub text: String,
    /// The path of the previous page, if there is one.
    pub previous: Option<String>,
    /// The path of the next page, if there is one.
    pub next: Option<String>,
}

/// How many entries a page of a list shows.
pub const PAGE: u64 = 25;

impl Pages {
    /// The navigation of a page that shows some entries of a total after an offset; `path` returns the path for an
    /// offset.
    pub fn new(offset: u64, shown: u64, total: u64, path: impl Fn(u64) -> String) -> Self {
        let text = match shown {
            0 => "0".to_owned(),
            _ => format!("{}–{} of {}", count(offset + 1), count(offset + shown), count(total)),
        };
        let previous = (offset > 0).then(|| path(offset.saturating_sub(PAGE)));
        let next = (offset + shown < total && shown > 0).then(|| path(offset + PAGE));
        Self { text, previous, next }
    }
}

/// Formats a number with thousands separators.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_thousands_apart() {
        assert_eq!([0, 999, 1284, 1_000_000].map(count), ["0", "999", "1,284", "1,000,000"]);
    }

    #[test]
    fn a_line_stays_within_its_chart() {
        let values: Vec<u64> = (0..100).chain([u64::MAX]).collect();
        let (small, large) = (Size { width: 120, height: 24 }, Size { width: 600, height: 160 });
        for line in [points(small, &values), points(small, &[7]), points(large, &[0, 0])] {
            for point in line.split(' ') {
                let (across, down) = point.split_once(',').unwrap();
                let (across, down): (u32, u32) = (across.parse().unwrap(), down.parse().unwrap());
                assert!((1..600).contains(&across) && (2..=158).contains(&down), "{point}");
            }
        }
        assert_eq!(points(small, &values).split(' ').count(), POINTS);
        assert_eq!(points(small, &[]), "");
    }

    #[test]
    fn pages_lead_to_what_there_is() {
        let at = |offset, shown, total| {
            let Pages { text, previous, next } = Pages::new(offset, shown, total, |offset| offset.to_string());
            (text, previous, next)
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(at(0, 0, 0), ("0".to_owned(), None, None));
        assert_eq!(at(0, 25, 1284), ("1–25 of 1,284".to_owned(), None, some("25")));
        assert_eq!(at(25, 25, 50), ("26–50 of 50".to_owned(), some("0"), None));
    }
}
