//! Converts the links that pages show between the API and the core.

use std::convert::identity;

use domain::setting::help::{Help, HelpChange};
use proto::help_settings::{
    ResolveHelpSettingsRequest, ResolvedHelpSettings, SetEmail, SetHelpSettingsRequest, set_email,
};

use crate::settings::{settings, written};

settings! {
    Help / HelpChange: SetHelpSettingsRequest, ResolveHelpSettingsRequest -> ResolvedHelpSettings {
        tos_link privacy_policy_link help_link support_email docs_link custom_link custom_link_text
    }
}

written!(String: SetEmail / set_email = identity);
