//! Any provider of OAuth 2.0.

use serde::{Deserialize, Serialize};

use super::{Rules, codehost::OwnEndpoints};

/// A provider of OAuth 2.0.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OAuth {
    /// The platform as its client, and its endpoints.
    #[serde(flatten)]
    pub endpoints: OwnEndpoints,
    /// The attribute that identifies users.
    pub id_attribute: String,
    /// Whether codes are bound by PKCE.
    pub use_pkce: bool,
}

impl Rules for OAuth {}
