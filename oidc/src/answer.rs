//! Answers to apps: the URL that a browser is redirected to. For `form_post` that is a page of the platform, whose form
//! the browser submits.

use std::time::Duration;

use base::{
    clock,
    explain::explain,
    secret::{SymmetricKey, sha256},
};
use serde::{Deserialize, Serialize};
use view::{directory::Tenant, keyring::Purpose};

use crate::{Oidc, auth_request::lost, callback::Callback, endpoint, error::Error};

/// How long the page with a form is valid: as long as a code.
const LIFETIME: Duration = Duration::from_mins(1);

/// A form that the browser submits to an app.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ByForm {
    /// Where the form is sent: a registered redirect URI.
    pub(crate) redirect_uri: String,
    pub(crate) fields: Vec<(String, String)>,
    /// When the form expires, in milliseconds since the Unix epoch.
    good_until: i64,
}

/// Returns the URL that the browser is redirected to with an answer.
pub(crate) async fn url(
    oidc: &Oidc,
    tenant: &Tenant,
    callback: &Callback,
    answer: &[(&str, &str)],
) -> Result<String, Error> {
    let issuer = oidc.edge.external.issuer(tenant);
    if let Some(url) = callback.url(&issuer, answer) {
        return Ok(url);
    }
    let fields = callback.answer(&issuer, answer).into_iter();
    let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let good_until = clock::millis_after(LIFETIME);
    let by_form = ByForm { redirect_uri: callback.redirect_uri.clone(), fields, good_until };
    let said = serde_json::to_vec(&by_form).map_err(|error| {
        tracing::error!(error = explain(&error), "an answer cannot be sealed");
        Error::Server
    })?;
    let sealed = key(oidc, &tenant.id).await?.seal(&purpose(&tenant.id), &said);
    Ok(format!("{issuer}{}?answer={sealed}", endpoint::ANSWER))
}

impl ByForm {
    /// Opens a form that was sealed for an instance, once and before it expires.
    ///
    /// # Errors
    /// When it cannot be determined whether the form was opened before.
    pub(crate) async fn open(oidc: &Oidc, instance_id: &str, sealed: &str) -> Result<Option<Self>, Error> {
        let Ok(said) = key(oidc, instance_id).await?.open(&purpose(instance_id), sealed) else { return Ok(None) };
        let by_form = serde_json::from_slice::<Self>(&said).ok();
        let by_form = by_form.filter(|by_form| by_form.good_until > clock::now().as_millisecond());
        // URLs end up in browser histories and logs, so that a form must open only once.
        let name = format!("answer.{}", hex::encode(&sha256(&said)[..16]));
        let is_first = by_form.is_some() && oidc.once.is_first(&name, LIFETIME).await.map_err(lost)?;
        Ok(by_form.filter(|_| is_first))
    }
}

async fn key(oidc: &Oidc, instance_id: &str) -> Result<SymmetricKey, Error> {
    Ok(oidc.keyring.key(instance_id, Purpose::ClientSecret).await?.derived("answers by form"))
}

/// What the ciphertext is bound to.
fn purpose(instance_id: &str) -> String {
    format!("answer by form of {instance_id}")
}
