//! From which pages the tokens of an app are used: from its own. A token that got to another page is good for nothing there, as far as that
//! one is shown by a browser; whoever is no browser says no origin.

use domain::redirect_uri::said_origin;
use http::{header, request::Parts};
use view::directory::Tenant;

use super::Edge;
use crate::{
    caller::Verified,
    error::{Error, Reason},
    header::{host, one},
    refusal::read_model,
};

impl Edge {
    /// Refuses a request from a page of another origin than those of the app that got its token; as of a sequence or later. What service
    /// users have is nobody's page's, and the pages under the request's own host are the platform's.
    pub(super) async fn permit_origin(
        &self,
        parts: &Parts,
        tenant: &Tenant,
        (token, sequence): (&Verified, u64),
    ) -> Result<(), Error> {
        let Some(client_id) = token.app() else { return Ok(()) };
        let Some(origin) = one(&parts.headers, header::ORIGIN.as_str())? else { return Ok(()) };
        if self.is_own(parts, origin)? {
            return Ok(());
        }
        let app = self.app(tenant, client_id, sequence).await.map_err(read_model)?;
        if app.as_ref().and_then(|app| app.app.config.oidc()).is_some_and(|oidc| oidc.is_page(origin)) {
            return Ok(());
        }
        let message = "the app of the access token has no pages of the origin that the request came from";
        Err(Error::new(Reason::OriginNotAllowed, message))
    }

    /// Whether an origin is that which the request itself was sent to, under the port that instances are reached at or that was used.
    fn is_own(&self, parts: &Parts, origin: &str) -> Result<bool, Error> {
        let external = self.external.url(&host(&parts.uri, &parts.headers)?);
        let named = || parts.headers.get(header::HOST)?.to_str().ok();
        let used = parts.uri.authority().map(http::uri::Authority::as_str).or_else(named).unwrap_or_default();
        let used = said_origin(&format!("{}://{used}", self.external.scheme));
        Ok(origin == external || origin == used)
    }
}
