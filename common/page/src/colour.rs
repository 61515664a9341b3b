//! Readable colours: contrast as WCAG 2 measures it, and lightness stepped in OKLCH until it suffices.

/// A colour of sRGB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Colour {
    /// Red, green and blue.
    pub channels: [u8; 3],
}

/// White.
pub const WHITE: Colour = Colour { channels: [255; 3] };
/// Black.
pub const BLACK: Colour = Colour { channels: [0; 3] };

/// The step of lightness.
const STEP: f64 = 0.01;
/// How many times the interval is halved to find the most chroma that sRGB can show.
const HALVINGS: u32 = 20;

/// A colour by lightness and the two coordinates of chroma and hue.
#[derive(Debug, Clone, Copy)]
struct Oklab {
    lightness: f64,
    a: f64,
    b: f64,
}

impl Colour {
    /// Reads `#rrggbb`, and nothing else: what a tenant sends enters a stylesheet only in this form.
    pub fn read(text: &str) -> Option<Self> {
        let digits = text.strip_prefix('#').filter(|digits| digits.len() == 6)?;
        if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let channel = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).ok();
        Some(Self { channels: [channel(0)?, channel(2)?, channel(4)?] })
    }

    /// As `#rrggbb`.
    pub fn hex(self) -> String {
        let [red, green, blue] = self.channels;
        format!("#{red:02x}{green:02x}{blue:02x}")
    }

    /// The contrast with another one, from 1 to 21 (WCAG 2.2, "contrast ratio").
    pub fn contrast(self, other: Self) -> f64 {
        let (one, other) = (self.luminance(), other.luminance());
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    /// The smallest contrast with any of these.
    pub fn least_contrast(self, with: &[Self]) -> f64 {
        with.iter().map(|other| self.contrast(*other)).fold(f64::INFINITY, f64::min)
    }

    fn luminance(self) -> f64 {
        let [red, green, blue] = self.channels.map(linear);
        0.2126 * red + 0.7152 * green + 0.0722 * blue
    }

    /// Blends this share of the colour over another one.
    pub fn over(self, share: f64, under: Self) -> Self {
        let mut channels = [0; 3];
        for (at, channel) in channels.iter_mut().enumerate() {
            let mixed = f64::from(self.channels[at]) * share + f64::from(under.channels[at]) * (1.0 - share);
            *channel = rounded(mixed);
        }
        Self { channels }
    }

    /// Returns the same hue, this much lighter, or darker if negative.
    pub fn lighter(self, by: f64) -> Self {
        let own = self.oklab();
        Oklab { lightness: (own.lightness + by).clamp(0.0, 1.0), ..own }.colour()
    }

    /// Returns the colour nearest to this one that has at least this contrast with all of these: stepped towards black
    /// or white, whichever contrasts better with them, and black or white itself if nothing before suffices.
    pub fn fit(self, contrast: f64, with: &[Self]) -> Self {
        if self.least_contrast(with) >= contrast {
            return self;
        }
        let is_lighter = WHITE.least_contrast(with) >= BLACK.least_contrast(with);
        let (pole, step) = if is_lighter { (WHITE, STEP) } else { (BLACK, -STEP) };
        let mut own = self.oklab();
        while (0.0..=1.0).contains(&own.lightness) {
            own.lightness += step;
            let found = own.colour();
            if found.least_contrast(with) >= contrast {
                return found;
            }
        }
        pole
    }

    fn oklab(self) -> Oklab {
        let [red, green, blue] = self.channels.map(linear);
        let long = 0.412_221_470_8 * red + 0.536_332_536_3 * green + 0.051_445_992_9 * blue;
        let medium = 0.211_903_498_2 * red + 0.680_699_545_1 * green + 0.107_396_956_6 * blue;
        let short = 0.088_302_461_9 * red + 0.281_718_837_6 * green + 0.629_978_700_5 * blue;
        let [long, medium, short] = [long, medium, short].map(f64::cbrt);
        Oklab {
            lightness: 0.210_454_255_3 * long + 0.793_617_785_0 * medium - 0.004_072_046_8 * short,
            a: 1.977_998_495_1 * long - 2.428_592_205_0 * medium + 0.450_593_709_9 * short,
            b: 0.025_904_037_1 * long + 0.782_771_766_2 * medium - 0.808_675_766_0 * short,
        }
    }
}

