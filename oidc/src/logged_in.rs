//! That a person has logged in to an app: what codes and refresh tokens stand for, and tokens that are given at once.

use serde::{Deserialize, Serialize};

/// That a person has logged in to an app.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LoggedIn {
    /// The instance.
    pub(crate) instance_id: String,
    /// The app.
    pub(crate) client_id: String,
    /// What it asks for; of a refresh token, what it has got.
    pub(crate) scope: String,
    /// Who has logged in.
    pub(crate) user_id: String,
    /// The sequence of the log of which that was true, at least.
    pub(crate) seen: u64,
    /// The session.
    pub(crate) session_id: String,
    /// When it ends, in milliseconds since the Unix epoch.
    pub(crate) session_ends: i64,
    /// When the person was checked, in milliseconds since the Unix epoch.
    pub(crate) checked_at: i64,
}
