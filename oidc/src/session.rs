//! Sessions, as found by their tokens.

use std::sync::Arc;

use base::{clock, explain::explain};
use domain::{
    context::Owner,
    resource::{
        session::{CheckedUser, Session},
        user::User,
    },
    standard::Resource,
};
use edge::{
    freshness::Consistency,
    refusal::read_model,
    secret_token::{SESSION, is_kept},
};
use tokio::time::Instant;
use view::{
    directory::Tenant,
    keyring::{Purpose, secret_hash},
    projection::SESSIONS,
    read_model::{ReadModel, RowKey},
    rows::{Fresh, StoredResource},
};

use crate::{Oidc, catch_up::WAIT, error::Error};

/// Returns the live session whose newest token this is.
///
/// # Errors
/// When that cannot be determined.
pub(crate) async fn session_by_token(
    oidc: &Oidc,
    tenant: &Tenant,
    token: &str,
) -> Result<Option<StoredResource<Session>>, Error> {
    let Some(sent) = SESSION.parse(token) else { return Ok(None) };
    let key = oidc.keyring.key(&tenant.id, Purpose::ClientSecret).await?;
    let given = secret_hash(&key, sent.id, sent.secret);
    Ok(living(oidc, tenant, sent.id).await?.filter(|found| is_kept(&given, &found.state.token)))
}

/// Returns the session with an id, if it is live.
///
/// # Errors
/// When that cannot be determined.
pub(crate) async fn living(oidc: &Oidc, tenant: &Tenant, id: &str) -> Result<Option<StoredResource<Session>>, Error> {
    Ok(read(oidc, tenant, id, newest(oidc).await?).await?.filter(|found| !has_ended(oidc, tenant, found)))
}

/// Whether a session has expired or has ended, alone or with its user, even if that is not projected yet.
fn has_ended(oidc: &Oidc, tenant: &Tenant, StoredResource { id, state, .. }: &StoredResource<Session>) -> bool {
    let with_user = |CheckedUser { id, organization_id, seen, .. }: &CheckedUser| {
        let organization = Owner::organization(organization_id);
        oidc.edge.ended.is_dead(&tenant.id, &organization, &[(User::NAME, id.as_str())], *seen)
    };
    state.expires_at <= clock::now().as_millisecond()
        || oidc.edge.ended.revoked().has_session_ended(&tenant.id, id)
        || state.user.as_ref().is_some_and(with_user)
}

/// Returns the sequence of the last event of any session, since the session may have been created, or got another
/// token, a moment ago.
async fn newest(oidc: &Oidc) -> Result<u64, Error> {
    let last = oidc.sessions.last().await.map_err(|failure| {
        tracing::warn!(error = explain(&failure), "it is not known whether a session has another token");
        Error::Unavailable
    })?;
    Ok(last.map_or(0, |record| record.position().sequence))
}

/// Returns a session as of a sequence or later.
async fn read(oidc: &Oidc, tenant: &Tenant, id: &str, required: u64) -> Result<Option<StoredResource<Session>>, Error> {
    let rows = ReadModel::new(&SESSIONS, tenant.shard);
    let key = RowKey { aggregate_type: Session::NAME, instance_id: &tenant.id, id };
    let look = || rows.get(&oidc.database, key);
    let consistency = Consistency { required, own: 0, wait: WAIT, begun: Instant::now() };
    let changes = oidc.progress.of(&SESSIONS);
    let fresh = consistency.look_until_fresh(changes, look, |fresh| Some(fresh.processed)).await;
    let Fresh { processed, answer, .. } = fresh.map_err(|failure| read_model(Arc::new(failure)))?;
    consistency.accept(processed)?;
    let found = answer.map(|row| row.read::<Session>(Session::NAME)).transpose();
    Ok(found.map_err(|failure| read_model(Arc::new(failure)))?)
}
