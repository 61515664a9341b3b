//! Refusals that several steps of a request share.

use std::{sync::Arc, time::Duration};

use base::explain::explain;
use view::{database::DatabaseFailure, directory::Tenant, ended::Ended};

use crate::error::{Error, Reason};

/// Refuses an instance that is blocked or switched off for those who belong to it.
pub(crate) fn is_open(tenant: &Tenant, ended: &Ended) -> Result<(), Error> {
    if tenant.instance.limits.block {
        return Err(Error::new(Reason::InstanceBlocked, "the instance is blocked; ask the operator of the platform"));
    }
    if !tenant.instance.is_active || ended.is_off(&tenant.id, tenant.as_of.get()) {
        return Err(Error::new(Reason::InstanceInactive, "the instance is switched off"));
    }
    Ok(())
}

/// The error for a node that does not know which tokens have ended: one that may be dead must not count as alive.
pub(crate) fn unheard() -> Error {
    let message = "this node cannot check at the moment whether tokens were revoked";
    Error::new(Reason::ReadModelUnavailable, message).retry_after(Duration::from_secs(5))
}

/// The error for a feature that is switched off for the instance.
pub fn feature_disabled(feature: &str) -> Error {
    Error::new(Reason::FeatureDisabled, format!("the feature {feature} is not enabled")).with("feature", feature)
}

/// The error for a permission that the caller lacks.
pub fn permission_denied(permission: &str) -> Error {
    let message = format!("the caller lacks the permission {permission}");
    Error::new(Reason::PermissionDenied, message).with("permission", permission)
}

/// The error for an operation that names no permission.
pub(crate) fn for_nobody() -> Error {
    Error::new(Reason::PermissionDenied, "the operation names no permission, so nobody may call it")
}

/// The error for a search that has waited too long for its turn.
pub fn too_many_searches() -> Error {
    let message = "too many searches run at the moment";
    Error::new(Reason::ReadModelUnavailable, message).retry_after(Duration::from_secs(1))
}

/// The error for a read model that cannot be read.
#[expect(clippy::needless_pass_by_value, reason = "it is used with map_err")]
pub fn read_model(failure: Arc<DatabaseFailure>) -> Error {
    tracing::warn!(error = %explain(&*failure), "the read model cannot be read");
    let message = "the read model cannot be read at the moment";
    Error::new(Reason::ReadModelUnavailable, message).retry_after(Duration::from_secs(1))
}
