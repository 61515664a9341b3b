//! The domain that login names are shown without on the way to an app, since all of an organization have it.

use domain::{context::Owner, setting::branding::Branding};
use view::directory::{Locator, Tenant};

use crate::{Oidc, auth_request::PendingRequest, error::Error};

/// The domain that login names are shown without, if any.
pub(super) struct HiddenDomain(Option<String>);

impl HiddenDomain {
    /// Returns the primary domain of the requested organization, where its branding hides that.
    pub(super) async fn read(oidc: &Oidc, tenant: &Tenant, waiting: &PendingRequest) -> Result<Self, Error> {
        let Some(id) = &waiting.request.organization_id else { return Ok(Self(None)) };
        let branding = oidc.edge.settings.effective::<Branding>(&tenant.id, &Owner::organization(id)).chain;
        if !*branding.resolve(|it| it.hide_login_name_suffix.as_ref()).value {
            return Ok(Self(None));
        }
        let found = oidc.edge.directory.organization(&tenant.id, Locator::Id(id.clone()), 0).await?;
        Ok(Self(found.and_then(|found| found.organization.primary_domain.clone())))
    }

    /// Returns a login name without the domain, unless the rest would look like the name of somebody in another domain.
    pub(super) fn hidden_in<'a>(&self, login_name: &'a str) -> &'a str {
        let is_hidden = |domain: &str| self.0.as_ref().is_some_and(|hidden| hidden.eq_ignore_ascii_case(domain));
        let is_name = |name: &str| !name.is_empty() && !name.contains('@');
        let parts = login_name.rsplit_once('@').filter(|(name, domain)| is_name(name) && is_hidden(domain));
        parts.map_or(login_name, |(name, _)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_is_hidden_where_what_stays_is_not_taken_for_another_name() {
        let hidden = HiddenDomain(Some("acme.example".to_owned()));
        for (login_name, shown) in [
            ("ada@acme.example", "ada"),
            ("ada@ACME.example", "ada"),
            ("ada@other.example", "ada@other.example"),
            ("ceo@other.example@acme.example", "ceo@other.example@acme.example"),
            ("@acme.example", "@acme.example"),
            ("ada", "ada"),
        ] {
            assert_eq!(hidden.hidden_in(login_name), shown);
            assert_eq!(HiddenDomain(None).hidden_in(login_name), login_name);
        }
    }
}
