//! After how many wrong tries a user is locked.

use crate::properties::{properties, within};

const RULE: &str = "must be at most 1000";

properties! {
    /// After how many wrong tries a user of one context is locked; 0 for never.
    Lockout / LockoutChange {
        /// Wrong passwords.
        max_password_attempts: u64 = 0, within(0..=1000, RULE);
        /// Wrong codes.
        max_otp_attempts: u64 = 0, within(0..=1000, RULE);
    } is {
        const NAME: &'static str = "lockout_settings";
    }
}
