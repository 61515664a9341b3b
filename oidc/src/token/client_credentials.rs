//! The client credentials grant (RFC 6749, section 4.4): a service user gets a token in its own name.

use std::sync::Arc;

use http::HeaderMap;
use view::directory::Tenant;

use super::{Tokens, of_user};
use crate::{Oidc, client, error::Error, form::Form, recipient::Recipient};

pub(super) async fn grant(
    oidc: &Oidc,
    tenant: &Arc<Tenant>,
    headers: &HeaderMap,
    form: &Form,
) -> Result<Tokens, Error> {
    let user = client::user(oidc, tenant, headers, form).await?;
    let recipient = Recipient::of_user(&user.id, &user.user);
    Ok(of_user::tokens(oidc, (tenant, user), (form.get("scope"), &recipient, false), headers).await?.0)
}
