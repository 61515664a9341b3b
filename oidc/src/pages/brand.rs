//! The logos, icons and fonts of pages, as the branding of a context sets them.

use api::branding_asset::path;
use axum::{
    extract::Path,
    response::{IntoResponse, Response},
};
use domain::{
    context::Owner,
    media::Picture,
    setting::branding::{Branding, ThemeMode},
    settings::Chain,
};
use http::StatusCode;
use page::{asset::Asset, component::Icon, theme};

use crate::uploads;

/// The path below which the stylesheets of fonts are served.
const FOLDER: &str = "/ui/login/font/";
/// The route of the stylesheets of fonts.
pub(super) const FONT_ROUTE: &str = "/ui/login/font/{owner}/{name}";
/// The largest width and height of a logo, in pixels.
const MOST: [u32; 2] = [240, 48];
const WHERE_DARK: &str = "(prefers-color-scheme:dark)";

/// The logo of a page.
pub(super) struct Logo {
    pub(super) image: Image,
    /// The image for dark mode, if there is another.
    pub(super) dark: Option<Image>,
    /// The CSS classes of the plate behind the logo, where it needs one to be seen.
    pub(super) plate: &'static str,
    /// The context that sets the logo.
    pub(super) owner: Owner,
}

/// A picture as it is shown.
pub(super) struct Image {
    pub(super) path: String,
    pub(super) width: u32,
    pub(super) height: u32,
}

/// A picture, and the context that sets it.
type OwnedPicture<'a> = (&'a Picture, &'a Owner);

/// The pictures for light mode and for dark mode.
type Pair<'a> = [Option<OwnedPicture<'a>>; 2];

/// A property of the branding that is a picture.
type Property = fn(&Branding) -> Option<&Picture>;

/// The branding of a context.
#[derive(Clone, Copy)]
pub(super) struct Brand<'a> {
    pub(super) chain: &'a Chain<Branding>,
    pub(super) context: &'a Owner,
}

impl<'a> Brand<'a> {
    /// Returns the logo.
    pub(super) fn logo(self, mode: ThemeMode) -> Option<Logo> {
        let pair = self.pair([|it| it.light_logo.as_ref(), |it| it.dark_logo.as_ref()]);
        let (shown, dark, plate) = chosen(pair, mode)?;
        Some(Logo { image: image(shown), dark: dark.map(image), plate, owner: shown.1.clone() })
    }

    /// Returns the icons; none where none is set.
    pub(super) fn icons(self, mode: ThemeMode) -> Vec<Icon> {
        let pair = self.pair([|it| it.light_icon.as_ref(), |it| it.dark_icon.as_ref()]);
        let Some((shown, dark, _)) = chosen(pair, mode) else { return vec![] };
        let icon = |(picture, owner): OwnedPicture<'_>, media| Icon {
            path: path(owner, &picture.digest),
            kind: picture.picture_type.media_type(),
            media,
        };
        std::iter::once(icon(shown, "")).chain(dark.map(|dark| icon(dark, WHERE_DARK))).collect()
    }

    /// Returns the path of the stylesheet with the font.
    pub(super) fn font_path(self) -> Option<String> {
        let found = self.chain.find(|it| it.font.as_ref())?;
        let served = path(found.owner.unwrap_or(self.context), &found.value.digest);
        let named = served.strip_prefix(api::branding_asset::FOLDER)?;
        Some(format!("{FOLDER}{named}.{}.css", theme::rules()))
    }

    /// Returns the pictures of the nearest context that sets one: those of a context above belong to another brand.
    fn pair(self, properties: [Property; 2]) -> Pair<'a> {
        let found = properties.map(|property| self.picture(property));
        let height = |(_, owner): OwnedPicture<'_>| self.chain.above.iter().position(|(above, _)| above == owner);
        let nearest = found.iter().flatten().copied().map(height).min();
        found.map(|one| one.filter(|one| Some(height(*one)) == nearest))
    }

    fn picture(self, property: Property) -> Option<OwnedPicture<'a>> {
        self.chain.find(property).map(|found| (found.value, found.owner.unwrap_or(self.context)))
    }
}

/// Returns which of two logos is shown, which one replaces it in dark mode, and the plate that a logo needs that is
/// made for the other color scheme.
fn chosen(pair: Pair<'_>, mode: ThemeMode) -> Option<(OwnedPicture<'_>, Option<OwnedPicture<'_>>, &'static str)> {
    let (on_light, on_dark) = ("plate", "plate dark");
    match (mode, pair) {
        (ThemeMode::Auto, [Some(light), Some(dark)]) => Some((light, Some(dark), "")),
        (ThemeMode::Light, [Some(shown), _]) | (ThemeMode::Dark, [_, Some(shown)]) => Some((shown, None, "")),
        (_, [Some(light), _]) => Some((light, None, on_light)),
        (_, [_, Some(dark)]) => Some((dark, None, on_dark)),
        (_, [None, None]) => None,
    }
}

fn image((picture, owner): OwnedPicture<'_>) -> Image {
    let [width, height] = fitted([picture.width, picture.height]);
    Image { path: path(owner, &picture.digest), width, height }
}

/// Scales the sides of a picture down to the limits of a logo.
fn fitted([width, height]: [u32; 2]) -> [u32; 2] {
    let [most_width, most_height] = MOST;
    if width <= most_width && height <= most_height {
        return [width, height];
    }
    // Neither side of a picture is more than 4096.
    let is_wide = width * most_height > height * most_width;
    let [width, height] =
        if is_wide { [most_width, height * most_width / width] } else { [width * most_height / height, most_height] };
    [width.max(1), height.max(1)]
}

