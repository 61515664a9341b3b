//! Converts the appearance of pages between the API and the core.

use std::convert::identity;

use domain::{
    context::Owner,
    media::Picture,
    setting::branding::{Branding, BrandingChange, ThemeMode},
    settings::Chain,
};
use proto::{
    branding_settings::{
        self as wire, ResolveBrandingSettingsRequest, ResolvedBrandingSettings, ResolvedTheme, ResolvedThemeMode,
        SetBrandingSettingsRequest, SetColor, SetThemeMode, set_color, set_theme_mode,
    },
    object_settings::ResolvedString,
};

use crate::{
    branding_asset::resolved_asset,
    settings::{ResolvedSettings, SetSettings, ToProto, Write, entry_changes, show_entries, to_proto, written},
};

impl ResolvedSettings for Branding {
    type Resolve = ResolveBrandingSettingsRequest;

    fn resolved(context: &Owner, chain: &Chain<Self>) -> ResolvedBrandingSettings {
        let picture = |property: fn(&Self) -> Option<&Picture>| resolved_asset(context, chain.find(property));
        let shown = |color: fn(&Self) -> Option<&String>| Some(ResolvedString::to_proto(chain.resolve(color)));
        ResolvedBrandingSettings {
            light_theme: Some(ResolvedTheme {
                primary_color: shown(|settings| settings.light_primary_color.as_ref()),
                background_color: shown(|settings| settings.light_background_color.as_ref()),
                warn_color: shown(|settings| settings.light_warn_color.as_ref()),
                font_color: shown(|settings| settings.light_font_color.as_ref()),
                logo: picture(|settings| settings.light_logo.as_ref()),
                icon: picture(|settings| settings.light_icon.as_ref()),
            }),
            dark_theme: Some(ResolvedTheme {
                primary_color: shown(|settings| settings.dark_primary_color.as_ref()),
                background_color: shown(|settings| settings.dark_background_color.as_ref()),
                warn_color: shown(|settings| settings.dark_warn_color.as_ref()),
                font_color: shown(|settings| settings.dark_font_color.as_ref()),
                logo: picture(|settings| settings.dark_logo.as_ref()),
                icon: picture(|settings| settings.dark_icon.as_ref()),
            }),
            theme_mode: Some(ToProto::to_proto(chain.resolve(|settings| settings.theme_mode.as_ref()))),
            hide_login_name_suffix: Some(ToProto::to_proto(
                chain.resolve(|settings| settings.hide_login_name_suffix.as_ref()),
            )),
            disable_watermark: Some(ToProto::to_proto(chain.resolve(|settings| settings.disable_watermark.as_ref()))),
            custom_settings: show_entries(chain, |settings| &settings.custom_settings),
            font: resolved_asset(context, chain.find(|settings| settings.font.as_ref())),
        }
    }
}

impl SetSettings for SetBrandingSettingsRequest {
    type Properties = Branding;

    fn change(&self) -> BrandingChange {
        let wanted = self.settings.clone().unwrap_or_default();
        let (light, dark) = (wanted.light_theme.unwrap_or_default(), wanted.dark_theme.unwrap_or_default());
        BrandingChange {
            light_primary_color: Write::write(light.primary_color),
            light_background_color: Write::write(light.background_color),
            light_warn_color: Write::write(light.warn_color),
            light_font_color: Write::write(light.font_color),
            dark_primary_color: Write::write(dark.primary_color),
            dark_background_color: Write::write(dark.background_color),
            dark_warn_color: Write::write(dark.warn_color),
            dark_font_color: Write::write(dark.font_color),
            theme_mode: Write::write(wanted.theme_mode),
            hide_login_name_suffix: Write::write(wanted.hide_login_name_suffix),
            disable_watermark: Write::write(wanted.disable_watermark),
            custom_settings: entry_changes(wanted.custom_settings),
            light_logo: Write::write(light.logo),
            light_icon: Write::write(light.icon),
            dark_logo: Write::write(dark.logo),
            dark_icon: Write::write(dark.icon),
            font: Write::write(wanted.font),
        }
    }
}

to_proto!(ThemeMode: ResolvedThemeMode = |mode| theme_mode(*mode).into());
written!(String: SetColor / set_color = identity);
written!(ThemeMode: SetThemeMode / set_theme_mode = known_theme_mode);

fn theme_mode(mode: ThemeMode) -> wire::ThemeMode {
    match mode {
        ThemeMode::Auto => wire::ThemeMode::Auto,
        ThemeMode::Light => wire::ThemeMode::Light,
        ThemeMode::Dark => wire::ThemeMode::Dark,
    }
}

/// Validation refuses unknown modes.
fn known_theme_mode(mode: i32) -> ThemeMode {
    match wire::ThemeMode::try_from(mode).unwrap_or_default() {
        wire::ThemeMode::Unspecified | wire::ThemeMode::Auto => ThemeMode::Auto,
        wire::ThemeMode::Light => ThemeMode::Light,
        wire::ThemeMode::Dark => ThemeMode::Dark,
    }
}
