//! Requests of visitors' browsers: who sends them, at which level, to which site, and whether a form is from its pages.

use std::sync::Arc;

use axum::{
    extract::{FromRequest, FromRequestParts, Request, State},
    response::{IntoResponse, Response},
};
use base::explain::explain;
use edge::{
    admission::Caller,
    error::Error,
    mount::read_body,
    operate_session::{For, Keys, SESSION, Sealed},
    request_id::request_id,
};
use http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts};
use jiff::Timestamp;
pub(super) use page::answer::Instead;
use page::{
    answer::page,
    component::Frame,
    cookie,
    form::{self, Form},
    origin,
    site::Site,
};
use view::directory::Tenant;

use super::{
    Operate,
    level::{Act, OperatorLevel},
    refused::Refused,
    shell::{NoticePage, Shell, policy},
    text::ShownTime,
};

/// A visitor who is signed in.
pub(super) struct Visit {
    pub(super) site: Site,
    /// The host, as the browser named it.
    pub(super) authority: HeaderValue,
    pub(super) request_id: String,
    pub(super) caller: Caller,
    pub(super) level: OperatorLevel,
    pub(super) query: Form,
    keys: Keys,
    /// What the browser's forms are bound to: its session and its level, since a form means something else at another.
    binding: String,
    token: String,
}

/// A visitor who can see the complete platform.
pub(super) struct OfSystem(pub(super) Visit);

/// A form that a signed-in visitor has sent.
pub(super) struct Posted {
    pub(super) visit: Visit,
    pub(super) form: Form,
}

/// A visitor of a page who is not identified yet.
pub(super) struct Stranger {
    pub(super) site: Site,
    pub(super) authority: HeaderValue,
    pub(super) tenant: Arc<Tenant>,
    pub(super) keys: Keys,
}

/// Finds the site and the instance of a request.
pub(super) async fn stranger(operate: &Operate, parts: &Parts) -> Result<Stranger, Instead> {
    let authority = parts.uri.authority().and_then(|authority| authority.as_str().parse().ok());
    let authority = authority.or_else(|| parts.headers.get(header::HOST).cloned());
    let site = Site::of(&operate.edge.external.scheme, &parts.uri, &parts.headers);
    let (Some(site), Some(authority)) = (site, authority) else {
        let text = "Pages are not served over http, where others could listen. Use https.\n";
        return Err((StatusCode::FORBIDDEN, text).into_response().into());
    };
    let tenant = operate.edge.tenant(parts, 0).await.map_err(|error| Instead::from(error.into_response()))?;
    let keys = Keys::of(&operate.keyring).await.map_err(|failure| {
        tracing::warn!(error = explain(&failure), "sessions cannot be read");
        away(&site)
    })?;
    Ok(Stranger { site, authority, tenant, keys })
}

/// Returns the caller of a token that is valid for this instance.
///
/// # Errors
/// When it is not valid, or that cannot be checked.
pub(super) async fn caller(operate: &Operate, parts: &Parts, token: &str) -> Result<Caller, Error> {
    let mut headers = HeaderMap::new();
    headers.extend(parts.headers.get(header::HOST).map(|host| (header::HOST, host.clone())));
    headers.insert(header::AUTHORIZATION, bearer(token));
    let mut shown = http::Request::new(()).into_parts().0;
    (shown.uri, shown.headers) = (parts.uri.clone(), headers);
    operate.edge.caller_of(&shown).await
}

async fn visit(operate: &Operate, parts: &Parts) -> Result<Visit, Instead> {
    let Stranger { site, authority, tenant, keys } = stranger(operate, parts).await?;
    let Some(browser) = cookie::read(&parts.headers, &site, SESSION).map(str::to_owned) else {
        return Err(signed_out(&site, "Sign in", "You are not signed in."));
    };
    let ended = || signed_out(&site, "Sign in again", "Your session has ended.");
    let Sealed { token, .. } = keys.open(For::Session, &tenant.id, &browser).ok_or_else(ended)?;
    let caller = caller(operate, parts, &token).await.map_err(|error| refused(&site, &error, ended()))?;
    let Some(level) = OperatorLevel::of(&caller) else { return Err(no_access(&site, &caller)) };
    let request_id = request_id(&parts.headers);
    let query = Form::of_query(parts.uri.query());
    let binding = format!("{level:?} {browser}");
    Ok(Visit { site, authority, request_id, caller, level, query, keys, binding, token })
}

impl FromRequestParts<Arc<Operate>> for Visit {
    type Rejection = Instead;

    async fn from_request_parts(parts: &mut Parts, operate: &Arc<Operate>) -> Result<Self, Instead> {
        visit(operate, parts).await
    }
}

impl FromRequestParts<Arc<Operate>> for OfSystem {
    type Rejection = Instead;

    async fn from_request_parts(parts: &mut Parts, operate: &Arc<Operate>) -> Result<Self, Instead> {
        let visit = visit(operate, parts).await?;
        if visit.level == OperatorLevel::System { Ok(Self(visit)) } else { Err(no_access(&visit.site, &visit.caller)) }
    }
}

impl FromRequest<Arc<Operate>> for Posted {
    type Rejection = Instead;

    async fn from_request(request: Request, operate: &Arc<Operate>) -> Result<Self, Instead> {
        let (parts, body) = request.into_parts();
        // Read the body first: browsers read an answer only after they have sent everything.
        let body = read_body(body, form::LARGEST).await;
        let visit = visit(operate, &parts).await?;
        let body = body.map_err(|_| unread(&visit.site))?;
        let form = Form::read(&parts.headers, &body).ok_or_else(|| unread(&visit.site))?;
        if !origin::is_own(&parts.headers, &visit.site) || !form::is_of(&visit.keys.form, &visit.binding, &form) {
            return Err(foreign(&visit.site));
        }
        Ok(Self { visit, form })
    }
}

