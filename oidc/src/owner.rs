//! The organization of a user, as claims.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use view::directory::{Named, Principal, Tenancy, Tenant};

use crate::{Oidc, error::Error};

const PREFIX: &str = "urn:platform:iam:user:resourceowner:";

/// The organization that a user belongs to.
///
/// # Errors
/// When it cannot be read.
pub(crate) async fn of(oidc: &Oidc, tenant: &Tenant, user: &Principal) -> Result<Option<Arc<Tenancy>>, Error> {
    let named = Named::Id(user.owner.id.clone());
    Ok(oidc.edge.directory.organization(&tenant.id, named, 0).await?)
}

/// Its id, name and primary domain.
pub(crate) fn claims(organization: &Tenancy) -> Map<String, Value> {
    let Tenancy { id, organization } = organization;
    let members = [
        ("id", Some(id)),
        ("name", Some(&organization.name)),
        ("primary_domain", organization.primary_domain.as_ref()),
    ];
    members.into_iter().filter_map(|(name, value)| Some((format!("{PREFIX}{name}"), json!(value?)))).collect()
}

/// Whether a claim is one of these.
pub(crate) fn is_claim(name: &str) -> bool {
    name.starts_with(PREFIX)
}
