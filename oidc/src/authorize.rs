//! The authorization endpoint (RFC 6749, section 3.1; OpenID Connect Core 1.0, section 3.1.2): a browser is sent here by an app, and
//! goes on to where a person logs in.
//!
//! The steps follow one another, and each knows more than the one before: the instance, the app, the contents of a
//! request object, the redirect URI, and the request. Errors are shown to the person before the redirect URI is known,
//! and sent to the app from then on.

pub(crate) mod checks;
mod hint;
mod object;

use std::sync::Arc;

use axum::{
    body::Body,
    extract::State,
    response::{IntoResponse, Response},
};
use base::secret::sha256;
use domain::resource::app::oidc::Oidc as Settings;
use edge::{
    admission::{holder, own_app},
    header::host,
    mount::LONGEST,
};
use http::{Extensions, HeaderValue, Method, Request, StatusCode, header};
use server::connections::{Peer, site};
use tokio::time::timeout;
use view::directory::{Client, Tenant};

use crate::{
    Oidc, answer,
    auth_request::Put,
    callback::{Callback, Refusal, with},
    endpoint,
    error::{Error, Refused, no_store},
    form::{self, EndpointRequest, Form},
    notice::Notice,
    owner, scope,
    words::Words,
};

/// The longest state, in bytes. It comes back in a URL.
pub(crate) const LONGEST_STATE: usize = 2048;

/// Sends a browser on: to where a person logs in, or back to the app with an error.
pub(crate) async fn authorize(State(oidc): State<Arc<Oidc>>, request: Request<Body>) -> Response {
    // After a POST, too, the browser goes on by GET, and sends the form to nobody else (RFC 9110, section 15.4.4).
    let status = match *request.method() {
        Method::GET => StatusCode::FOUND,
        Method::POST => StatusCode::SEE_OTHER,
        _ => return crate::error::method_not_allowed("GET, POST"),
    };
    let (site, words) = (oidc.site(request.uri(), request.headers()), Words::built_in(request.headers()));
    let led = timeout(LONGEST, lead(&oidc, request)).await;
    match led.unwrap_or(Err(AuthorizeRefusal::Page(Notice::AWAY))) {
        Ok(url) => redirect(status, &url),
        Err(AuthorizeRefusal::Page(notice)) => notice.answer(site.as_ref(), &words),
        Err(AuthorizeRefusal::Platform(error)) => error.into_response(),
    }
}

/// Why a browser is not sent to a login page.
enum AuthorizeRefusal {
    /// The person is shown an error page.
    Page(Notice),
    /// No instance is found under the host.
    Platform(edge::error::Error),
}

/// Returns a hash of the network of a browser, by which requests are limited.
pub(crate) fn origin_of(extensions: &Extensions) -> String {
    let peer = extensions.get::<Peer>().map(|peer| site(peer.0.ip()).to_string());
    hex::encode(&sha256(peer.unwrap_or_default().as_bytes())[..8])
}

/// Returns the URL that the browser is redirected to.
async fn lead(oidc: &Oidc, request: Request<Body>) -> Result<String, AuthorizeRefusal> {
    let asked = match BrowserRequest::read(oidc, request).await? {
        IncomingRequest::AtIssuer(asked) => asked,
        IncomingRequest::Elsewhere(url) => return Ok(url),
    };
    let mut by_app = asked.by_app(oidc).await?;
    let opened = by_app.open(oidc).await;
    if let Err(refusal) = &opened
        && by_app.asked.form.get("redirect_uri").is_none()
    {
        // The redirect URI is in the request object, too.
        let is_away = refusal.error == "temporarily_unavailable";
        return Err(AuthorizeRefusal::Page(if is_away { Notice::AWAY } else { Notice::UNREADABLE }));
    }
    let answerable = by_app.answerable()?;
    let waiting = match opened {
        Ok(()) => answerable.waiting(oidc).await,
        Err(refusal) => Err(refusal),
    };
    let Answerable { by_app, callback, .. } = &answerable;
    let tenant = &by_app.asked.tenant;
    match waiting {
        Ok(id) => Ok(login_url(&oidc.edge.external.issuer(tenant), &by_app.settings, &id)),
        Err(refusal) => answer::url(oidc, tenant, callback, &refusal.pairs()).await.map_err(|error| away_page(&error)),
    }
}

/// The request of a browser, of which nothing is verified.
struct BrowserRequest {
    tenant: Arc<Tenant>,
    form: Form,
    /// A hash of the network of the browser, by which requests are limited.
    origin: String,
    /// Whether pages are served here.
    has_pages: bool,
}

/// A request, by the host that it was sent to.
enum IncomingRequest {
    /// The host of the issuer.
    AtIssuer(BrowserRequest),
    /// Another host: the request has to be repeated at this URL.
    Elsewhere(String),
}

impl BrowserRequest {
    async fn read(oidc: &Oidc, request: Request<Body>) -> Result<IncomingRequest, AuthorizeRefusal> {
        let origin = origin_of(request.extensions());
        let named = host(request.uri(), request.headers());
        let has_pages = oidc.site(request.uri(), request.headers()).is_some();
        let read = form::read_either(oidc, request).await;
        let EndpointRequest { tenant, form, .. } = read.map_err(|refused| match refused {
            Refused::Platform(error) => AuthorizeRefusal::Platform(error),
            Refused::OAuth(_) => AuthorizeRefusal::Page(Notice::UNREADABLE),
        })?;
        // The cookies of a login belong to one host.
        if named.is_ok_and(|named| named != tenant.primary_domain) {
            let (issuer, query) = (oidc.edge.external.issuer(&tenant), form.encoded());
            return Ok(IncomingRequest::Elsewhere(format!("{issuer}{}?{query}", endpoint::AUTHORIZATION)));
        }
        Ok(IncomingRequest::AtIssuer(Self { tenant, form, origin, has_pages }))
    }

