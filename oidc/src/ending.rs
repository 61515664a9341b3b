//! The end of an authorization request: once, with a code, with tokens or with an error, which the app gets at its
//! redirect URI.

use std::sync::Arc;

use base::explain::explain;
use domain::resource::app::oidc::ResponseType;
use http::HeaderMap;
use view::directory::{Client, Tenant};

use crate::{
    Oidc, answer,
    app_login::AppLogin,
    auth_request::{AuthRequest, PendingRequest},
    authorize::checks,
    code,
    error::Error,
    token::ImplicitLogin,
};

use edge::admission::{holder, own_app};

/// Returns a pending request of an instance and its app, where the app's settings still permit the request.
pub(crate) async fn waiting(
    oidc: &Oidc,
    tenant: &Arc<Tenant>,
    id: &str,
) -> Result<Option<(PendingRequest, Arc<Client>)>, Error> {
    let Some(waiting) = AuthRequest::waiting(oidc, &tenant.id, id).await? else { return Ok(None) };
    let app = own_app::find_app(&oidc.edge, tenant, &waiting.request.client_id, 0).await?;
    // The app may have been set up in another way meanwhile.
    let app = app.filter(|app| holder::is_live_app(&oidc.edge, tenant, app, app.as_of.get()));
    Ok(app.filter(|app| checks::still_may(app, &waiting.request)).map(|app| (waiting, app)))
}

/// An authorization request that is about to end.
pub(crate) struct FinishedRequest<'a> {
    pub(crate) id: &'a str,
    pub(crate) waiting: &'a PendingRequest,
    pub(crate) app: &'a Arc<Client>,
}

impl FinishedRequest<'_> {
    /// Ends a request after a login, and returns the URL that the browser goes on to, with what the app has requested.
    /// `None` where the request had ended before.
    pub(crate) async fn finish(
        &self,
        oidc: &Oidc,
        tenant: &Arc<Tenant>,
        logged_in: AppLogin,
        headers: &HeaderMap,
    ) -> Result<Option<String>, Error> {
        let Self { id, waiting: PendingRequest { request, .. }, app } = self;
        if request.response == ResponseType::Code {
            let Some(code) = code::draw(oidc, id, logged_in, request.into()).await? else { return Ok(None) };
            over(oidc, tenant, id).await;
            return answer::url(oidc, tenant, &request.callback, &[("code", &code)]).await.map(Some);
        }
        // The tokens are made first, and discarded where the request had ended before.
        let with_access_token = request.response == ResponseType::IdTokenToken;
        let (logged_in, nonce) = (&logged_in, request.nonce.as_deref());
        let login = ImplicitLogin { app, logged_in, grant_id: id, nonce, with_access_token };
        let mut tokens = match login.tokens(oidc, tenant, headers).await {
            Ok(tokens) => tokens,
            Err(Error::InvalidScope(why)) => return self.refuse(oidc, tenant, "invalid_scope", why).await,
            Err(Error::AccessDenied(why)) => return self.refuse(oidc, tenant, "access_denied", &why).await,
            Err(error) => return Err(error),
        };
        let metadata = tokens.metadata();
        let pairs = tokens.pairs(with_access_token);
        let pairs: Vec<_> = pairs.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let url = self.closed(oidc, tenant, &pairs).await?;
        if url.is_some() {
            metadata.write(oidc).await;
        }
        Ok(url)
    }

    /// Ends a request with an error, and returns the URL that the browser goes on to. `None` where the request had
    /// ended before.
    pub(crate) async fn refuse(
        &self,
        oidc: &Oidc,
        tenant: &Tenant,
        error: &str,
        description: &str,
    ) -> Result<Option<String>, Error> {
        let description = (!description.is_empty()).then_some(("error_description", description));
        let parameters: Vec<_> = [("error", error)].into_iter().chain(description).collect();
        self.closed(oidc, tenant, &parameters).await
    }

    /// Ends a request with an answer other than a code.
    async fn closed(&self, oidc: &Oidc, tenant: &Tenant, answer: &[(&str, &str)]) -> Result<Option<String>, Error> {
        let url = answer::url(oidc, tenant, &self.waiting.request.callback, answer).await?;
        if !code::close(oidc, self.id).await? {
            return Ok(None);
        }
        over(oidc, tenant, self.id).await;
        Ok(Some(url))
    }
}

/// Removes a request that was finished or refused. If it stays, it cannot be finished again as long as its code is remembered.
async fn over(oidc: &Oidc, tenant: &Tenant, id: &str) {
    if let Err(failure) = oidc.flow.remove(&tenant.id, id).await
        && let Err(_) = oidc.flow.remove(&tenant.id, id).await
    {
        tracing::warn!(error = explain(&failure), "an authorization request that is over stays");
    }
}
