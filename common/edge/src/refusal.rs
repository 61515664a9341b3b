//! Refusals that several steps of a request share.

use std::{sync::Arc, time::Duration};

use base::explain::explain;
use view::{database::DatabaseFailure, directory::Tenant, ended::Ended};

use crate::error::{Error, Reason};

/// Whether an instance may be used by those who belong to it.
pub(crate) fn is_open(tenant: &Tenant, ended: &Ended) -> Result<(), Error> {
    if tenant.instance.limits.block {
        return Err(Error::new(Reason::InstanceBlocked, "the instance is blocked; ask the operator of the platform"));
    }
    if !tenant.instance.is_active || ended.is_off(&tenant.id, tenant.processed) {
        return Err(Error::new(Reason::InstanceInactive, "the instance is switched off"));
    }
    Ok(())
}

/// A token that may be dead is not taken for one that is alive.
pub(crate) fn unheard() -> Error {
    let message = "this node has not heard for too long whether tokens have ended";
    Error::new(Reason::ReadModelUnavailable, message).retry_after(Duration::from_secs(5))
}

/// A feature that is switched off for the instance.
pub fn feature_disabled(feature: &str) -> Error {
    Error::new(Reason::FeatureDisabled, format!("the feature {feature} is not enabled")).with("feature", feature)
}

/// A permission that the caller has not.
pub fn permission_denied(permission: &str) -> Error {
    let message = format!("the caller lacks the permission {permission}");
    Error::new(Reason::PermissionDenied, message).with("permission", permission)
}

/// An operation that does not say who may call it.
pub(crate) fn for_nobody() -> Error {
    Error::new(Reason::PermissionDenied, "the operation names no permission, so nobody may call it")
}

/// A read model that cannot be read at the moment.
#[expect(clippy::needless_pass_by_value, reason = "it is used with map_err")]
pub fn read_model(failure: Arc<DatabaseFailure>) -> Error {
    tracing::warn!(error = %explain(&*failure), "the read model cannot be read");
    let message = "the read model cannot be read at the moment";
    Error::new(Reason::ReadModelUnavailable, message).retry_after(Duration::from_secs(1))
}
