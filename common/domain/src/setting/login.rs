//! How users log in.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::{
    properties::{only, properties, within},
    settings::Milliseconds,
};

/// The longest lifetime of sessions bounds these times.
const A_SEASON: RangeInclusive<Milliseconds> = Milliseconds::minutes(1)..=Milliseconds::days(90);
const UP_TO_A_SEASON: &str = "must be from 60s to 7776000s, 90 days";

/// A factor that is checked in addition to a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SecondFactor {
    /// A code of an app on the user's device.
    Totp,
    /// A security key.
    U2f,
    /// A code that is sent by e-mail.
    OtpEmail,
    /// A code that is sent by SMS.
    OtpSms,
}

/// A check that covers more than one factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MultiFactor {
    /// A passkey or security key that verifies its user.
    U2fWithVerification,
}

properties! {
    /// How users of one context log in.
    Login / LoginChange {
        /// Whether users may log in with a login name and a password.
        allow_username_password: bool = true;
        /// Whether people without an account may create one.
        allow_register: bool = true;
        /// Whether users may log in with an identity provider.
        allow_external_idp: bool = true;
        /// Whether every login needs a second factor.
        force_mfa: bool = false, only(false);
        /// Whether every login without an identity provider needs a second factor.
        force_mfa_local_only: bool = false, only(false);
        /// Whether users may log in with a passkey.
        allow_passkeys: bool = true;
        /// Whether the login does not offer to reset a password.
        hide_password_reset: bool = false;
        /// Whether an unknown login name leads to the password like any other.
        ignore_unknown_usernames: bool = false;
        /// Where a login leads that no app has requested; nowhere when empty.
        default_redirect_uri: String = String::new();
        /// How long the check of a password is valid.
        password_check_lifetime: Milliseconds = Milliseconds::hours(240), within(A_SEASON, UP_TO_A_SEASON);
        /// How long a login with an identity provider is valid.
        external_login_check_lifetime: Milliseconds = Milliseconds::hours(240), within(A_SEASON, UP_TO_A_SEASON);
        /// How long a user who declined to set up a second factor is not asked again.
        mfa_init_skip_lifetime: Milliseconds = Milliseconds::days(30);
        /// How long the check of a second factor is valid.
        second_factor_check_lifetime: Milliseconds = Milliseconds::hours(18), within(A_SEASON, UP_TO_A_SEASON);
        /// How long a check that covers more than one factor is valid.
        multi_factor_check_lifetime: Milliseconds = Milliseconds::hours(12), within(A_SEASON, UP_TO_A_SEASON);
        /// The second factors that users may set up.
        second_factors: Vec<SecondFactor> = vec![], only(vec![]);
        /// The permitted checks that cover more than one factor.
        multi_factors: Vec<MultiFactor> = vec![], only(vec![]);
        /// Whether the domain of an unknown login name leads to the organization that owns the domain.
        allow_domain_discovery: bool = true;
        /// Whether an e-mail address is not accepted as login name.
        disable_login_with_email: bool = false;
        /// Whether a phone number is not accepted as login name.
        disable_login_with_phone: bool = false;
    } is {
        const NAME: &'static str = "login_settings";
    }
}
