//! After how many wrong tries a user is locked in the API's words.

use domain::setting::lockout::{Lockout, LockoutChange};
use proto::lockout_settings::{ResolveLockoutSettingsRequest, ResolvedLockoutSettings, SetLockoutSettingsRequest};

use crate::settings::settings;

settings! {
    Lockout / LockoutChange: SetLockoutSettingsRequest, ResolveLockoutSettingsRequest -> ResolvedLockoutSettings {
        max_password_attempts max_otp_attempts
    }
}
