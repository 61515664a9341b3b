//! What pages look like.

use serde::{Deserialize, Serialize};

use crate::{
    media::{Font, Picture},
    properties::{bounded, properties},
    rejection::Rejection,
    settings::Chain,
};

const MOST: usize = 100;
const BYTES: usize = 16 * 1024;
const BOUND: &str = "must be at most 100, with their names at most 16 KiB";

/// Which theme is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThemeMode {
    /// The one that the user's device asks for.
    Auto,
    /// The light one.
    Light,
    /// The dark one.
    Dark,
}

properties! {
    /// What the pages of one context look like. Colours are written `#rrggbb`.
    Branding / BrandingChange {
        /// Buttons and what is in focus, where it is light.
        light_primary_color: String = "#5469d4".to_owned();
        /// The page, where it is light.
        light_background_color: String = "#fafafa".to_owned();
        /// What went wrong, where it is light.
        light_warn_color: String = "#cd3d56".to_owned();
        /// Texts, where it is light.
        light_font_color: String = "#000000".to_owned();
        /// Buttons and what is in focus, where it is dark.
        dark_primary_color: String = "#2073c4".to_owned();
        /// The page, where it is dark.
        dark_background_color: String = "#111827".to_owned();
        /// What went wrong, where it is dark.
        dark_warn_color: String = "#ff3b5b".to_owned();
        /// Texts, where it is dark.
        dark_font_color: String = "#ffffff".to_owned();
        /// Which theme is shown.
        theme_mode: ThemeMode = ThemeMode::Auto;
        /// Login names are shown without the domain of their organization.
        hide_login_name_suffix: bool = false;
        /// Pages do not say which software they are made with.
        disable_watermark: bool = false;
        /// The logo, where it is light.
        light_logo: Picture;
        /// What stands for the pages in a browser's list of them, where it is light.
        light_icon: Picture;
        /// The logo, where it is dark.
        dark_logo: Picture;
        /// What stands for the pages in a browser's list of them, where it is dark.
        dark_icon: Picture;
        /// In which font texts are.
        font: Font;
    } entries {
        /// What pages of the tenant's own make of it.
        custom_settings
    } is {
        const NAME: &'static str = "branding_settings";

        fn validate(after: &Chain<Self>) -> Result<(), Rejection> {
            let fits = after.own.as_ref().is_none_or(|own| bounded(&own.custom_settings, MOST, BYTES));
            if fits { Ok(()) } else { Err(Rejection::invalid("settings.custom_settings", BOUND)) }
        }
    }
}

impl Branding {
    /// Whether a picture or the font that is set has this digest.
    pub fn shows(&self, digest: &str) -> bool {
        let pictures = [&self.light_logo, &self.light_icon, &self.dark_logo, &self.dark_icon];
        let is_picture = pictures.into_iter().flatten().any(|picture| picture.digest == digest);
        is_picture || self.font.as_ref().is_some_and(|font| font.digest == digest)
    }
}
