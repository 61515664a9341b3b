//! The effects of domains.

use crate::{
    context::OwnerType,
    properties::{only, properties},
};

properties! {
    /// The effects of the domains of one instance.
    Domains / DomainsChange {
        /// Whether a user name is unique in its organization only, and a login name ends with the domain of that.
        login_name_includes_domain: bool = false, only(false);
        /// Whether an organization has to prove that a domain belongs to it.
        require_org_domain_verification: bool = true, only(true);
        /// Whether mail is only sent from addresses under the domains of the instance.
        smtp_sender_address_matches_instance_domain: bool = false;
    } is {
        const NAME: &'static str = "domain_settings";
        const LEVELS: &'static [OwnerType] = &[OwnerType::System, OwnerType::Instance];
    }
}
