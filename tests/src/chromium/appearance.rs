//! Appearances of pages: in narrow and wide windows, light and dark, with large text, and with forced colours.

use serde_json::{Value, json};

/// The colours that a browser requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colours {
    /// The page's own, dark on light.
    Light,
    /// The page's own, light on dark.
    Dark,
    /// The user's, instead of those of the page.
    Forced,
}

/// A window, with colours and a size of text, in which a page is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appearance {
    /// The name, as in the names of screenshots.
    pub name: &'static str,
    /// The width of the window.
    pub width: u32,
    /// The height of the window.
    pub height: u32,
    /// The colours.
    pub colours: Colours,
    /// The default size of text, in pixels: 16 unless the user has chosen another.
    pub text: u32,
    /// The rules of axe to check, as its options; nothing where another appearance covers them.
    pub rules: Option<&'static str>,
}

/// All rules of axe.
const ALL: Option<&str> = Some("{}");
/// The contrast of text, which is what other colours may break.
const CONTRAST: Option<&str> = Some("{ runOnly: ['color-contrast'] }");
/// All rules but contrast, which are what other sizes may break.
const ALL_BUT_CONTRAST: Option<&str> = Some("{ rules: { 'color-contrast': { enabled: false } } }");

/// How many characters a name may have.
const LONGEST: usize = 200;

/// On a phone by day.
pub const PHONE: Appearance =
    Appearance { name: "phone-light", width: 390, height: 844, colours: Colours::Light, text: 16, rules: ALL };
/// On a desk by night.
pub const DESKTOP: Appearance =
    Appearance { name: "desktop-dark", width: 1280, height: 800, colours: Colours::Dark, text: 16, rules: ALL };
/// The narrowest window.
pub const NARROW: Appearance =
    Appearance { name: "narrow-dark", width: 320, height: 640, colours: Colours::Dark, text: 16, rules: None };

/// All appearances; the page is used in the last one, the narrowest window.
pub const APPEARANCES: [Appearance; 7] = [
    PHONE,
    Appearance { name: "phone-dark", colours: Colours::Dark, rules: CONTRAST, ..PHONE },
    Appearance { name: "desktop-light", colours: Colours::Light, rules: CONTRAST, ..DESKTOP },
    DESKTOP,
    Appearance { name: "desktop-forced", colours: Colours::Forced, rules: None, ..DESKTOP },
    Appearance { name: "narrow-large", colours: Colours::Light, text: 32, rules: ALL_BUT_CONTRAST, ..NARROW },
    NARROW,
];

impl Appearance {
    /// Returns the commands that set the appearance in a browser, by name.
    pub(super) fn commands(&self) -> [(&'static str, Value); 3] {
        let Self { height, colours, text, .. } = *self;
        let feature = |name, value| json!({ "name": name, "value": value });
        let features = [
            feature("prefers-color-scheme", if colours == Colours::Light { "light" } else { "dark" }),
            feature("forced-colors", if colours == Colours::Forced { "active" } else { "none" }),
            // Colours would be measured during a transition.
            feature("prefers-reduced-motion", "reduce"),
        ];
        let text = json!({ "fontSizes": { "standard": text, "fixed": text * 13 / 16 } });
        [
            ("Emulation.setEmulatedMedia", json!({ "features": features })),
            ("Emulation.setDeviceMetricsOverride", self.size(height)),
            ("Page.setFontSizes", text),
        ]
    }

    /// Returns the metrics of a window with this height.
    pub(super) fn size(&self, height: u32) -> Value {
        json!({ "width": self.width, "height": height, "deviceScaleFactor": 1, "mobile": self.width < 500 })
    }
}

/// Returns the longest possible names: of one word, in a script that is written from right to left, and with an emoji.
#[must_use]
pub fn long_names() -> [String; 3] {
    ["W".repeat(LONGEST), "ש".repeat(LONGEST), format!("{}\u{1f994}", "Igel".repeat(LONGEST / 4)).split_off(1)]
}
