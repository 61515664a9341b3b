//! Any system that logs users in and passes a JWT on.

use serde::{Deserialize, Serialize};

use super::Rules;

/// A system that logs users in and passes a JWT on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Jwt {
    /// The issuer of the tokens.
    pub issuer: String,
    /// The address to which users are sent to get one.
    pub jwt_endpoint: String,
    /// The address of the keys that verify them.
    pub keys_endpoint: String,
    /// The header that carries them.
    pub header_name: String,
    /// The audience that they must have; any when empty.
    pub audience: String,
}

impl Rules for Jwt {}
