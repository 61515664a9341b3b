//! The metadata of a user, as a claim.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use view::directory::{Metadata, Principal, Tenant};

use crate::{Oidc, error::Error, new_metadata::NewMetadata};

/// The name of the claim.
pub(crate) const CLAIM: &str = "urn:platform:iam:user:metadata";

/// Returns the metadata of a user, as of a sequence or later.
///
/// # Errors
/// When it cannot be read.
pub(crate) async fn of(oidc: &Oidc, tenant: &Tenant, user: &Principal, sequence: u64) -> Result<Arc<Metadata>, Error> {
    Ok(oidc.edge.directory.metadata(&tenant.id, &user.id, sequence).await?)
}

/// Returns the claim with new metadata applied, where all metadata could be read.
pub(crate) async fn claim_with_new(
    oidc: &Oidc,
    tenant: &Tenant,
    user: &Principal,
    sequence: u64,
    new: &NewMetadata,
) -> Result<Option<(String, Value)>, Error> {
    let found = of(oidc, tenant, user, sequence).await?;
    Ok(claim(&new.over(&found)).ok().map(|claim| (CLAIM.to_owned(), claim)))
}

/// Returns the value of the claim: keys with their values in base64url.
///
/// # Errors
/// `invalid_scope` where there is more metadata than fits a token.
pub(crate) fn claim(metadata: &Metadata) -> Result<Value, Error> {
    if !metadata.is_all {
        return Err(Error::InvalidScope("the user has more metadata than a token can carry: ask without that scope"));
    }
    let entries = metadata.entries.iter().map(|(key, value)| (key.clone(), json!(URL_SAFE_NO_PAD.encode(value))));
    Ok(Value::Object(entries.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_base64url_and_too_many_are_an_error() {
        let entries = vec![("plan".to_owned(), "gold".to_owned()), ("empty".to_owned(), String::new())];
        let all = Metadata { entries, is_all: true };
        assert_eq!(claim(&all).unwrap(), json!({ "plan": "Z29sZA", "empty": "" }));
        assert!(matches!(claim(&Metadata { is_all: false, ..all }), Err(Error::InvalidScope(_))));
    }
}
