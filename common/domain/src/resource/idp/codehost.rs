//! Self-hosted `CodeHostA` and `CodeHostB`.

use serde::{Deserialize, Serialize};

use super::{Rules, client::Client};

/// A self-hosted `CodeHostA`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OwnEndpoints {
    /// The platform as its client.
    #[serde(flatten)]
    pub client: Client,
    /// The address to which users are sent to log in.
    pub authorization_endpoint: String,
    /// The address at which codes are exchanged for tokens.
    pub token_endpoint: String,
    /// The address that returns who logged in.
    pub user_endpoint: String,
}

/// A self-hosted `CodeHostB`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OwnIssuer {
    /// The platform as its client.
    #[serde(flatten)]
    pub client: Client,
    /// Its issuer, which is the address of the server.
    pub issuer: String,
}

impl Rules for OwnEndpoints {}

impl Rules for OwnIssuer {}
