//! Signing in and out: by logging in, as to any app, or by a link that is made for a system user. A link can be opened
//! any number of times, and is used once, by a button.

use std::{sync::Arc, time::Duration};

use askama::Template;
use axum::{
    Json,
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use base::{clock, explain::explain, secret};
use edge::{
    admission::own_app,
    error::{Error, Reason},
    mount::read_body,
    operate_session::{For, LOGIN, PATH, SESSION, Sealed},
    refusal::permission_denied,
    request_id::request_id,
};
use http::{HeaderValue, StatusCode, header, request::Parts};
use page::{
    answer::{page, secure, see_other},
    component::Frame,
    cookie,
    form::{self, Form},
    origin,
    site::Site,
};
use serde_json::json;

use super::{
    LOG_IN, Operate,
    level::{Act, OperatorLevel},
    shell::{ANOTHER, NoticePage, frame, policy},
    visit::{self, Instead, Posted, Stranger, foreign, refused, signed_out, unread},
};

/// How long a link can be used.
const LINK_LASTS: Duration = Duration::from_mins(5);
/// How long somebody may take to log in.
const LOGIN_LASTS: Duration = Duration::from_hours(1);
/// The cookie of a browser that was shown the form of a link.
const BROWSER: &str = "operate-browser";

/// The name of the field with the link.
const LINK: &str = "link";
/// The longest path of a link.
const LONGEST_LINK: usize = 8 * 1024;

/// The form that is shown for a link.
#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignIn {
    frame: Frame,
    token: String,
    link: String,
    error: &'static str,
}

/// Makes a link for the requesting system user, with the token of the request.
pub(super) async fn link(State(operate): State<Arc<Operate>>, parts: Parts) -> Result<Response, Error> {
    let id = request_id(&parts.headers);
    let caller = operate.edge.caller_of(&parts).await.map_err(|error| error.request_id(&id))?;
    if !caller.is_system {
        let message = "sign-in links are only for system users; other users log in";
        return Err(Error::new(Reason::PermissionDenied, message).request_id(&id));
    }
    if !OperatorLevel::System.permits(&caller, Act::Look) {
        return Err(permission_denied(OperatorLevel::System.permission(Act::Look)).request_id(&id));
    }
    let stranger = match visit::stranger(&operate, &parts).await {
        Ok(stranger) => stranger,
        Err(trouble) => return Ok(trouble.into_response()),
    };
    let token = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = token.and_then(|value| value.split_once(' ')).map(|(_, token)| token.trim()).unwrap_or_default();
    let lasts = i64::try_from(LINK_LASTS.as_secs()).unwrap_or_default();
    let expires = caller.expires.min(clock::now().as_second() + lasts);
    let sealed = stranger.keys.seal(For::Link, &stranger.tenant.id, &Sealed::new(token, expires));
    tracing::info!(user = caller.principal.id, "a sign-in link to the pages of operators was created");
    let mut response = Json(json!({ "path": format!("{PATH}/sign-in?{LINK}={sealed}") })).into_response();
    secure(&mut response);
    Ok(response)
}

/// Sends a browser to log in, as any app would, and to return. A browser that comes from another site is asked first.
pub(super) async fn log_in(State(operate): State<Arc<Operate>>, parts: Parts) -> Result<Response, Instead> {
    let Stranger { site, keys, tenant, .. } = visit::stranger(&operate, &parts).await?;
    if origin::is_foreign(&parts.headers) {
        return Err(signed_out(&site, "Sign in", "You came here from another site."));
    }
    let (issuer, is_another) =
        (operate.edge.external.issuer(&tenant), Form::of_query(parts.uri.query()).get(ANOTHER).is_some());
    // Cookies belong to one host and port, and people log in under those of the issuer.
    if site.origin != issuer {
        return Ok(see_other(&format!("{issuer}{LOG_IN}")));
    }
    let verifier = secret::random_secret();
    let begun = Sealed::new(&verifier, clock::now().as_second().saturating_add_unsigned(LOGIN_LASTS.as_secs()));
    let login = own_app::Login {
        callback: own_app::OPERATE_DONE,
        scope: "openid urn:platform:iam:org:project:id:platform:aud",
        verifier: &verifier,
        state: Some(&begun.id),
        is_another,
    };
    let mut response = see_other(&own_app::login_path(&operate.edge, &tenant, &login));
    add(&mut response, cookie::set(&site, LOGIN, &keys.seal(For::Login, &tenant.id, &begun), LOGIN_LASTS));
    Ok(response)
}

