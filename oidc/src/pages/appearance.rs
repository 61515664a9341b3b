//! The colours of pages in a context. A stylesheet is named by its colours, so that every node serves the same one
//! under a name, and browsers may cache it for good.

use axum::{
    extract::Path,
    response::{IntoResponse, Response},
};
use domain::{
    context::Owner,
    setting::branding::{Branding, ThemeMode},
};
use http::StatusCode;
use page::{
    asset::Asset,
    colour::Colour,
    component::Icon,
    theme::{self, Scheme},
};
use view::settings::SettingsIndex;

use super::brand::{Brand, Logo};

/// The path below which stylesheets are served.
const FOLDER: &str = "/ui/login/theme/";
/// The route of the stylesheets.
pub(super) const ROUTE: &str = "/ui/login/theme/{name}";
/// How many characters a color scheme has in a name.
const OF_SCHEME: usize = 24;

/// The look of the pages of a context.
pub(super) struct Appearance {
    /// The path of the stylesheet.
    pub(super) stylesheet: String,
    /// The color schemes that the stylesheet has, as HTML names them.
    pub(super) schemes: &'static str,
    /// Whether pages name the product.
    pub(super) has_watermark: bool,
    /// The logo, where one is set.
    pub(super) logo: Option<Logo>,
    /// The icons, where some are set.
    pub(super) icons: Vec<Icon>,
    /// The path of the stylesheet with the font, where one is set.
    pub(super) font: Option<String>,
}

impl Appearance {
    /// Returns the look of pages in a context of an instance.
    pub(super) fn of(settings: &SettingsIndex, instance_id: &str, context: &Owner) -> Self {
        let chain = settings.effective::<Branding>(instance_id, context).chain;
        let colour = |property: fn(&Branding) -> Option<&String>| {
            let set = chain.values(property).find_map(|found| Colour::read(found.value));
            set.unwrap_or(page::colour::BLACK)
        };
        let light = || Scheme {
            background: colour(|it| it.light_background_color.as_ref()),
            font: colour(|it| it.light_font_color.as_ref()),
            primary: colour(|it| it.light_primary_color.as_ref()),
            warn: colour(|it| it.light_warn_color.as_ref()),
        };
        let dark = || Scheme {
            background: colour(|it| it.dark_background_color.as_ref()),
            font: colour(|it| it.dark_font_color.as_ref()),
            primary: colour(|it| it.dark_primary_color.as_ref()),
            warn: colour(|it| it.dark_warn_color.as_ref()),
        };
        let mode = *chain.resolve(|it| it.theme_mode.as_ref()).value;
        let (colours, schemes) = match mode {
            ThemeMode::Auto => (named(light()) + &named(dark()), "light dark"),
            ThemeMode::Light => (named(light()), "light"),
            ThemeMode::Dark => (named(dark()), "dark"),
        };
        let is_disabled = *chain.resolve(|it| it.disable_watermark.as_ref()).value;
        let brand = Brand { chain: &chain, context };
        Self {
            stylesheet: format!("{FOLDER}{colours}.{}.css", theme::rules()),
            schemes,
            has_watermark: !is_disabled,
            logo: brand.logo(mode),
            icons: brand.icons(mode),
            font: brand.font_path(),
        }
    }
}

/// Returns the name of a color scheme.
fn named(Scheme { background, font, primary, warn }: Scheme) -> String {
    [background, font, primary, warn].map(|colour| colour.hex().trim_start_matches('#').to_owned()).concat()
}

/// Parses the name of a color scheme.
fn read(name: &str) -> Option<Scheme> {
    if name.len() != OF_SCHEME || !name.is_ascii() {
        return None;
    }
    let colour = |at: usize| Colour::read(&format!("#{}", &name[at * 6..][..6]));
    Some(Scheme { background: colour(0)?, font: colour(1)?, primary: colour(2)?, warn: colour(3)? })
}

/// Serves the stylesheet with a name.
pub(super) async fn stylesheet(Path(name): Path<String>) -> Response {
    let Some(text) = text(&name) else { return StatusCode::NOT_FOUND.into_response() };
    Asset::new(FOLDER, "theme.css", text).answer()
}

fn text(name: &str) -> Option<String> {
    let (colours, rules) = name.strip_suffix(".css")?.split_once('.')?;
    // Stylesheets of another build have other rules.
    if rules != theme::rules() || !colours.is_ascii() {
        return None;
    }
    let (light, dark) = colours.split_at_checked(OF_SCHEME)?;
    let dark = if dark.is_empty() { None } else { Some(read(dark)?) };
    Some(theme::stylesheet(read(light)?, dark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stylesheet_is_made_of_its_name_alone() {
        let rules = theme::rules();
        let one = "fafafa0000005469d4cd3d56";
        let (light, both) = (text(&format!("{one}.{rules}.css")), text(&format!("{one}{one}.{rules}.css")));
        assert!(light.is_some_and(|text| text.contains("--page:#fafafa") && !text.contains("prefers-color-scheme")));
        assert!(both.is_some_and(|text| text.contains("prefers-color-scheme")));
        for wrong in [
            "",
            ".css",
            &format!("{one}.{rules}"),
            &format!("{one}.x.css"),
            &format!("{}g.{rules}.css", &one[1..]),
            &format!("{one}{}.{rules}.css", &one[1..]),
            &format!("{one}{one}{one}.{rules}.css"),
            &format!("äääääääääääää.{rules}.css"),
        ] {
            assert_eq!(text(wrong), None, "{wrong}");
        }
    }
}
