//! The client credentials grant (RFC 6749, section 4.4): a service user gets a token in its own name.

use std::sync::Arc;

use http::HeaderMap;
use view::directory::Tenant;

use super::{Tokens, of_user::Issuance};
use crate::{Oidc, client, error::Error, form::Form, recipient::Recipient};

pub(super) async fn grant(
    oidc: &Oidc,
    tenant: &Arc<Tenant>,
    headers: &HeaderMap,
    form: &Form,
) -> Result<Tokens, Error> {
    let user = client::user(oidc, tenant, headers, form).await?;
    let recipient = Recipient { may_have_id_token: false, ..Recipient::of_user(&user.id, &user.user) };
    let issuance = Issuance { oidc, recipient: &recipient, headers };
    Ok(issuance.tokens(tenant, user, form.get("scope")).await?.0)
}
