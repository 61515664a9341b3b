//! The authorization endpoint (RFC 6749, section 3.1; OpenID Connect Core 1.0, section 3.1.2): a browser is sent here by an app, and
//! goes on to where a person logs in.
//!
//! The steps follow one another, and each knows more than the one before: who was asked, by which app, what that has signed, where it is
//! answered, and what it asks for. Before it is known where an app is answered, errors are shown to the person; from then on the app is told.

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
use edge::{header::host, mount::LONGEST};
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
    form::{self, Form, Sent},
    owner, scope,
    told::Told,
    words::Words,
};

/// The longest state, in bytes. It comes back in a URL.
pub(crate) const LONGEST_STATE: usize = 2048;

/// Sends a browser on: to where a person logs in, or back to the app with an error.
pub(crate) async fn authorize(State(oidc): State<Arc<Oidc>>, request: Request<Body>) -> Response {
    // After a POST too the browser goes on by GET, and sends the form to nobody else (RFC 9110, section 15.4.4).
    let status = match *request.method() {
        Method::GET => StatusCode::FOUND,
        Method::POST => StatusCode::SEE_OTHER,
        _ => return crate::error::method_not_allowed("GET, POST"),
    };
    let (site, words) = (oidc.site(request.uri(), request.headers()), Words::built_in(request.headers()));
    let led = timeout(LONGEST, lead(&oidc, request)).await;
    match led.unwrap_or(Err(Stopped::Shown(Told::AWAY))) {
        Ok(url) => redirect(status, &url),
        Err(Stopped::Shown(told)) => told.answer(site.as_ref(), &words),
        Err(Stopped::Platform(error)) => error.into_response(),
    }
}

/// Why a browser is not sent to where a person logs in.
enum Stopped {
    /// The person is shown it.
    Shown(Told),
    /// No instance answers here.
    Platform(edge::error::Error),
}

/// Where a browser is, as what those who ask too often are known by.
pub(crate) fn origin_of(extensions: &Extensions) -> String {
    let peer = extensions.get::<Peer>().map(|peer| site(peer.0.ip()).to_string());
    hex::encode(&sha256(peer.unwrap_or_default().as_bytes())[..8])
}

/// Where the browser goes on.
async fn lead(oidc: &Oidc, request: Request<Body>) -> Result<String, Stopped> {
    let asked = match Asked::read(oidc, request).await? {
        Here::Asked(asked) => asked,
        Here::Elsewhere(url) => return Ok(url),
    };
    let mut by_app = asked.by_app(oidc).await?;
    let opened = by_app.open(oidc).await;
    if let Err(refusal) = &opened
        && by_app.asked.form.get("redirect_uri").is_none()
    {
        // Where the app is answered is in the object, too.
        let is_away = refusal.error == "temporarily_unavailable";
        return Err(Stopped::Shown(if is_away { Told::AWAY } else { Told::UNREADABLE }));
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
        Err(refusal) => answer::url(oidc, tenant, callback, &refusal.pairs()).await.map_err(|error| shown(&error)),
    }
}

/// What a browser was sent with: nothing of it is known to be true.
struct Asked {
    tenant: Arc<Tenant>,
    form: Form,
    /// Where the browser is, as what those who ask too often are known by.
    origin: String,
    /// Whether pages are served here.
    has_pages: bool,
}

/// Where something was asked.
enum Here {
    /// Under the name of the issuer.
    Asked(Asked),
    /// Under another one: it is to be asked there.
    Elsewhere(String),
}

impl Asked {
    async fn read(oidc: &Oidc, request: Request<Body>) -> Result<Here, Stopped> {
        let origin = origin_of(request.extensions());
        let named = host(request.uri(), request.headers());
        let has_pages = oidc.site(request.uri(), request.headers()).is_some();
        let read = form::read_either(oidc, request).await;
        let Sent { tenant, form, .. } = read.map_err(|refused| match refused {
            Refused::Platform(error) => Stopped::Platform(error),
            Refused::OAuth(_) => Stopped::Shown(Told::UNREADABLE),
        })?;
        // Cookies of a login are those of one host.
        if named.is_ok_and(|named| named != tenant.primary_domain) {
            let (issuer, query) = (oidc.edge.external.issuer(&tenant), form.encoded());
            return Ok(Here::Elsewhere(format!("{issuer}{}?{query}", endpoint::AUTHORIZATION)));
        }
        Ok(Here::Asked(Self { tenant, form, origin, has_pages }))
    }

