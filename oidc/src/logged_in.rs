//! That a person has logged in to an app: what codes and refresh tokens stand for.

use serde::{Deserialize, Serialize};
use view::directory::Principal;

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

/// Why the password that was checked is not enough any more, where it is not.
pub(crate) fn outdated(user: &Principal, checked_at: i64) -> Option<&'static str> {
    match &user.user.password {
        Some(password) if password.is_change_required => {
            Some("the person must choose another password first, and have it checked")
        }
        Some(password) if password.changed_at <= checked_at => None,
        _ => Some("the password was changed since it was checked: check it again"),
    }
}
