//! `DirectoryA`: the directory of one organization, or of all.

use serde::{Deserialize, Serialize};

use super::{Rules, client::Client};

/// A `DirectoryA`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DirectoryA {
    /// What it knows the platform by.
    #[serde(flatten)]
    pub client: Client,
    /// Who may log in: `common`, `organizations`, `consumers`, or those of the tenant with this id; `common` when empty.
    pub tenant: String,
    /// E-mail addresses that it names count as verified.
    pub email_verified: bool,
}

impl Rules for DirectoryA {}
