//! The number of failed attempts after which a user is locked.

use crate::properties::{properties, within};

const RULE: &str = "must be at most 1000";

properties! {
    /// The number of failed attempts after which a user of one context is locked; 0 for never.
    Lockout / LockoutChange {
        /// Attempts with a wrong password.
        max_password_attempts: u64 = 0, within(0..=1000, RULE);
        /// Attempts with a wrong code.
        max_otp_attempts: u64 = 0, within(0..=1000, RULE);
    } is {
        const NAME: &'static str = "lockout_settings";
    }
}
