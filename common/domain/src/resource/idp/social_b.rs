//! `SocialB`, to which the platform presents a signature in place of a secret.

use serde::{Deserialize, Serialize};

use super::{Rules, client::Client};

/// A `SocialB`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SocialB {
    /// The platform as its client.
    #[serde(flatten)]
    pub client: Client,
    /// The id of the team that the platform belongs to.
    pub team_id: String,
    /// The id of the key.
    pub key_id: String,
}

impl Rules for SocialB {}
