//! Any provider of `OpenID` Connect.

use serde::{Deserialize, Serialize};

use super::{Rules, client::Client};

/// A provider of `OpenID` Connect.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Oidc {
    /// Its issuer, under which it describes itself.
    pub issuer: String,
    /// What it knows the platform by.
    #[serde(flatten)]
    pub client: Client,
    /// What is known of users is taken from the ID token instead of from the userinfo endpoint.
    pub is_id_token_mapping: bool,
    /// Codes are bound by PKCE.
    pub use_pkce: bool,
}

impl Rules for Oidc {}