    /// By which app: one that is there and switched on, in which people log in.
    async fn by_app(self, oidc: &Oidc) -> Result<ByApp, Stopped> {
        if !oidc.edge.ended.is_known() {
            return Err(Stopped::Shown(Told::AWAY));
        }
        let client_id = self.form.get("client_id").unwrap_or_default();
        let found = oidc.edge.app(&self.tenant, client_id, 0).await;
        let found = found.map_err(|failure| shown(&Error::from(failure)))?;
        let app = found.filter(|app| oidc.edge.is_live_app(&self.tenant, app, app.processed));
        let app = app.ok_or(Stopped::Shown(Told::NO_APP))?;
        let settings = app.app.config.oidc().cloned().ok_or(Stopped::Shown(Told::NO_APP))?;
        Ok(ByApp { asked: self, app, settings })
    }
}

/// What was asked by a known app.
struct ByApp {
    asked: Asked,
    app: Arc<Client>,
    settings: Settings,
}

impl ByApp {
    /// Takes what the app has asked for out of the object that it has signed, where it has sent one.
    async fn open(&mut self, oidc: &Oidc) -> Result<(), Refusal> {
        let Asked { tenant, form, .. } = &self.asked;
        let opened = object::opened((oidc, tenant), &self.app, form).await.inspect_err(|refusal| {
            tracing::info!(app = self.app.id, rule = refusal.description, "a request object was refused");
        })?;
        if let Some(opened) = opened {
            self.asked.form = opened;
        }
        Ok(())
    }

    /// Where the app is answered: at a URI that is registered.
    fn answerable(self) -> Result<Answerable, Stopped> {
        let form = &self.asked.form;
        let redirect_uri = form.get("redirect_uri").ok_or(Stopped::Shown(Told::NO_REDIRECT_URI))?;
        if !checks::leads_to(&self.settings, &self.settings.redirect_uris, redirect_uri) {
            let rule = checks::no_way(&self.settings, redirect_uri);
            tracing::info!(app = self.app.id, rule, "nobody is sent to the address that an app has asked for");
            return Err(Stopped::Shown(Told::NO_REDIRECT_URI));
        }
        let state = form.get("state").map(str::to_owned);
        let is_long = state.as_ref().is_some_and(|state| state.len() > LONGEST_STATE);
        let callback = Callback {
            redirect_uri: redirect_uri.to_owned(),
            state: state.filter(|_| !is_long),
            mode: checks::mode(form, (redirect_uri, self.asked.has_pages)),
        };
        Ok(Answerable { by_app: self, callback, is_long })
    }
}

/// What was asked by an app that can be told what is wrong with it.
struct Answerable {
    by_app: ByApp,
    callback: Callback,
    /// Whether its state is too long to come back.
    is_long: bool,
}

impl Answerable {
    /// The id under which the request waits for a person.
    async fn waiting(&self, oidc: &Oidc) -> Result<String, Refusal> {
        let ByApp { asked, app, settings } = &self.by_app;
        if self.is_long {
            return Err(Refusal { error: "invalid_request", description: "state is longer than 2048 bytes" });
        }
        if settings.login_uri.is_empty() && !asked.has_pages {
            let description = "the app has no loginUri, and the platform's own login pages are served over https only";
            return Err(Refusal { error: "server_error", description });
        }
        let hint = hint::user(oidc, (&asked.tenant, &app.id), asked.form.get("id_token_hint"))?;
        let mut request = checks::checked((app, settings), &asked.form, (self.callback.clone(), hint))?;
        let scopes = scope::parse(Some(&request.scope)).unwrap_or_default();
        let organization = owner::asked(oidc, &asked.tenant, &scopes).await;
        request.organization_id = organization.map_err(|error| Refusal::of_scope(&error))?;
        let description = "nobody can log in at the moment: try again in a while";
        let unavailable = Refusal { error: "temporarily_unavailable", description };
        match request.wait(oidc, (&asked.tenant.id, &asked.origin)).await {
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

/// Where a person logs in: on pages of the app's operator, or on the platform's own.
fn login_url(issuer: &str, Settings { login_uri, .. }: &Settings, id: &str) -> String {
    let own = || format!("{issuer}{}", endpoint::LOGIN);
    let at = if login_uri.is_empty() { own() } else { login_uri.clone() };
    with(&at, &[(endpoint::REQUEST, id)])
}

/// What a person is shown while something does not answer.
fn shown(_: &Error) -> Stopped {
    Stopped::Shown(Told::AWAY)
}

/// Leads a browser to a URL, which nothing but a redirect says.
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
