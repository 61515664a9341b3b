//! Converts the requirements on new passwords between the API and the core.

use domain::setting::password::{Password, PasswordChange};
use proto::password_settings::{ResolvePasswordSettingsRequest, ResolvedPasswordSettings, SetPasswordSettingsRequest};

use crate::settings::settings;

settings! {
    Password / PasswordChange: SetPasswordSettingsRequest, ResolvePasswordSettingsRequest -> ResolvedPasswordSettings {
        min_length requires_uppercase requires_lowercase requires_number requires_symbol
    }
}
