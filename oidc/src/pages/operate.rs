//! The way back to the pages of operators, which query nodes serve: the code of the login is exchanged here, where
//! codes are stored, as an app would exchange it.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{Request, State},
    response::Response,
};
use base::{clock, secret::constant_time_eq};
use domain::context::Owner;
use edge::{
    mount::LONGEST,
    operate_session::{For, Keys, LOGIN, PATH, SESSION, Sealed},
};
use http::header;
use page::cookie;
use tokio::time::timeout;

use super::visit::{Instead, Visitor};
use crate::{Oidc, error::Error, notice::Notice, token};

/// Begins an operators' session for somebody who has logged in.
pub(super) async fn begin(State(oidc): State<Arc<Oidc>>, request: Request) -> Result<Response, Instead> {
    let visitor = Visitor::read(&oidc, request).await?;
    let Visitor { tenant, site, headers, form, .. } = &visitor;
    let words = visitor.words(&Owner::instance(&tenant.id), &[]);
    let keys = Keys::of(&oidc.keyring).await.map_err(|_| visitor.notice(Notice::AWAY, &words))?;
    let kept = cookie::read(headers, site, LOGIN).and_then(|text| keys.open(For::Login, &tenant.id, text));
    // Only an answer to the request of this browser, from the issuer it was sent to (RFC 6749, section 10.12; RFC 9207,
    // section 2.4).
    let is = |name: &str, wanted: &str| {
        form.get(name).is_some_and(|sent| constant_time_eq(sent.as_bytes(), wanted.as_bytes()))
    };
    let kept = kept.filter(|kept| is("state", &kept.id) && is("iss", oidc.edge.external.issuer(tenant).as_str()));
    // Any other answer belongs to another tab, or was used before: the pages check whether somebody is signed in.
    let Some(Sealed { token: verifier, .. }) = kept else { return Ok(visitor.leave(PATH)) };
    let code = match (form.get("code"), form.get("error")) {
        (Some(code), _) => code,
        (None, Some("server_error" | "temporarily_unavailable")) => return Err(visitor.notice(Notice::AWAY, &words)),
        (None, _) => return Ok(visitor.leave(PATH)),
    };
    let taken_up = token::of_own_app(&oidc, tenant, code, &verifier, headers);
    let taken_up = timeout(LONGEST, Box::pin(taken_up)).await.unwrap_or(Err(Error::Unavailable));
    let (token, lasts) = taken_up.map_err(|error| match error {
        Error::Unavailable | Error::Server => visitor.notice(Notice::AWAY, &words),
        Error::AccessDenied(_) | Error::InvalidScope(_) => visitor.notice(Notice::NOT_ADMITTED, &words),
        _ => visitor.notice(Notice::EXPIRED, &words),
    })?;
    tracing::info!(instance = tenant.id, "a person has signed in to the pages of operators");
    let expires = clock::now().as_second().saturating_add_unsigned(lasts);
    let session = keys.seal(For::Session, &tenant.id, &Sealed::new(&token, expires));
    let mut response = visitor.leave(PATH);
    let cookies = [cookie::set(site, SESSION, &session, Duration::from_secs(lasts)), cookie::remove(site, LOGIN)];
    response.headers_mut().extend(cookies.into_iter().flatten().map(|cookie| (header::SET_COOKIE, cookie)));
    Ok(response)
}
