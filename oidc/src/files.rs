//! The files of pages: scripts, the icon, and the stylesheet of pages that belong to no instance.

use std::sync::LazyLock;

use page::{asset::Asset, component::ICON, theme};

/// The path below which the files are served.
const FOLDER: &str = "/ui/login/static/";

/// The files of the pages.
pub(crate) struct Files {
    /// The stylesheet of pages that belong to no instance.
    pub(crate) stylesheet: Asset,
    pub(crate) icon: Asset,
    pub(crate) script: Asset,
    /// The script that submits the form of a page.
    pub(crate) sends: Asset,
}

pub(crate) static FILES: LazyLock<Files> = LazyLock::new(|| Files {
    stylesheet: Asset::new(FOLDER, "page.css", theme::built_in()),
    icon: Asset::new(FOLDER, "icon.svg", ICON),
    script: Asset::new(FOLDER, "login.js", include_str!("../assets/login.js")),
    sends: Asset::new(FOLDER, "answer.js", include_str!("../assets/answer.js")),
});
