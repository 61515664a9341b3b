//! Whether an actor may act as a user. That is decided before anything of the user is read, so that an actor who may
//! not learns nothing from other errors, from timing, or from what targets are sent.

use base::explain::explain;
use edge::{admission::holder, trigger::trace_of};
use proto::bus::{Impersonate, internal_command::Command};
use serde::Deserialize;
use serde_json::Value;

use super::party::{Party, Reading};
use crate::error::Error;

/// The error for an actor without the right, which does not disclose whether the user exists.
pub(super) const DENIED: Error = Error::InvalidRequest("the actor may not act as this user, or there is none");
/// The longest id that the writer accepts, in bytes.
const LONGEST_ID: usize = 200;

/// Who may act as a user (RFC 8693, section 4.4).
#[derive(Deserialize)]
struct MayAct {
    sub: String,
    iss: Option<String>,
}

/// Refuses an actor who may not act as the user with an id, as the `may_act` of a token or the roles of the actor say.
/// A permitted impersonation is in the log from then on, whether or not a token is issued in the end.
pub(super) async fn permit(
    reading: &Reading<'_>,
    actor: &Party,
    user_id: &str,
    may_act: Option<&Value>,
) -> Result<(), Error> {
    let Reading { oidc, tenant, .. } = reading;
    let issuer = oidc.edge.external.issuer(tenant);
    // The writer decides whether the roles of the actor suffice.
    if !is_id(user_id) || !admits(may_act, actor, &issuer) || !holder::has_impersonation(&oidc.edge, tenant) {
        return Err(DENIED);
    }
    note(reading, actor, user_id).await
}

/// Whether this can be the id of a user.
fn is_id(id: &str) -> bool {
    (1..=LONGEST_ID).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Whether the `may_act` of a token permits the actor; also where there is none.
fn admits(may_act: Option<&Value>, actor: &Party, issuer: &str) -> bool {
    let Some(may_act) = may_act else { return true };
    let said = MayAct::deserialize(may_act);
    said.is_ok_and(|said| said.sub == actor.user.id && said.iss.is_none_or(|iss| iss == issuer))
}

/// Has the writer record who acts as whom, if it decides that this is permitted.
async fn note(reading: &Reading<'_>, actor: &Party, user_id: &str) -> Result<(), Error> {
    let Reading { oidc, tenant, app, headers, .. } = reading;
    let (user_id, actor_id) = (user_id.to_owned(), actor.user.id.clone());
    let command = Command::Impersonate(Impersonate { user_id, actor_id, client_id: app.client.id.clone() });
    let asked = oidc.internal.send(&tenant.id, &trace_of(headers), command).await;
    let outcome = asked.map_err(|undone| {
        tracing::warn!(error = %explain(&undone), "it cannot be noted who acts as whom, so nobody does");
        Error::Unavailable
    })?;
    if outcome.denied { Err(DENIED) } else { Ok(()) }
}
