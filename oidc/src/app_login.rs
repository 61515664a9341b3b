//! The login of a person to an app, which codes and refresh tokens stand for, and which tokens are issued for.

use serde::{Deserialize, Serialize};

/// The login of a person to an app.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AppLogin {
    /// The instance.
    pub(crate) instance_id: String,
    /// The app.
    pub(crate) client_id: String,
    /// The requested scopes; for a refresh token, the granted ones.
    pub(crate) scope: String,
    /// The user who has logged in.
    pub(crate) user_id: String,
    /// The sequence of the log as of which the user was admitted, or a later one.
    pub(crate) seen: u64,
    /// The session.
    pub(crate) session_id: String,
    /// When the session ends, in milliseconds since the Unix epoch.
    pub(crate) session_ends: i64,
    /// When the password was checked, in milliseconds since the Unix epoch.
    pub(crate) checked_at: i64,
}
