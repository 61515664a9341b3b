//! The JWT bearer grant (RFC 7523, section 2.1): a service user gets a token in its own name for an assertion that it
//! signs with a key of its own. No client authenticates in addition.

use std::sync::Arc;

use http::{HeaderMap, header};
use view::directory::Tenant;

use super::{Tokens, of_user::Issuance};
use crate::{
    Oidc,
    assertion::{Assertion, Flaw, Use},
    client,
    error::Error,
    form::Form,
    recipient::Recipient,
};

pub(super) async fn grant(
    oidc: &Oidc,
    tenant: &Arc<Tenant>,
    headers: &HeaderMap,
    form: &Form,
) -> Result<Tokens, Error> {
    let assertion = form.get("assertion").ok_or(Error::InvalidRequest("assertion is missing"))?;
    let authenticates = ["client_secret", "client_assertion", "client_assertion_type"];
    if headers.contains_key(header::AUTHORIZATION) || authenticates.iter().any(|name| form.get(name).is_some()) {
        return Err(Error::InvalidRequest("the assertion authenticates; send nothing else that does"));
    }
    let assertion = Assertion::read(assertion).ok_or(UNSIGNED)?;
    let user = client::signing_user(oidc, tenant, &assertion, Use::Grant).await.map_err(|flaw| match flaw {
        Flaw::Unsigned => UNSIGNED,
        Flaw::Claim(rule) => Error::InvalidGrant(rule),
        Flaw::Unknown(error) => error,
    })?;
    client::check_id(form, &[&user.id, &user.user.username])?;
    // The user may be deactivated or removed while the token is made.
    let recipient = Recipient::of_user(&user.id, &user.user);
    let issuance = Issuance { oidc, recipient: &recipient, headers };
    let issued = issuance.tokens(tenant, user, form.get("scope")).await;
    let (tokens, _) = issued.map_err(|error| match error {
        Error::InvalidClient => UNSIGNED,
        error => error,
    })?;
    Ok(tokens)
}

const UNSIGNED: Error = Error::InvalidGrant("the assertion is not signed with a valid key of an active service user");
