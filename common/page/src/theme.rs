//! The colours of pages, computed from the few that are chosen, and the stylesheet with them.
//!
//! Whatever colours are chosen, the result is readable.

use std::{fmt::Write, sync::LazyLock};

use base::secret;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};

use crate::colour::{BLACK, Colour, WHITE};

/// The rules that do not depend on the colours.
const RULES: &str = include_str!("../assets/page.css");

/// The chosen colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scheme {
    /// The colour of the page.
    pub background: Colour,
    /// The colour of text.
    pub font: Colour,
    /// The colour of buttons.
    pub primary: Colour,
    /// The colour of what is dangerous or wrong.
    pub warn: Colour,
}

/// The colours of every part of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Theme {
    /// The background of the page.
    pub page: Colour,
    /// The background of cards, tables and fields.
    pub surface: Colour,
    /// Text.
    pub text: Colour,
    /// Secondary text.
    pub muted: Colour,
    /// Lines around fields and tables.
    pub border: Colour,
    /// Buttons.
    pub primary: Colour,
    /// Buttons under the pointer.
    pub hover: Colour,
    /// Text on buttons.
    pub on_primary: Colour,
    /// The focus, edges of buttons, and lines of charts.
    pub focus: Colour,
    /// Links.
    pub link: Colour,
    /// What is dangerous or wrong.
    pub danger: Colour,
    /// What is in order.
    pub ok: Colour,
    /// What needs attention.
    pub warning: Colour,
}

const LIGHT: Scheme = Scheme {
    background: Colour { channels: [0xf6, 0xf7, 0xf9] },
    font: Colour { channels: [0x1a, 0x20, 0x2c] },
    primary: Colour { channels: [0x1f, 0x5f, 0xbf] },
    warn: Colour { channels: [0xb4, 0x23, 0x18] },
};
const DARK: Scheme = Scheme {
    background: Colour { channels: [0x11, 0x18, 0x27] },
    font: Colour { channels: [0xe5, 0xe9, 0xf0] },
    primary: Colour { channels: [0x3b, 0x82, 0xe0] },
    warn: Colour { channels: [0xf0, 0x6a, 0x5e] },
};
const OK: Colour = Colour { channels: [0x1a, 0x7f, 0x37] };
const WARNING: Colour = Colour { channels: [0x9a, 0x67, 0x00] };

impl Scheme {
    /// Computes the colours of every part of a page.
    pub fn theme(self) -> Theme {
        let Self { background: page, font, primary, warn } = self;
        let lifted = page.lighter(0.03);
        let both = [page, lifted];
        let surface = if font.fit(7.0, &both).least_contrast(&both) < 4.5 { page } else { lifted };
        let on = [page, surface];
        let text = font.fit(7.0, &on);
        let on_primary = if primary.contrast(WHITE) >= 4.5 { WHITE } else { BLACK };
        let away = if on_primary == WHITE { -0.06 } else { 0.06 };
        Theme {
            page,
            surface,
            text,
            muted: text.over(0.7, page).fit(4.5, &on),
            border: text.over(0.5, page).fit(3.0, &on),
            primary,
            hover: primary.lighter(away),
            on_primary,
            focus: primary.fit(3.0, &on),
            link: primary.fit(4.5, &on),
            danger: warn.fit(4.5, &on),
            ok: OK.fit(4.5, &on),
            warning: WARNING.fit(4.5, &on),
        }
    }
}

impl Theme {
    fn declarations(&self) -> String {
        let named = [
            ("page", self.page),
            ("surface", self.surface),
            ("text", self.text),
            ("muted", self.muted),
            ("border", self.border),
            ("primary", self.primary),
            ("hover", self.hover),
            ("on-primary", self.on_primary),
            ("focus", self.focus),
            ("link", self.link),
            ("danger", self.danger),
            ("ok", self.ok),
            ("warning", self.warning),
        ];
        named.iter().fold(String::new(), |mut text, (name, colour)| {
            let _ = write!(text, "--{name}:{};", colour.hex());
            text
        })
    }
}

/// The stylesheet with these colours, and others for browsers that prefer dark ones, if any are given.
pub fn stylesheet(light: Scheme, dark: Option<Scheme>) -> String {
    let mut text = format!(":root{{{}}}\n", light.theme().declarations());
    if let Some(dark) = dark {
        let _ = writeln!(text, "@media (prefers-color-scheme:dark){{:root{{{}}}}}", dark.theme().declarations());
    }
    text + RULES
}

/// A digest of this build's rules, regardless of the colours.
pub fn rules() -> &'static str {
    static NAME: LazyLock<String> = LazyLock::new(|| URL_SAFE_NO_PAD.encode(&secret::sha256(RULES.as_bytes())[..12]));
    &NAME
}

/// The stylesheet of the platform's own pages.
pub fn built_in() -> String {
    stylesheet(LIGHT, Some(DARK))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Asserts that all texts and lines have enough contrast.
    fn assert_readable(scheme: Scheme) {
        let theme = scheme.theme();
        let on = [theme.page, theme.surface];
        let texts = [theme.text, theme.muted, theme.link, theme.danger, theme.ok, theme.warning];
        for text in texts {
            assert!(text.contrast(theme.page) >= 4.5 && text.contrast(theme.surface) >= 4.5, "{scheme:?} {theme:?}");
        }
        for line in [theme.border, theme.focus] {
            assert!(line.least_contrast(&on) >= 3.0, "{scheme:?} {theme:?}");
        }
        assert!(theme.on_primary.contrast(theme.primary) >= 4.5, "{scheme:?} {theme:?}");
        assert!(theme.on_primary.contrast(theme.hover) >= 4.5, "{scheme:?} {theme:?}");
    }

    #[test]
    fn the_built_in_colours_can_be_read() {
        assert_readable(LIGHT);
        assert_readable(DARK);
    }

    #[test]
    fn whatever_is_chosen_can_be_read() {
        // A linear congruential walk through all colours.
        let mut next = 0_u32;
        let mut colour = || {
            next = next.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let [_, red, green, blue] = next.to_le_bytes();
            Colour { channels: [red, green, blue] }
        };
        for _ in 0..20_000 {
            let scheme = Scheme { background: colour(), font: colour(), primary: colour(), warn: colour() };
            assert_readable(scheme);
        }
    }

    #[test]
    fn the_stylesheet_is_small_and_has_no_address_of_another_host() {
        let text = built_in();
        assert!(text.len() <= 12 * 1024, "{}", text.len());
        assert!(!text.contains("//") && !text.contains("url(") && !text.contains("@import"));
        assert_eq!(text.matches('{').count(), text.matches('}').count());
    }
}
