//! The appearance of pages.

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

/// The theme of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThemeMode {
    /// The theme that the user's device asks for.
    Auto,
    /// The light theme.
    Light,
    /// The dark theme.
    Dark,
}

properties! {
    /// The appearance of the pages of one context. Colours are written `#rrggbb`.
    Branding / BrandingChange {
        /// The colour of buttons and of what has the focus, in the light theme.
        light_primary_color: String = "#5469d4".to_owned();
        /// The colour of the page, in the light theme.
        light_background_color: String = "#fafafa".to_owned();
        /// The colour of errors, in the light theme.
        light_warn_color: String = "#cd3d56".to_owned();
        /// The colour of texts, in the light theme.
        light_font_color: String = "#000000".to_owned();
        /// The colour of buttons and of what has the focus, in the dark theme.
        dark_primary_color: String = "#2073c4".to_owned();
        /// The colour of the page, in the dark theme.
        dark_background_color: String = "#111827".to_owned();
        /// The colour of errors, in the dark theme.
        dark_warn_color: String = "#ff3b5b".to_owned();
        /// The colour of texts, in the dark theme.
        dark_font_color: String = "#ffffff".to_owned();
        /// The theme that is shown.
        theme_mode: ThemeMode = ThemeMode::Auto;
        /// Whether login names are shown without the domain of their organization.
        hide_login_name_suffix: bool = false;
        /// Whether pages do not name the software that they are made with.
        disable_watermark: bool = false;
        /// The logo, in the light theme.
        light_logo: Picture;
        /// The icon that browsers show for the pages, in the light theme.
        light_icon: Picture;
        /// The logo, in the dark theme.
        dark_logo: Picture;
        /// The icon that browsers show for the pages, in the dark theme.
        dark_icon: Picture;
        /// The font of texts.
        font: Font;
    } entries {
        /// Settings for the tenant's own pages.
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
    /// Whether one of its pictures or its font has this digest.
    pub fn has_file(&self, digest: &str) -> bool {
        let pictures = [&self.light_logo, &self.light_icon, &self.dark_logo, &self.dark_icon];
        let is_picture = pictures.into_iter().flatten().any(|picture| picture.digest == digest);
        is_picture || self.font.as_ref().is_some_and(|font| font.digest == digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        media::PictureType,
        settings::{Command, Event, Set, Settings},
        testing::given,
    };

    #[test]
    fn a_file_is_shown_wherever_it_is_set() {
        let picture = |digest: &str| {
            Some(Picture { digest: digest.to_owned(), picture_type: PictureType::Png, width: 1, height: 1 })
        };
        let branding = Branding {
            light_logo: picture("a"),
            light_icon: picture("b"),
            dark_logo: picture("c"),
            dark_icon: picture("d"),
            font: Some(Font { digest: "e".to_owned() }),
            ..Branding::default()
        };
        assert_eq!(
            ["a", "b", "c", "d", "e", "f"].map(|digest| branding.has_file(digest)),
            [true, true, true, true, true, false]
        );
        assert!(!Branding::default().has_file("a"));
    }

    #[test]
    fn custom_settings_are_bounded_in_number_and_in_total() {
        let of = |entries: &[(String, usize)]| {
            let value = |(name, length): &(String, usize)| (name.clone(), "x".repeat(*length));
            let custom_settings: crate::settings::Entries = entries.iter().map(value).collect();
            let change = custom_settings.iter().map(|(name, value)| (name.clone(), Set::To(value.clone()))).collect();
            let change = BrandingChange { custom_settings: change, ..BrandingChange::default() };
            let to = Branding { custom_settings, ..Branding::default() };
            let added = Event::Changed { to: to.into(), fields: vec!["custom_settings".into()] };
            (given::<Settings<Branding>>([]).when(Command::Change { change, above: vec![] }), added)
        };
        let bound =
            Rejection::invalid("settings.custom_settings", "must be at most 100, with their names at most 16 KiB");
        let names = |count: usize| (0..count).map(|number| (number.to_string(), 1)).collect::<Vec<_>>();
        let pair = |second: usize| [("a".to_owned(), 8 * 1024 - 1), ("b".to_owned(), second)];
        for fits in [&names(100)[..], &pair(8 * 1024 - 1)] {
            let (outcome, added) = of(fits);
            outcome.then([added]);
        }
        for exceeds in [&names(101)[..], &pair(8 * 1024)] {
            of(exceeds).0.then_rejected(&bound);
        }
    }
}
