//! Any provider of `OpenID` Connect.

use serde::{Deserialize, Serialize};

use super::{Rules, client::Client};

/// A provider of `OpenID` Connect.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Oidc {
    /// Its issuer, where its discovery document is found.
    pub issuer: String,
    /// The platform as its client.
    #[serde(flatten)]
    pub client: Client,
    /// Whether claims are taken from the ID token instead of from the userinfo endpoint.
    pub is_id_token_mapping: bool,
    /// Whether codes are bound by PKCE.
    pub use_pkce: bool,
}

impl Rules for Oidc {}
