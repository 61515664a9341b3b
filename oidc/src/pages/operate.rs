//! The way back to the pages of operators, which query nodes have: what somebody has logged in with is taken up here, where codes are
//! known, as an app would take it up.

use std::{sync::Arc, time::Duration};

use axum::{
    extract::{Request, State},
    response::Response,
};
use base::{clock, secret::same};
use domain::context::Owner;
use edge::operate_session::{For, Keys, LOGIN, PATH, SESSION, Sealed};
use http::header;
use page::cookie;

use super::visit::{Instead, Visitor};
use crate::{Oidc, endpoint::OPERATE_DONE, error::Error, token, told::Told};

/// Begins a session of the pages of operators for who has logged in.
pub(super) async fn begin(State(oidc): State<Arc<Oidc>>, request: Request) -> Result<Response, Instead> {
    let visitor = Visitor::read(&oidc, request).await?;
    let Visitor { tenant, site, headers, form, .. } = &visitor;
    let words = visitor.words(&Owner::instance(&tenant.id), &[]);
    let keys = Keys::of(&oidc.keyring).await.map_err(|_| visitor.told(Told::AWAY, &words))?;
    let kept = cookie::read(headers, site, LOGIN).and_then(|text| keys.open(For::Login, &tenant.id, text));
    // Only what this browser was sent for, from whom it was sent to (RFC 6749, section 10.12; RFC 9207, section 2.4).
    let is = |name: &str, wanted: &str| form.get(name).is_some_and(|sent| same(sent.as_bytes(), wanted.as_bytes()));
    let kept = kept.filter(|kept| is("state", &kept.id) && is("iss", oidc.edge.external.issuer(tenant).as_str()));
    let Some(Sealed { token: verifier, .. }) = kept else { return Err(visitor.told(Told::EXPIRED, &words)) };
    let Some(code) = form.get("code") else {
        let mut response = visitor.leave(PATH);
        response.headers_mut().extend(cookie::remove(site, LOGIN).map(|cookie| (header::SET_COOKIE, cookie)));
        return Ok(response);
    };
    let taken_up = Box::pin(token::of_own_app(&oidc, tenant, (OPERATE_DONE, code, &verifier), headers)).await;
    let (token, lasts) = taken_up.map_err(|error| match error {
        Error::Unavailable | Error::Server => visitor.told(Told::AWAY, &words),
        _ => visitor.told(Told::EXPIRED, &words),
    })?;
    let expires = clock::now().as_second().saturating_add_unsigned(lasts);
    let session = keys.seal(For::Session, &tenant.id, &Sealed::new(&token, expires));
    let mut response = visitor.leave(PATH);
    let cookies = [cookie::set(site, (SESSION, &session), Duration::from_secs(lasts)), cookie::remove(site, LOGIN)];
    response.headers_mut().extend(cookies.into_iter().flatten().map(|cookie| (header::SET_COOKIE, cookie)));
    Ok(response)
}