/// Shows the form of a link without using it up: programs that open links to inspect them press no button.
pub(super) async fn form(State(operate): State<Arc<Operate>>, parts: Parts) -> Result<Response, Instead> {
    let stranger = visit::stranger(&operate, &parts).await?;
    let link = Form::of_query(parts.uri.query()).get(LINK).map(str::to_owned);
    let link = link.filter(|link| link.len() < LONGEST_LINK).ok_or_else(|| used(&stranger.site))?;
    if stranger.keys.open(For::Link, &stranger.tenant.id, &link).is_none() {
        return Err(used(&stranger.site));
    }
    Ok(render_sign_in(&stranger, link, "", &parts))
}

/// Renders the form, with a cookie by which this browser is recognised.
fn render_sign_in(
    Stranger { site, keys, .. }: &Stranger,
    link: String,
    error: &'static str,
    parts: &Parts,
) -> Response {
    let known = cookie::read(&parts.headers, site, BROWSER).map(str::to_owned);
    let browser = known.unwrap_or_else(secret::random_secret);
    let frame = frame(None);
    let policy = policy(&frame, site);
    let status = if error.is_empty() { StatusCode::OK } else { StatusCode::FORBIDDEN };
    let sign_in = SignIn { frame, token: form::token(&keys.form, &browser), link, error };
    let mut response = page(status, &sign_in, &policy);
    add(&mut response, cookie::set(site, BROWSER, &browser, LINK_LASTS * 2));
    response
}

/// Uses a link up, and begins a session.
pub(super) async fn sign_in(State(operate): State<Arc<Operate>>, request: Request) -> Result<Response, Instead> {
    let (parts, body) = request.into_parts();
    let body = read_body(body, form::LARGEST).await;
    let stranger = visit::stranger(&operate, &parts).await?;
    let Stranger { site, keys, tenant, .. } = &stranger;
    let form = body.ok().and_then(|body| Form::read(&parts.headers, &body)).ok_or_else(|| unread(site))?;
    if !origin::is_own(&parts.headers, site) {
        return Err(foreign(site));
    }
    let link = form.get(LINK).unwrap_or_default();
    let Some(Sealed { id, token, expires }) = keys.open(For::Link, &tenant.id, link) else { return Err(used(site)) };
    let browser = cookie::read(&parts.headers, site, BROWSER);
    if !browser.is_some_and(|browser| form::is_of(&keys.form, browser, &form)) {
        return Ok(render_sign_in(
            &stranger,
            link.to_owned(),
            "Your browser did not send its cookie. Press the button again.",
            &parts,
        ));
    }
    let caller = visit::caller(&operate, &parts, &token).await.map_err(|error| refused(site, &error, used(site)))?;
    let left = u64::try_from(expires - clock::now().as_second()).unwrap_or_default();
    match operate.once.is_first(&format!("operate.{id}"), Duration::from_secs(left + 60)).await {
        Ok(true) => {}
        Ok(false) => return Err(used(site)),
        Err(failure) => {
            tracing::warn!(
                error = explain(&failure),
                "a sign-in link was refused, because it is unknown whether it was used before"
            );
            let notice =
                NoticePage::new("Not available", &["The platform does not answer at the moment. Make another link."]);
            return Err(notice.answer(StatusCode::SERVICE_UNAVAILABLE, site).into());
        }
    }
    tracing::info!(user = caller.principal.id, "a system user has signed in to the pages of operators");
    let session = keys.seal(For::Session, &tenant.id, &Sealed::new(&token, caller.expires));
    let lasts = u64::try_from(caller.expires - clock::now().as_second()).unwrap_or_default();
    let mut response = see_other(PATH);
    add(&mut response, cookie::set(site, SESSION, &session, Duration::from_secs(lasts)));
    add(&mut response, cookie::remove(site, BROWSER));
    Ok(response)
}

/// Ends a session in this browser.
pub(super) async fn sign_out(Posted { visit, .. }: Posted) -> Response {
    let text = "Your session of these pages was removed from this browser.";
    let notice = NoticePage::signed_out("You are signed out", text);
    let notice =
        if visit.caller.is_system { notice } else { notice.back("/ui/logout", "Log out of your account, too") };
    let mut response = notice.answer(StatusCode::OK, &visit.site);
    add(&mut response, cookie::remove(&visit.site, SESSION));
    response
}

fn add(response: &mut Response, cookie: Option<HeaderValue>) {
    response.headers_mut().extend(cookie.map(|cookie| (header::SET_COOKIE, cookie)));
}

/// The page for a link that is invalid, used or too old, without saying which.
fn used(site: &Site) -> Instead {
    let text = "This link has been used or is older than five minutes.";
    NoticePage::signed_out("Make another link", text).answer(StatusCode::FORBIDDEN, site).into()
}
