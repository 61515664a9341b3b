//! The tokens of an app are accepted from pages of its own origins only. So a token that leaked to another page is
//! useless there, as far as browsers name the origin; other clients send none.

use domain::redirect_uri::said_origin;
use http::{header, request::Parts};
use view::directory::Tenant;

use super::{Edge, own_app};
use crate::{
    caller::Verified,
    error::{Error, Reason},
    header::{host, one},
    refusal::read_model,
};

/// Refuses a request from a page whose origin is none of the app that got its token; as of a sequence or later.
/// Tokens of service users belong to no page, and pages under the request's own host are the platform's.
pub(super) async fn permit_origin(
    edge: &Edge,
    parts: &Parts,
    tenant: &Tenant,
    token: &Verified,
    sequence: u64,
) -> Result<(), Error> {
    let Some(client_id) = token.app() else { return Ok(()) };
    let Some(origin) = one(&parts.headers, header::ORIGIN.as_str())? else { return Ok(()) };
    if is_own(edge, parts, origin)? {
        return Ok(());
    }
    let app = own_app::find_app(edge, tenant, client_id, sequence).await.map_err(read_model)?;
    if app.as_ref().and_then(|app| app.app.config.oidc()).is_some_and(|oidc| oidc.is_page(origin)) {
        return Ok(());
    }
    let message = "the request came from an origin that is not registered for the app of the access token";
    Err(Error::new(Reason::OriginNotAllowed, message))
}

/// Whether an origin is the one that the request was sent to, with the external port of instances or the used one.
fn is_own(edge: &Edge, parts: &Parts, origin: &str) -> Result<bool, Error> {
    let external = edge.external.url(&host(&parts.uri, &parts.headers)?);
    let named = || parts.headers.get(header::HOST)?.to_str().ok();
    let used = parts.uri.authority().map(http::uri::Authority::as_str).or_else(named).unwrap_or_default();
    let used = said_origin(&format!("{}://{used}", edge.external.scheme));
    Ok(origin == external || origin == used)
}
