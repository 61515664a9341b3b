//! Apps and service users that authenticate, as they are now: nobody is compared with a secret that was replaced.

use std::{sync::Arc, time::Duration};

use domain::{
    resource::{app::App, user::User},
    standard::Resource,
};
use edge::admission::own_app;
use view::directory::{AsOf, Client, Name, Principal, Tenant};

use crate::{Oidc, error::Error};

/// For how long it is waited until the read model has a change that this node has heard of.
const PATIENCE: Duration = Duration::from_secs(1);

/// Returns an app by its id.
///
/// # Errors
/// If it cannot be read, or not as it is since its last change.
pub(crate) async fn app(oidc: &Oidc, tenant: &Tenant, id: &str) -> Result<Option<Arc<Client>>, Error> {
    let directory = &oidc.edge.directory;
    let find = |sequence| own_app::find_app(&oidc.edge, tenant, id, sequence);
    let found = find(0).await?;
    let Some(app) = &found else { return Ok(None) };
    match processed(oidc, directory.changed_since(&tenant.id, App::NAME, &app.id, &app.as_of)).await? {
        Some(sequence) => newer(find(sequence).await?, sequence, |app| &app.as_of),
        None => Ok(found),
    }
}

/// Returns a user by its name or id.
///
/// # Errors
/// If it cannot be read, or not as it is since its last change.
pub(crate) async fn user(oidc: &Oidc, tenant: &Tenant, name: Name) -> Result<Option<Arc<Principal>>, Error> {
    let directory = &oidc.edge.directory;
    let find = |sequence| directory.principal(&tenant.id, name.clone(), sequence);
    let found = find(0).await?;
    let Some(user) = &found else { return Ok(None) };
    match processed(oidc, directory.changed_since(&tenant.id, User::NAME, &user.id, &user.as_of)).await? {
        Some(sequence) => newer(find(sequence).await?, sequence, |user| &user.as_of),
        None => Ok(found),
    }
}

/// Waits until the read model has a change, if there is one, and returns its sequence.
async fn processed(oidc: &Oidc, changed: Option<u64>) -> Result<Option<u64>, Error> {
    let Some(sequence) = changed else { return Ok(None) };
    let processed = oidc.edge.directory.processed_by(sequence, PATIENCE).await.map_err(|_| Error::Unavailable)?;
    if processed >= sequence { Ok(Some(sequence)) } else { Err(Error::Unavailable) }
}

/// Returns what was found, unless it is older than a sequence.
fn newer<T>(found: Option<Arc<T>>, sequence: u64, as_of: impl Fn(&T) -> &AsOf) -> Result<Option<Arc<T>>, Error> {
    match found {
        Some(found) if as_of(&found).get() < sequence => Err(Error::Unavailable),
        found => Ok(found),
    }
}
