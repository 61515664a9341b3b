//! How pages are looked at: in narrow and wide windows, light and dark, with large text, and in the few colours of whoever looks.

use serde_json::{Value, json};

/// Which colours are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colours {
    /// Those of the page, dark on light.
    Light,
    /// Those of the page, light on dark.
    Dark,
    /// Those of whoever looks, whatever the page would like.
    Forced,
}

/// A way to look at a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// What pictures are called after it.
    pub name: &'static str,
    /// The width of the window.
    pub width: u32,
    /// Its height.
    pub height: u32,
    /// The colours.
    pub colours: Colours,
    /// How large text is that a page does not say the size of, in pixels: 16 unless somebody has chosen another size.
    pub text: u32,
    /// What axe looks for too, as it is told; nothing where another way would have found it.
    pub rules: Option<&'static str>,
}

/// All that axe knows.
const ALL: Option<&str> = Some("{}");
/// Whether what is written can be read: what the other colours may be wrong in.
const CONTRAST: Option<&str> = Some("{ runOnly: ['color-contrast'] }");
/// All but that: what other sizes may be wrong in.
const ALL_BUT_CONTRAST: Option<&str> = Some("{ rules: { 'color-contrast': { enabled: false } } }");

/// How many characters a name may have.
const LONGEST: usize = 200;

/// On a phone by day.
pub const PHONE: Look =
    Look { name: "phone-light", width: 390, height: 844, colours: Colours::Light, text: 16, rules: ALL };
/// On a desk by night.
pub const DESKTOP: Look =
    Look { name: "desktop-dark", width: 1280, height: 800, colours: Colours::Dark, text: 16, rules: ALL };
/// In the narrowest window that there is.
pub const NARROW: Look =
    Look { name: "narrow-dark", width: 320, height: 640, colours: Colours::Dark, text: 16, rules: None };

/// All ways; what is done on a page after it was looked at is done in the narrowest window.
pub const LOOKS: [Look; 7] = [
    PHONE,
    Look { name: "phone-dark", colours: Colours::Dark, rules: CONTRAST, ..PHONE },
    Look { name: "desktop-light", colours: Colours::Light, rules: CONTRAST, ..DESKTOP },
    DESKTOP,
    Look { name: "desktop-forced", colours: Colours::Forced, rules: None, ..DESKTOP },
    Look { name: "narrow-large", colours: Colours::Light, text: 32, rules: ALL_BUT_CONTRAST, ..NARROW },
    NARROW,
];

impl Look {
    /// The commands that have a browser look so, by name.
    pub(super) fn commands(&self) -> [(&'static str, Value); 3] {
        let Self { height, colours, text, .. } = *self;
        let feature = |name, value| json!({ "name": name, "value": value });
        let features = [
            feature("prefers-color-scheme", if colours == Colours::Light { "light" } else { "dark" }),
            feature("forced-colors", if colours == Colours::Forced { "active" } else { "none" }),
            // Colours that change slowly would be measured on their way.
            feature("prefers-reduced-motion", "reduce"),
        ];
        let text = json!({ "fontSizes": { "standard": text, "fixed": text * 13 / 16 } });
        [
            ("Emulation.setEmulatedMedia", json!({ "features": features })),
            ("Emulation.setDeviceMetricsOverride", self.size(height)),
            ("Page.setFontSizes", text),
        ]
    }

    /// A window that is so high.
    pub(super) fn size(&self, height: u32) -> Value {
        json!({ "width": self.width, "height": height, "deviceScaleFactor": 1, "mobile": self.width < 500 })
    }
}

/// The longest names that there are: of one word, of one that is written from right to left, and of one with a picture.
#[must_use]
pub fn long_names() -> [String; 3] {
    ["W".repeat(LONGEST), "ש".repeat(LONGEST), format!("{}\u{1f994}", "Igel".repeat(LONGEST / 4)).split_off(1)]
}
