//! Any system that logs users in and passes a JWT on.

use serde::{Deserialize, Serialize};

use super::Rules;

/// A system that logs users in and passes a JWT on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Jwt {
    /// Who issues the tokens.
    pub issuer: String,
    /// Where users are sent to get one.
    pub jwt_endpoint: String,
    /// Where the keys are that verify them.
    pub keys_endpoint: String,
    /// The header that carries them.
    pub header_name: String,
    /// Whom they must be for; nobody in particular when empty.
    pub audience: String,
}

impl Rules for Jwt {}
