//! What a new password must have.

use crate::properties::{properties, within};

properties! {
    /// What new passwords in one context must have.
    Password / PasswordChange {
        /// The least number of characters.
        min_length: u64 = 10, within(10..=200, "must be 10 to 200");
        /// There must be an upper case letter.
        requires_uppercase: bool = false;
        /// There must be a lower case letter.
        requires_lowercase: bool = false;
        /// There must be a digit.
        requires_number: bool = false;
        /// There must be a character that is neither letter nor digit.
        requires_symbol: bool = false;
    } is {
        const NAME: &'static str = "password_settings";
    }
}
