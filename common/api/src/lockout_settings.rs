//! Converts the lockout of users after failed attempts between the API and the core.

use domain::setting::lockout::{Lockout, LockoutChange};
use proto::lockout_settings::{ResolveLockoutSettingsRequest, ResolvedLockoutSettings, SetLockoutSettingsRequest};

use crate::settings::settings;

settings! {
    Lockout / LockoutChange: SetLockoutSettingsRequest, ResolveLockoutSettingsRequest -> ResolvedLockoutSettings {
        max_password_attempts max_otp_attempts
    }
}
