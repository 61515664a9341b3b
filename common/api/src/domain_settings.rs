//! Converts the settings of domains between the API and the core.

use domain::setting::domains::{Domains, DomainsChange};
use proto::domain_settings::{ResolveDomainSettingsRequest, ResolvedDomainSettings, SetDomainSettingsRequest};

use crate::settings::settings;

settings! {
    Domains / DomainsChange: SetDomainSettingsRequest, ResolveDomainSettingsRequest -> ResolvedDomainSettings {
        login_name_includes_domain require_org_domain_verification smtp_sender_address_matches_instance_domain
    }
}
