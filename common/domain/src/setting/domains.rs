//! What domains mean.

use crate::{
    context::OwnerType,
    properties::{only, properties},
};

properties! {
    /// What the domains of one instance mean.
    Domains / DomainsChange {
        /// A user name is unique in its organization, and a login name ends with the domain of that.
        login_name_includes_domain: bool = false, only(false);
        /// A domain belongs to an organization once that has shown so.
        require_org_domain_verification: bool = true, only(true);
        /// Mail is sent from addresses under the domains of the instance only.
        smtp_sender_address_matches_instance_domain: bool = false;
    } is {
        const NAME: &'static str = "domain_settings";
        const LEVELS: &'static [OwnerType] = &[OwnerType::System, OwnerType::Instance];
    }
}
