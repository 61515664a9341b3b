//! Converts the settings of logins between the API and the core.

use domain::setting::login::{Login, LoginChange, MultiFactor, SecondFactor};
use proto::login_settings::{
    self as wire, ResolveLoginSettingsRequest, ResolvedLoginSettings, ResolvedMultiFactors, ResolvedSecondFactors,
    SetLoginSettingsRequest, SetMultiFactors, SetSecondFactors, set_multi_factors, set_second_factors,
};

use crate::settings::{settings, to_proto, written};

settings! {
    Login / LoginChange: SetLoginSettingsRequest, ResolveLoginSettingsRequest -> ResolvedLoginSettings {
        allow_username_password allow_register allow_external_idp force_mfa force_mfa_local_only allow_passkeys hide_password_reset ignore_unknown_usernames default_redirect_uri password_check_lifetime external_login_check_lifetime mfa_init_skip_lifetime second_factor_check_lifetime multi_factor_check_lifetime second_factors multi_factors allow_domain_discovery disable_login_with_email disable_login_with_phone
    }
}

to_proto!(Vec<SecondFactor>: ResolvedSecondFactors = |all| all.iter().map(|one| second_factor(*one).into()).collect());
to_proto!(Vec<MultiFactor>: ResolvedMultiFactors = |all| all.iter().map(|one| multi_factor(*one).into()).collect());
written!(Vec<SecondFactor>: SetSecondFactors / set_second_factors = second_factors);
written!(Vec<MultiFactor>: SetMultiFactors / set_multi_factors = multi_factors);

#[expect(clippy::needless_pass_by_value, reason = "as for every property")]
fn second_factors(list: wire::SecondFactors) -> Vec<SecondFactor> {
    list.value().filter_map(known_second).collect()
}

#[expect(clippy::needless_pass_by_value, reason = "as for every property")]
fn multi_factors(list: wire::MultiFactors) -> Vec<MultiFactor> {
    list.value().filter_map(known_multi).collect()
}

fn second_factor(factor: SecondFactor) -> wire::SecondFactor {
    match factor {
        SecondFactor::Totp => wire::SecondFactor::Totp,
        SecondFactor::U2f => wire::SecondFactor::U2f,
        SecondFactor::OtpEmail => wire::SecondFactor::OtpEmail,
        SecondFactor::OtpSms => wire::SecondFactor::OtpSms,
    }
}

fn known_second(factor: wire::SecondFactor) -> Option<SecondFactor> {
    match factor {
        wire::SecondFactor::Unspecified => None,
        wire::SecondFactor::Totp => Some(SecondFactor::Totp),
        wire::SecondFactor::U2f => Some(SecondFactor::U2f),
        wire::SecondFactor::OtpEmail => Some(SecondFactor::OtpEmail),
        wire::SecondFactor::OtpSms => Some(SecondFactor::OtpSms),
    }
}

fn multi_factor(factor: MultiFactor) -> wire::MultiFactor {
    match factor {
        MultiFactor::U2fWithVerification => wire::MultiFactor::U2fWithVerification,
    }
}

fn known_multi(factor: wire::MultiFactor) -> Option<MultiFactor> {
    match factor {
        wire::MultiFactor::Unspecified => None,
        wire::MultiFactor::U2fWithVerification => Some(MultiFactor::U2fWithVerification),
    }
}
