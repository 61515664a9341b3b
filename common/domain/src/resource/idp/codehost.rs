//! `CodeHostA` and `CodeHostB` on servers of somebody's own.

use serde::{Deserialize, Serialize};

use super::{Rules, client::Client};

/// A `CodeHostA` on a server of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OwnEndpoints {
    /// What it knows the platform by.
    #[serde(flatten)]
    pub client: Client,
    /// Where users are sent to log in.
    pub authorization_endpoint: String,
    /// Where codes are exchanged for tokens.
    pub token_endpoint: String,
    /// Where it is asked who logged in.
    pub user_endpoint: String,
}

/// A `CodeHostB` on a server of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OwnIssuer {
    /// What it knows the platform by.
    #[serde(flatten)]
    pub client: Client,
    /// Its issuer, which is the address of the server.
    pub issuer: String,
}

impl Rules for OwnEndpoints {}

impl Rules for OwnIssuer {}