/// Serves the stylesheet of a font, which depends on nothing but the path.
pub(super) async fn font(Path((owner, name)): Path<(String, String)>) -> Response {
    let Some(text) = stylesheet(&owner, &name) else { return StatusCode::NOT_FOUND.into_response() };
    Asset::new(FOLDER, "font.css", text).answer()
}

fn stylesheet(owner: &str, name: &str) -> Option<String> {
    let (digest, rules) = name.strip_suffix(".css")?.split_once('.')?;
    // The path does not name the instance.
    uploads::named(owner, owner, digest).filter(|_| rules == theme::rules())?;
    let url = format!("{}{owner}/{digest}", api::branding_asset::FOLDER);
    Some(format!(
        "@font-face{{font-family:tenant;src:url({url}) format(\"woff2\");font-display:optional}}\n\
         body{{font-family:tenant,system-ui,sans-serif}}\n"
    ))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use domain::media::PictureType;

    use super::*;

    #[test]
    fn a_logo_fits_and_keeps_its_shape() {
        let cases = [
            ([240, 48], [240, 48]),
            ([1, 1], [1, 1]),
            ([480, 48], [240, 24]),
            ([480, 96], [240, 48]),
            ([100, 96], [50, 48]),
            ([4096, 1], [240, 1]),
            ([1, 4096], [1, 48]),
            ([4096, 4096], [48, 48]),
        ];
        for (sides, expected) in cases {
            assert_eq!(fitted(sides), expected, "{sides:?}");
        }
    }

    #[test]
    fn what_is_made_for_the_other_scheme_stands_on_a_plate() {
        let owner = Owner::instance("1");
        let picture =
            |digest: &str| Picture { digest: digest.into(), picture_type: PictureType::Png, width: 1, height: 1 };
        let (light, dark) = (picture("light"), picture("dark"));
        let shown = |pair: [bool; 2], mode| {
            let pair = [pair[0].then_some((&light, &owner)), pair[1].then_some((&dark, &owner))];
            chosen(pair, mode).map(|(shown, dark, plate)| (shown.0.digest.as_str(), dark.is_some(), plate))
        };
        let (auto, light, dark) = (ThemeMode::Auto, ThemeMode::Light, ThemeMode::Dark);
        assert_eq!([auto, light, dark].map(|mode| shown([false, false], mode)), [None; 3]);
        assert_eq!(shown([true, true], auto), Some(("light", true, "")));
        assert_eq!(shown([true, true], light), Some(("light", false, "")));
        assert_eq!(shown([true, true], dark), Some(("dark", false, "")));
        assert_eq!([auto, dark].map(|mode| shown([true, false], mode)), [Some(("light", false, "plate")); 2]);
        assert_eq!(shown([true, false], light), Some(("light", false, "")));
        assert_eq!([auto, light].map(|mode| shown([false, true], mode)), [Some(("dark", false, "plate dark")); 2]);
        assert_eq!(shown([false, true], dark), Some(("dark", false, "")));
    }

    #[test]
    fn pictures_of_two_contexts_are_not_mixed() {
        let picture =
            |digest: &str| Some(Picture { digest: digest.into(), picture_type: PictureType::Png, width: 1, height: 1 });
        let set = |light: Option<Picture>, dark: Option<Picture>| {
            Some(Arc::new(Branding {
                light_icon: light.clone(),
                dark_icon: dark.clone(),
                light_logo: light,
                dark_logo: dark,
                ..Branding::default()
            }))
        };
        let context = Owner::organization("2");
        let shown = |own, of_instance| {
            let above = vec![(Owner::instance("1"), of_instance), (Owner::system(), set(picture("x"), picture("y")))];
            let chain = Chain { own, above };
            let brand = Brand { chain: &chain, context: &context };
            let logo = brand.logo(ThemeMode::Auto).unwrap();
            let icons: Vec<String> = brand.icons(ThemeMode::Auto).into_iter().map(|icon| icon.path).collect();
            let dark = logo.dark.map(|dark| dark.path);
            let logos: Vec<String> = std::iter::once(logo.image.path).chain(dark).collect();
            assert_eq!(logos, icons);
            (logos.join(" "), logo.plate)
        };
        let at = |path: &str, plate| (path.to_owned(), plate);
        let folder = api::branding_asset::FOLDER;
        let own = at(&format!("{folder}2/a"), "plate");
        assert_eq!(shown(set(picture("a"), None), set(picture("b"), picture("c"))), own);
        let inherited = at(&format!("{folder}1/b"), "plate dark");
        assert_eq!(shown(set(None, None), set(None, picture("b"))), inherited);
        let both = at(&format!("{folder}system/x {folder}system/y"), "");
        assert_eq!(shown(None, set(None, None)), both);
    }

    #[test]
    fn the_stylesheet_of_a_font_is_made_of_its_path_alone() {
        let (digest, rules) = ("0f".repeat(32), theme::rules());
        let text = stylesheet("12", &format!("{digest}.{rules}.css")).unwrap();
        assert!(text.contains(&format!("url(/ui/login/assets/12/{digest})")) && text.contains("optional"), "{text}");
        for (owner, name) in [
            ("12", format!("{digest}.css")),
            ("12", format!("{digest}.x.css")),
            ("12)", format!("{digest}.{rules}.css")),
            ("1.2", format!("{digest}.{rules}.css")),
            ("12", format!("{}.{rules}.css", digest.to_uppercase())),
            ("12", format!("{}).{rules}.css", &digest[1..])),
        ] {
            assert_eq!(stylesheet(owner, &name), None, "{owner} {name}");
        }
    }
}
