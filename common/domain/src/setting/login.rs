//! How users log in.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::{
    properties::{only, properties, within},
    settings::Milliseconds,
};

/// Sessions live no longer.
const A_SEASON: RangeInclusive<Milliseconds> = Milliseconds::minutes(1)..=Milliseconds::days(90);
const UP_TO_A_SEASON: &str = "must be from 60s to 7776000s, 90 days";

/// What is checked beside a password.
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

/// What is more than one factor at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MultiFactor {
    /// A passkey or security key that verifies its user.
    U2fWithVerification,
}

properties! {
    /// How users of one context log in.
    Login / LoginChange {
        /// They may log in with a login name and a password.
        allow_username_password: bool = true;
        /// Whoever has no account may create one.
        allow_register: bool = true;
        /// They may log in with an identity provider.
        allow_external_idp: bool = true;
        /// Every login needs a second factor.
        force_mfa: bool = false, only(false);
        /// Every login without an identity provider needs a second factor.
        force_mfa_local_only: bool = false, only(false);
        /// They may log in with a passkey.
        allow_passkeys: bool = true;
        /// The login does not offer to reset a password.
        hide_password_reset: bool = false;
        /// A login name that nobody has leads to the password like any other.
        ignore_unknown_usernames: bool = false;
        /// Where a login leads that no app has asked for; nowhere when empty.
        default_redirect_uri: String = String::new();
        /// How long a password that was checked counts.
        password_check_lifetime: Milliseconds = Milliseconds::hours(240), within(A_SEASON, UP_TO_A_SEASON);
        /// How long a login with an identity provider counts.
        external_login_check_lifetime: Milliseconds = Milliseconds::hours(240), within(A_SEASON, UP_TO_A_SEASON);
        /// How long who does not want a second factor is not asked again.
        mfa_init_skip_lifetime: Milliseconds = Milliseconds::days(30);
        /// How long a second factor that was checked counts.
        second_factor_check_lifetime: Milliseconds = Milliseconds::hours(18), within(A_SEASON, UP_TO_A_SEASON);
        /// How long a check counts that is more than one factor.
        multi_factor_check_lifetime: Milliseconds = Milliseconds::hours(12), within(A_SEASON, UP_TO_A_SEASON);
        /// The second factors that they may set up.
        second_factors: Vec<SecondFactor> = vec![], only(vec![]);
        /// The checks that are more than one factor.
        multi_factors: Vec<MultiFactor> = vec![], only(vec![]);
        /// The domain of a login name that nobody has leads to the organization that it belongs to.
        allow_domain_discovery: bool = true;
        /// An e-mail address is no login name.
        disable_login_with_email: bool = false;
        /// A phone number is no login name.
        disable_login_with_phone: bool = false;
    } is {
        const NAME: &'static str = "login_settings";
    }
}
