//! The lifetimes of tokens and signing keys.

use std::ops::RangeInclusive;

use crate::{
    context::OwnerType,
    properties::{properties, within},
    settings::Milliseconds,
};

const A_DAY: RangeInclusive<Milliseconds> = Milliseconds::minutes(1)..=Milliseconds::hours(24);
const UP_TO_A_DAY: &str = "must be from 60s to 86400s, a day";
const A_SEASON: RangeInclusive<Milliseconds> = Milliseconds::minutes(1)..=Milliseconds::days(90);
const UP_TO_A_SEASON: &str = "must be from 60s to 7776000s, 90 days";
const A_YEAR: RangeInclusive<Milliseconds> = Milliseconds::days(1)..=Milliseconds::days(365);
const UP_TO_A_YEAR: &str = "must be from 86400s to 31536000s, a day to 365 days";

properties! {
    /// The settings for the tokens of one instance.
    Oidc / OidcChange {
        /// How long an access token is valid.
        access_token_lifetime: Milliseconds = Milliseconds::hours(12), within(A_DAY, UP_TO_A_DAY);
        /// How long an ID token is valid.
        id_token_lifetime: Milliseconds = Milliseconds::hours(12), within(A_DAY, UP_TO_A_DAY);
        /// How long an unused refresh token is valid.
        refresh_token_idle_lifetime: Milliseconds = Milliseconds::days(30), within(A_SEASON, UP_TO_A_SEASON);
        /// How long tokens can be refreshed after a login.
        refresh_token_absolute_lifetime: Milliseconds = Milliseconds::days(90), within(A_SEASON, UP_TO_A_SEASON);
        /// How long a key signs until its successor does.
        signing_key_lifetime: Milliseconds = Milliseconds::days(30), within(A_YEAR, UP_TO_A_YEAR);
        /// Whether users with the permission may act as others, by token exchange.
        enable_impersonation: bool = false;
    } is {
        const NAME: &'static str = "oidc_settings";
        const LEVELS: &'static [OwnerType] = &[OwnerType::System, OwnerType::Instance];
    }
}
