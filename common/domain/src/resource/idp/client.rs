//! What a provider knows the platform by. For `CodeHostA`, `CodeHostB` and `SocialA`, whose addresses everybody knows, that is all.

use serde::{Deserialize, Serialize};

use super::Rules;

/// The platform as a client of a provider.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Client {
    /// The id that the provider gave it.
    pub client_id: String,
    /// The scopes to ask for.
    pub scopes: Vec<String>,
}

impl Rules for Client {}
