//! Converts the settings of tokens between the API and the core.

use domain::setting::oidc::{Oidc, OidcChange};
use proto::oidc_settings::{ResolveOidcSettingsRequest, ResolvedOidcSettings, SetOidcSettingsRequest};

use crate::settings::settings;

settings! {
    Oidc / OidcChange: SetOidcSettingsRequest, ResolveOidcSettingsRequest -> ResolvedOidcSettings {
        access_token_lifetime id_token_lifetime refresh_token_idle_lifetime refresh_token_absolute_lifetime signing_key_lifetime enable_impersonation
    }
}