impl Oklab {
    /// The colour of sRGB with this lightness and hue, and as much of the chroma as sRGB can show.
    fn colour(self) -> Colour {
        let of = |share: f64| Self { a: self.a * share, b: self.b * share, ..self }.linear();
        let is_shown = |channels: [f64; 3]| channels.iter().all(|channel| (-0.0001..=1.0001).contains(channel));
        let (mut shown, mut hidden) = (0.0, 1.0);
        if is_shown(of(1.0)) {
            shown = 1.0;
        } else {
            for _ in 0..HALVINGS {
                let middle = f64::midpoint(shown, hidden);
                if is_shown(of(middle)) { shown = middle } else { hidden = middle }
            }
        }
        Colour { channels: of(shown).map(encoded) }
    }

    fn linear(self) -> [f64; 3] {
        let Self { lightness, a, b } = self;
        let long = (lightness + 0.396_337_777_4 * a + 0.215_803_757_3 * b).powi(3);
        let medium = (lightness - 0.105_561_345_8 * a - 0.063_854_172_8 * b).powi(3);
        let short = (lightness - 0.089_484_177_5 * a - 1.291_485_548_0 * b).powi(3);
        [
            4.076_741_662_1 * long - 3.307_711_591_3 * medium + 0.230_969_929_2 * short,
            -1.268_438_004_6 * long + 2.609_757_401_1 * medium - 0.341_319_396_5 * short,
            -0.004_196_086_3 * long - 0.703_418_614_7 * medium + 1.707_614_701_0 * short,
        ]
    }
}

fn linear(channel: u8) -> f64 {
    let value = f64::from(channel) / 255.0;
    if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
}

fn encoded(value: f64) -> u8 {
    let value = value.clamp(0.0, 1.0);
    rounded(255.0 * if value <= 0.003_130_8 { value * 12.92 } else { 1.055 * value.powf(1.0 / 2.4) - 0.055 })
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is clamped to what a byte has")]
fn rounded(value: f64) -> u8 {
    value.round().clamp(0.0, 255.0) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn colour(text: &str) -> Colour {
        Colour::read(text).unwrap()
    }

    #[test]
    fn only_six_digits_are_a_colour() {
        assert_eq!(colour("#2073C4").hex(), "#2073c4");
        for other in ["", "#fff", "2073c4", "#2073c", "#2073c4a", "#+073c4", "#20é3c", "red", "#2073c4;}"] {
            assert_eq!(Colour::read(other), None, "{other}");
        }
    }

    #[test]
    fn contrast_is_that_of_wcag() {
        assert!((WHITE.contrast(BLACK) - 21.0).abs() < 0.001);
        assert!((colour("#2073c4").contrast(colour("#111827")) - 3.6).abs() < 0.05);
        assert!((colour("#767676").contrast(WHITE) - 4.54).abs() < 0.01);
    }

    #[test]
    fn every_colour_survives_the_way_to_oklab_and_back() {
        for text in ["#000000", "#ffffff", "#2073c4", "#ffe600", "#ff0000", "#00ff00", "#0000ff", "#101010"] {
            assert_eq!(colour(text).lighter(0.0).hex(), text);
        }
    }

    #[test]
    fn a_colour_is_stepped_until_it_can_be_read_and_no_further() {
        let (page, link) = (colour("#111827"), colour("#2073c4"));
        assert_eq!(link.fit(4.5, &[page, page.lighter(0.03)]).hex(), "#3989db");
        assert_eq!(colour("#2073c4").fit(3.0, &[WHITE]).hex(), "#2073c4");
        // No colour has so much contrast with both.
        assert_eq!(colour("#808080").fit(7.0, &[colour("#777777")]), BLACK);
    }

    #[test]
    fn black_or_white_can_be_read_on_any_colour() {
        for step in 0..=255_u8 {
            for channels in [[step; 3], [step, 0, 0], [0, step, 255], [255, step, 0]] {
                let page = Colour { channels };
                let text = Colour { channels: [128, step, 90] }.fit(4.5, &[page]);
                assert!(text.contrast(page) >= 4.5, "{page:?} {text:?}");
            }
        }
    }
}
