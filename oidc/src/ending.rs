//! How an authorization request ends: once, with a code or with an error, which the app is told at its redirect URI.

use std::sync::Arc;

use base::explain::explain;
use view::directory::{Client, Tenant};

use crate::{
    Oidc,
    auth_request::{AuthRequest, Waiting},
    authorize::checks,
    code,
    error::Error,
    logged_in::LoggedIn,
};

/// The request of an instance that waits, and the app that it is of, where that could still ask for it.
pub(crate) async fn waiting(
    oidc: &Oidc,
    tenant: &Arc<Tenant>,
    id: &str,
) -> Result<Option<(Waiting, Arc<Client>)>, Error> {
    let Some(waiting) = AuthRequest::waiting(oidc, &tenant.id, id).await? else { return Ok(None) };
    let app = oidc.edge.directory.app(&tenant.id, &waiting.request.client_id, 0).await?;
    // The app may have been set up in another way meanwhile.
    let app = app.filter(|app| oidc.edge.is_live_app(tenant, app, app.processed));
    Ok(app.filter(|app| checks::still_may(app, &waiting.request)).map(|app| (waiting, app)))
}

/// Ends a request for somebody who has logged in: where the browser goes on, with a code. `None` where it was ended before.
pub(crate) async fn finish(
    oidc: &Oidc,
    tenant: &Tenant,
    (id, waiting): (&str, &Waiting),
    logged_in: LoggedIn,
) -> Result<Option<String>, Error> {
    let Some(code) = code::draw(oidc, id, (logged_in, (&waiting.request).into())).await? else { return Ok(None) };
    over(oidc, tenant, id).await;
    let issuer = oidc.edge.external.issuer(tenant);
    Ok(Some(waiting.request.callback.url(&issuer, &[("code", &code)])))
}

/// Ends a request with an error: where the browser goes on. `None` where it was ended before.
pub(crate) async fn refuse(
    oidc: &Oidc,
    tenant: &Tenant,
    (id, waiting): (&str, &Waiting),
    (error, description): (&str, &str),
) -> Result<Option<String>, Error> {
    if !code::refuse(oidc, id).await? {
        return Ok(None);
    }
    over(oidc, tenant, id).await;
    let issuer = oidc.edge.external.issuer(tenant);
    Ok(Some(waiting.request.callback.refused(&issuer, error, description)))
}

/// Removes a request that was finished or refused. If it stays, it cannot be finished again as long as its code is remembered.
async fn over(oidc: &Oidc, tenant: &Tenant, id: &str) {
    if let Err(failure) = oidc.flow.remove(&tenant.id, id).await
        && let Err(_) = oidc.flow.remove(&tenant.id, id).await
    {
        tracing::warn!(error = explain(&failure), "an authorization request that is over stays");
    }
}