    /// Finds the app that has made the request: an active one in which people log in.
    async fn by_app(self, oidc: &Oidc) -> Result<ByApp, AuthorizeRefusal> {
        if !oidc.edge.ended.is_known() {
            return Err(AuthorizeRefusal::Page(Notice::AWAY));
        }
        let client_id = self.form.get("client_id").unwrap_or_default();
        let found = own_app::find_app(&oidc.edge, &self.tenant, client_id, 0).await;
        let found = found.map_err(|failure| away_page(&Error::from(failure)))?;
        let app = found.filter(|app| holder::is_live_app(&oidc.edge, &self.tenant, app, app.as_of.get()));
        let app = app.ok_or(AuthorizeRefusal::Page(Notice::NO_APP))?;
        let settings = app.app.config.oidc().cloned().ok_or(AuthorizeRefusal::Page(Notice::NO_APP))?;
        Ok(ByApp { asked: self, app, settings })
    }
}

/// The request of a known app.
struct ByApp {
    asked: BrowserRequest,
    app: Arc<Client>,
    settings: Settings,
}

impl ByApp {
    /// Replaces the parameters by those of the request object, where the app has sent one.
    async fn open(&mut self, oidc: &Oidc) -> Result<(), Refusal> {
        let BrowserRequest { tenant, form, .. } = &self.asked;
        let opened = object::opened(oidc, tenant, &self.app, form).await.inspect_err(|refusal| {
            tracing::info!(app = self.app.id, rule = refusal.description, "a request object was refused");
        })?;
        if let Some(opened) = opened {
            self.asked.form = opened;
        }
        Ok(())
    }

    /// Determines where the app is answered: at a registered redirect URI.
    fn answerable(self) -> Result<Answerable, AuthorizeRefusal> {
        let form = &self.asked.form;
        let redirect_uri = form.get("redirect_uri").ok_or(AuthorizeRefusal::Page(Notice::NO_REDIRECT_URI))?;
        if !checks::leads_to(&self.settings, &self.settings.redirect_uris, redirect_uri) {
            let rule = checks::no_way(&self.settings, redirect_uri);
            tracing::info!(app = self.app.id, rule, "nobody is sent to the address that an app has asked for");
            return Err(AuthorizeRefusal::Page(Notice::NO_REDIRECT_URI));
        }
        let state = form.get("state").map(str::to_owned);
        let is_long = state.as_ref().is_some_and(|state| state.len() > LONGEST_STATE);
        let callback = Callback {
            redirect_uri: redirect_uri.to_owned(),
            state: state.filter(|_| !is_long),
            mode: checks::mode(form, redirect_uri, self.asked.has_pages),
        };
        Ok(Answerable { by_app: self, callback, is_long })
    }
}

/// A request whose redirect URI is checked, so that the app can be sent errors.
struct Answerable {
    by_app: ByApp,
    callback: Callback,
    /// Whether the `state` is too long to be sent back.
    is_long: bool,
}

impl Answerable {
    /// Checks and stores the request, and returns its id.
    async fn waiting(&self, oidc: &Oidc) -> Result<String, Refusal> {
        let ByApp { asked, app, settings } = &self.by_app;
        if self.is_long {
            return Err(Refusal { error: "invalid_request", description: "state is longer than 2048 bytes" });
        }
        if settings.login_uri.is_empty() && !asked.has_pages {
            let description = "the app has no loginUri, and the platform's own login pages are served over https only";
            return Err(Refusal { error: "server_error", description });
        }
        let hint = hint::user(oidc, &asked.tenant, &app.id, asked.form.get("id_token_hint"))?;
        let mut request = checks::checked(app, settings, &asked.form, self.callback.clone(), hint)?;
        let scopes = scope::parse(Some(&request.scope)).unwrap_or_default();
        let organization = owner::requested_organization(oidc, &asked.tenant, &scopes).await;
        request.organization_id = organization.map_err(|error| Refusal::of_scope(&error))?;
        let description = "nobody can log in at the moment: try again in a while";
        let unavailable = Refusal { error: "temporarily_unavailable", description };
        match request.wait(oidc, &asked.tenant.id, &asked.origin).await {
            Ok(Put::Waits(id)) => Ok(id),
            Ok(Put::Long) => {
                let description = "the request is too long: send a shorter state, fewer scopes or shorter hints";
                Err(Refusal { error: "invalid_request", description })
            }
            Ok(Put::Full) => {
                tracing::warn!(instance = asked.tenant.id, "as many wait to log in as may");
                Err(unavailable)
            }
            Err(_) => Err(unavailable),
        }
    }
}

/// Returns the URL of the login page: that of the app's operator, or the platform's own.
fn login_url(issuer: &str, Settings { login_uri, .. }: &Settings, id: &str) -> String {
    let own = || format!("{issuer}{}", endpoint::LOGIN);
    let at = if login_uri.is_empty() { own() } else { login_uri.clone() };
    with(&at, &[(endpoint::REQUEST, id)])
}

/// Makes the page for a dependency that does not answer.
fn away_page(_: &Error) -> AuthorizeRefusal {
    AuthorizeRefusal::Page(Notice::AWAY)
}

/// Redirects a browser to a URL, without storing the redirect or sending a `Referer`.
pub(crate) fn redirect(status: StatusCode, url: &str) -> Response {
    let mut response = status.into_response();
    no_store(&mut response);
    let headers = response.headers_mut();
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    if let Ok(url) = HeaderValue::from_str(url) {
        headers.insert(header::LOCATION, url);
    }
    response
}
