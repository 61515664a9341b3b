//! Converts pictures and fonts of branding between the API and the core. They are set by their content and reset like
//! other properties.

use domain::{
    context::{Owner, OwnerType},
    media::{FONT_TYPE, Font, Picture},
    rejection::Rejection,
    setting::branding::BrandingChange,
    settings::{Resolved, Set},
};
use proto::branding_settings::{AssetKind, BrandingAsset, NewBrandingAsset, ResetAsset, ResolvedAsset};

use crate::settings::{Write, inherited};

/// The path below which pictures and fonts are served, relative to the address of an instance.
pub const FOLDER: &str = "/ui/login/assets/";
/// The name of the system in paths.
pub const SYSTEM: &str = "system";

/// Returns the path of the picture or font of a context with a digest.
pub fn path(context: &Owner, digest: &str) -> String {
    let owner = if context.kind == OwnerType::System { SYSTEM } else { &context.id };
    format!("{FOLDER}{owner}/{digest}")
}

/// An uploaded picture or font, as it is set and as it is shown.
pub struct Uploaded {
    /// The change that sets it.
    pub change: BrandingChange,
    /// The picture or font as clients see it.
    pub shown: BrandingAsset,
}

impl Uploaded {
    /// Reads an upload to a context, with the SHA-256 of its content in hexadecimal digits.
    ///
    /// # Errors
    /// If the content is not of the stated kind.
    pub fn read(context: &Owner, asset: &NewBrandingAsset, digest: String) -> Result<Self, Rejection> {
        let invalid = |rule| Rejection::invalid("asset.content", rule);
        let none = BrandingChange::default;
        let kind = AssetKind::try_from(asset.kind).unwrap_or_default();
        if kind == AssetKind::Font {
            let font = Font::read(digest, &asset.content).map_err(invalid)?;
            let shown = font.to_proto(context);
            return Ok(Self { change: BrandingChange { font: Some(Set::To(font)), ..none() }, shown });
        }
        let picture = Picture::read(digest, &asset.content).map_err(invalid)?;
        let shown = picture.to_proto(context);
        let set = Some(Set::To(picture));
        let change = match kind {
            AssetKind::LightLogo => BrandingChange { light_logo: set, ..none() },
            AssetKind::LightIcon => BrandingChange { light_icon: set, ..none() },
            AssetKind::DarkLogo => BrandingChange { dark_logo: set, ..none() },
            AssetKind::DarkIcon => BrandingChange { dark_icon: set, ..none() },
            // Validation refuses every other kind.
            AssetKind::Unspecified | AssetKind::Font => none(),
        };
        Ok(Self { change, shown })
    }
}

/// A picture or font, which is stored beside the log.
pub(crate) trait Asset {
    /// Returns what clients see of it in this context.
    fn to_proto(&self, context: &Owner) -> BrandingAsset;
}

impl Asset for Picture {
    fn to_proto(&self, context: &Owner) -> BrandingAsset {
        let Self { digest, picture_type, width, height } = self;
        let media_type = picture_type.media_type().to_owned();
        BrandingAsset { path: path(context, digest), media_type, width: *width, height: *height }
    }
}

impl Asset for Font {
    fn to_proto(&self, context: &Owner) -> BrandingAsset {
        BrandingAsset {
            path: path(context, &self.digest),
            media_type: FONT_TYPE.to_owned(),
            ..BrandingAsset::default()
        }
    }
}

/// Returns the effective picture or font of a context.
pub(crate) fn resolved_asset<T: Asset>(context: &Owner, found: Option<Resolved<'_, T>>) -> Option<ResolvedAsset> {
    found.map(|found| ResolvedAsset {
        value: Some(found.value.to_proto(found.owner.unwrap_or(context))),
        owner: inherited(&found),
    })
}

impl<T> Write<T> for ResetAsset {
    fn requested(self) -> Option<Set<T>> {
        self.r#type.map(|_| Set::Reset)
    }
}
