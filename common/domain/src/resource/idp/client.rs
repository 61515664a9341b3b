//! The platform as a client of a provider. `CodeHostA`, `CodeHostB` and `SocialA`, whose addresses are well known, need
//! nothing else.

use serde::{Deserialize, Serialize};

use super::Rules;

/// The platform as a client of a provider.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Client {
    /// The client id that the provider assigned.
    pub client_id: String,
    /// The scopes to request.
    pub scopes: Vec<String>,
}

impl Rules for Client {}
