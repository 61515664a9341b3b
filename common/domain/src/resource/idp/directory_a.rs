//! `DirectoryA`: the directory of one organization, or of all.

use serde::{Deserialize, Serialize};

use super::{Rules, client::Client};

/// A `DirectoryA`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DirectoryA {
    /// The platform as its client.
    #[serde(flatten)]
    pub client: Client,
    /// The users who may log in: `common`, `organizations`, `consumers`, or the id of a tenant; `common` when empty.
    pub tenant: String,
    /// Whether e-mail addresses from it count as verified.
    pub email_verified: bool,
}

impl Rules for DirectoryA {}