impl Visit {
    /// Whether the visitor may perform an action.
    pub(super) fn may(&self, act: Act) -> bool {
        self.level.permits(&self.caller, act)
    }

    /// The Authorization header of the visitor for the API.
    pub(super) fn bearer(&self) -> HeaderValue {
        bearer(&self.token)
    }

    /// Fails if the visitor does not have this level any more.
    pub(super) async fn require_level(&self, operate: &Operate) -> Result<(), Refused> {
        let mut parts = http::Request::new(()).into_parts().0;
        parts.headers.insert(header::HOST, self.authority.clone());
        let caller = caller(operate, &parts, &self.token).await;
        let caller =
            caller.map_err(|error| Refused { status: error.reason().http_status(), message: error.to_string() })?;
        if OperatorLevel::of(&caller) == Some(self.level) { Ok(()) } else { Err(Refused::not_found()) }
    }

    /// When the session ends.
    pub(super) fn until(&self) -> Timestamp {
        Timestamp::from_second(self.caller.expires).unwrap_or_default()
    }

    /// The frame around a page.
    pub(super) fn shell(&self, active: &'static str) -> Shell {
        let token = form::token(&self.keys.form, &self.binding);
        Shell::new(self.level, active, name(&self.caller), ShownTime::at(self.until()), token)
    }

    /// Renders a page.
    pub(super) fn page(&self, status: StatusCode, frame: &Frame, template: &impl askama::Template) -> Response {
        page(status, template, &policy(frame, &self.site))
    }

    /// The page about a refusal of the API.
    pub(super) fn refused(&self, Refused { status, message }: &Refused) -> Instead {
        let site = &self.site;
        match *status {
            StatusCode::UNAUTHORIZED => signed_out(site, "Sign in again", "Your session has ended."),
            StatusCode::NOT_FOUND => not_found(site),
            StatusCode::FORBIDDEN => {
                let notice = NoticePage::new("You may not do this", &["You lack a permission:", message]);
                notice.back("/ui/operate", "Go to the first page").answer(StatusCode::FORBIDDEN, site).into()
            }
            status if status.is_server_error() => {
                tracing::debug!(%status, message, "a request of a page was refused");
                away(site)
            }
            status => {
                let notice = NoticePage::new("This cannot be done", &[&format!("The platform says: {message}.")]);
                notice.back("/ui/operate", "Go to the first page").answer(status, site).into()
            }
        }
    }
}

/// The page for unknown paths.
pub(super) async fn nowhere(State(_): State<Arc<Operate>>, visit: Visit) -> Instead {
    not_found(&visit.site)
}

fn not_found(site: &Site) -> Instead {
    let text = ["This page does not exist, or what it showed no longer exists, for example because it was fixed."];
    let notice = NoticePage::new("Not found", &text).back("/ui/operate/failed", "Go to the failed events");
    notice.answer(StatusCode::NOT_FOUND, site).into()
}

fn away(site: &Site) -> Instead {
    let text = ["The platform does not answer at the moment. Try again in a few seconds."];
    let notice = NoticePage::new("Not available", &text).back("/ui/operate", "Go to the first page");
    notice.answer(StatusCode::SERVICE_UNAVAILABLE, site).into()
}

/// The name of a visitor.
pub(super) fn name(Caller { principal, is_system, .. }: &Caller) -> String {
    let user = &principal.user;
    if *is_system { principal.id.clone() } else { user.person().map_or(&user.username, |it| &it.username).clone() }
}

/// The page for a token that is invalid, or cannot be used or checked at the moment.
pub(super) fn refused(site: &Site, error: &Error, ended: Instead) -> Instead {
    match error.reason().http_status() {
        StatusCode::UNAUTHORIZED => ended,
        status if status.is_server_error() => away(site),
        status => NoticePage::new("You may not look at this", &[&format!("The platform says: {error}.")])
            .answer(status, site)
            .into(),
    }
}

/// The page for somebody whose roles are not sufficient.
fn no_access(site: &Site, caller: &Caller) -> Instead {
    let [system, instance] = [OperatorLevel::System, OperatorLevel::Instance].map(|level| level.permission(Act::Look));
    let text = format!(
        "You are signed in as {}. You need a role with the permission {system} in the system to see the whole \
         platform, or with {instance} in the instance to see its failed events.",
        name(caller)
    );
    let notice = NoticePage::new("You may not look at this", &[&text]);
    let notice = if caller.is_system { notice } else { notice.another().back("/ui/logout", "Log out") };
    notice.answer(StatusCode::FORBIDDEN, site).into()
}

/// The page for somebody who is not signed in.
pub(super) fn signed_out(site: &Site, title: &str, text: &str) -> Instead {
    NoticePage::signed_out(title, text).answer(StatusCode::FORBIDDEN, site).into()
}

/// The page for a form that was not sent by a page that this browser was given.
pub(super) fn foreign(site: &Site) -> Instead {
    let text =
        ["Nothing was done: this form was not served to this browser. Open the page again and send it from there."];
    let notice = NoticePage::new("Send it again", &text).back("/ui/operate", "Go to the first page");
    notice.answer(StatusCode::FORBIDDEN, site).into()
}

pub(super) fn unread(site: &Site) -> Instead {
    let text = ["Nothing was done: the request is not a form of these pages."];
    let notice = NoticePage::new("This cannot be read", &text).back("/ui/operate", "Go to the first page");
    notice.answer(StatusCode::BAD_REQUEST, site).into()
}

fn bearer(token: &str) -> HeaderValue {
    let mut value = HeaderValue::try_from(format!("Bearer {token}")).unwrap_or(HeaderValue::from_static("Bearer"));
    value.set_sensitive(true);
    value
}
