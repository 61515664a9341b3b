//! What a token says that was got for other tokens (RFC 8693): who acts as its user, and what it stands on.

use serde::{Deserialize, Serialize};
use view::revoked::TokenId;

/// How many tokens one may stand on: those that it was got for, and those that these were got for.
pub const MOST_BASES: usize = 8;

/// Who acts as the user of a token (RFC 8693, section 4.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    /// The issuer of the instance.
    pub iss: String,
    /// The user who acts.
    pub sub: String,
    /// Who acted before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub act: Option<Box<Self>>,
}

/// A token that another one was got for, and with which that ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Basis {
    /// The id; ID tokens have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jti: Option<String>,
    /// The id of the signing key that it belongs to; builds before this one did not write it down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kid: Option<String>,
    /// The user.
    pub sub: String,
    /// The client that it was issued to.
    #[serde(rename = "client_id")]
    pub client_id: String,
    /// The session that it was got in, where a person has logged in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sid: Option<String>,
    /// What it was got by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant_id: Option<String>,
    /// When it was issued, in seconds since the Unix epoch.
    pub iat: i64,
    /// The sequence of the log that its issuer had seen.
    pub seq: u64,
    /// The same of the log that revocations are in.
    pub session_seq: u64,
    /// Whether its user acts by it as somebody else, and has to have the right to.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub acts: bool,
}

impl Basis {
    /// As what the token can be revoked.
    pub(crate) fn id(&self) -> TokenId {
        TokenId {
            // No token has an id without characters.
            id: self.jti.clone().unwrap_or_default(),
            user_id: self.sub.clone(),
            client_id: self.client_id.clone(),
            session_id: self.sid.clone(),
            grant_id: self.grant_id.clone(),
            sequence: self.session_seq,
            issued_at: self.iat,
        }
    }
}
