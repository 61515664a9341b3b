//! The organization of a user: as requested by scopes, and as claims.

use std::sync::Arc;

use domain::context::Owner;
use serde_json::{Map, Value, json};
use view::directory::{Locator, Principal, Tenancy, Tenant};

use crate::{Oidc, error::Error, scope::Scope};

const PREFIX: &str = "urn:platform:iam:user:resourceowner:";
/// The claims that repeat the requested organization.
const ID: &str = "urn:platform:iam:org:id";
const PRIMARY_DOMAIN: &str = "urn:platform:iam:org:domain:primary";

/// Returns the organization that a user belongs to.
///
/// # Errors
/// When it cannot be read.
pub(crate) async fn of(oidc: &Oidc, tenant: &Tenant, user: &Principal) -> Result<Option<Arc<Tenancy>>, Error> {
    let named = Locator::Id(user.owner.id.clone());
    Ok(oidc.edge.directory.organization(&tenant.id, named, 0).await?)
}

/// Returns the id of the organization that the user must belong to, where scopes request one.
///
/// # Errors
/// `invalid_scope` where there is none of that name, or scopes ask for several; and when it cannot be read.
pub(crate) async fn requested_organization(
    oidc: &Oidc,
    tenant: &Tenant,
    scopes: &[(&str, Scope<'_>)],
) -> Result<Option<String>, Error> {
    let mut asked: Option<String> = None;
    for (_, scope) in scopes {
        let (named, domain) = match scope {
            Scope::Organization(id) => (Locator::Id((*id).to_owned()), None),
            Scope::OrganizationOf(domain) => (Locator::Domain((*domain).to_owned()), Some(*domain)),
            _ => continue,
        };
        let found = oidc.edge.directory.organization(&tenant.id, named, 0).await?;
        let is_primary =
            |found: &Arc<Tenancy>| domain.is_none() || found.organization.primary_domain.as_deref() == domain;
        let found = found
            .filter(is_primary)
            .filter(|found| !oidc.edge.ended.is_removed(&tenant.id, &Owner::organization(&found.id)));
        let found = found
            .ok_or(Error::InvalidScope("there is no organization of the id or primary domain that is asked for"))?;
        if asked.as_ref().is_some_and(|other| *other != found.id) {
            return Err(Error::InvalidScope("a user is of one organization: ask for one"));
        }
        asked = Some(found.id.clone());
    }
    Ok(asked)
}

/// Whether a user's organization is the requested one; also where scopes request none.
pub(crate) fn is_asked(organization: Option<&Tenancy>, scopes: &[(&str, Scope<'_>)]) -> bool {
    scopes.iter().all(|(_, scope)| match scope {
        Scope::Organization(id) => organization.is_some_and(|found| found.id == *id),
        Scope::OrganizationOf(domain) => has_domain(organization, domain),
        _ => true,
    })
}

/// Returns the claims that repeat the requested organization, where the user belongs to it.
pub(crate) fn repeated(organization: Option<&Tenancy>, scopes: &[(&str, Scope<'_>)]) -> Map<String, Value> {
    let claim = |(_, scope): &(&str, Scope<'_>)| match scope {
        Scope::Organization(_) => Some((ID.to_owned(), json!(organization?.id))),
        Scope::OrganizationOf(domain) if has_domain(organization, domain) => {
            Some((PRIMARY_DOMAIN.to_owned(), json!(domain)))
        }
        _ => None,
    };
    scopes.iter().filter_map(claim).collect()
}

fn has_domain(organization: Option<&Tenancy>, domain: &str) -> bool {
    organization.is_some_and(|found| found.organization.primary_domain.as_deref() == Some(domain))
}

/// Returns the claims with id, name and primary domain of an organization.
pub(crate) fn claims(organization: &Tenancy) -> Map<String, Value> {
    let Tenancy { id, organization } = organization;
    let members = [
        ("id", Some(id)),
        ("name", Some(&organization.name)),
        ("primary_domain", organization.primary_domain.as_ref()),
    ];
    members.into_iter().filter_map(|(name, value)| Some((format!("{PREFIX}{name}"), json!(value?)))).collect()
}

/// Whether a claim is about the organization.
pub(crate) fn is_claim(name: &str) -> bool {
    name.starts_with(PREFIX) || [ID, PRIMARY_DOMAIN].contains(&name)
}
