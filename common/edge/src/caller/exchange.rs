//! Claims of tokens that were exchanged for others (RFC 8693): the actor, and the tokens that they depend on.

use serde::{Deserialize, Serialize};
use view::revoked::TokenId;

/// How many tokens one may depend on: those that it was exchanged for, and those that these were exchanged for.
pub const MOST_BASES: usize = 8;

/// The actor of a token (RFC 8693, section 4.1).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    /// The issuer of the instance.
    pub iss: String,
    /// The user who acts.
    pub sub: String,
    /// The previous actor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub act: Option<Box<Self>>,
}

/// A token that another one was exchanged for, which ends with it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Basis {
    /// The id; ID tokens have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jti: Option<String>,
    /// The id of the signing key that it belongs to; older builds did not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kid: Option<String>,
    /// The user.
    pub sub: String,
    /// The client that it was issued to.
    #[serde(rename = "client_id")]
    pub client_id: String,
    /// The session that it was issued in, where a person has logged in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sid: Option<String>,
    /// The id of what it was issued for, such as a code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant_id: Option<String>,
    /// When it was issued, in seconds since the Unix epoch.
    pub iat: i64,
    /// The sequence of the log that its issuer had seen.
    pub seq: u64,
    /// The sequence of `SESSIONS`, which has revocations, that its issuer had seen.
    pub session_seq: u64,
    /// Whether its user acts as somebody else by it, and must have the right to.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub acts: bool,
}

impl Basis {
    /// What identifies the token for revocation.
    pub(crate) fn id(&self) -> TokenId {
        TokenId {
            // No token has an empty id.
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
