//! Logout (OpenID Connect RP-Initiated Logout 1.0, section 2): an app sends a browser here, and the session that an ID
//! token of the app names ends. The person is asked on a page where there is no ID token, since any page may send any
//! browser here, and where the browser is signed in, but not to that session.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::State,
    response::{IntoResponse, Response},
};
use edge::{caller::issued_as, mount::LONGEST};
use http::{Method, Request, StatusCode};
use page::{origin, site::Site};
use tokio::time::timeout;
use view::directory::Tenant;

use crate::{
    Oidc,
    after_logout::AfterLogout,
    authorize::redirect,
    endpoint::LOGOUT,
    error::{Error, Refused, method_not_allowed},
    form::{self, EndpointRequest},
    hinted::{Hinted, PARAMETER},
    issue::ID_TYPE,
    notice::Notice,
    pages::is_signed_in_to,
    words::Words,
};

/// Ends a session, and redirects the browser: to the URI that the app has named, or to a page that confirms it.
pub(crate) async fn end_session(State(oidc): State<Arc<Oidc>>, request: Request<Body>) -> Response {
    let status = match *request.method() {
        Method::GET => StatusCode::FOUND,
        Method::POST => StatusCode::SEE_OTHER,
        _ => return method_not_allowed("GET, POST"),
    };
    let (site, words) = (oidc.site(request.uri(), request.headers()), Words::built_in(request.headers()));
    match timeout(LONGEST, end(&oidc, site.as_ref(), request))
        .await
        .unwrap_or(Err(NothingEnds::Page(Notice::MAYBE_SIGNED_OUT)))
    {
        Ok(Some(url)) => redirect(status, &url),
        Ok(None) => Notice::SIGNED_OUT.answer(site.as_ref(), &words),
        Err(NothingEnds::Page(notice)) => notice.answer(site.as_ref(), &words),
        Err(NothingEnds::Platform(error)) => error.into_response(),
    }
}

/// Why no session ends.
enum NothingEnds {
    /// The person is shown an error page.
    Page(Notice),
    /// No instance is found under the host.
    Platform(edge::error::Error),
}

impl From<Notice> for NothingEnds {
    fn from(notice: Notice) -> Self {
        Self::Page(notice)
    }
}

/// Returns the URL that the browser goes on to, where the app has named one.
async fn end(oidc: &Oidc, site: Option<&Site>, request: Request<Body>) -> Result<Option<String>, NothingEnds> {
    let is_post = request.method() == Method::POST;
    let read = form::read_either(oidc, request).await;
    let sent = read.map_err(|refused| match refused {
        Refused::Platform(error) => NothingEnds::Platform(error),
        Refused::OAuth(_) => Notice::UNREADABLE_LOGOUT.into(),
    })?;
    let EndpointRequest { tenant, headers, form } = &sent;
    let along =
        |client_id| AfterLogout { client_id, uri: form.get("post_logout_redirect_uri"), state: form.get("state") };
    let Some(hint) = form.get("id_token_hint") else {
        // Errors in the request are shown before the person is asked.
        along(form.get("client_id")).next(oidc, tenant).await?;
        return Ok(Some(sign_out_url(oidc, tenant, &form.encoded())));
    };
    let hinted = hinted(oidc, tenant, hint, form.get("client_id"))?;
    // Everything is checked before anything ends.
    let named = along(Some(&hinted.azp));
    let next = named.next(oidc, tenant).await?;
    let is_here = is_here(oidc, site, is_post, &sent, &hinted.sid).await;
    // Otherwise somebody would read "You are signed out", and still be signed in.
    if !is_here.map_err(|_| Notice::MAYBE_SIGNED_OUT)? {
        let sealed = hinted.sealed(oidc, tenant).await.map_err(|_| Notice::MAYBE_SIGNED_OUT)?;
        let along = named.sent().into_iter().chain([(PARAMETER, sealed.as_str())]);
        let query = serde_urlencoded::to_string(along.collect::<Vec<_>>()).unwrap_or_default();
        return Ok(Some(sign_out_url(oidc, tenant, &query)));
    }
    hinted.end(oidc, tenant, headers).await.map_err(|_| Notice::MAYBE_SIGNED_OUT)?;
    Ok(next)
}

/// Whether the session may end at once: the browser is signed in to it, or to none. A form of another site comes
/// without the cookie that shows that; the page that the browser is redirected to gets it.
async fn is_here(
    oidc: &Oidc,
    site: Option<&Site>,
    is_post: bool,
    EndpointRequest { tenant, headers, .. }: &EndpointRequest,
    session_id: &str,
) -> Result<bool, Error> {
    let Some(site) = site else { return Ok(true) };
    let found = is_signed_in_to(oidc, tenant, site, headers, session_id).await?;
    Ok(found.unwrap_or(!is_post || !origin::is_foreign(headers)))
}

/// Returns the URL of the page that asks the person.
fn sign_out_url(oidc: &Oidc, tenant: &Tenant, query: &str) -> String {
    format!("{}{LOGOUT}?{query}", oidc.edge.external.issuer(tenant))
}

/// Returns the session that the hint names. The hint may have expired, but must be an ID token of the app in
/// `client_id`, if given.
fn hinted(oidc: &Oidc, tenant: &Tenant, hint: &str, client_id: Option<&str>) -> Result<Hinted, Notice> {
    let issuer = oidc.edge.external.issuer(tenant);
    let hinted: Hinted = issued_as(hint, tenant, ID_TYPE, Some(&issuer)).ok_or(Notice::BAD_HINT)?;
    if client_id.is_some_and(|client_id| client_id != hinted.azp) {
        return Err(Notice::ANOTHER_APP);
    }
    Ok(hinted)
}
