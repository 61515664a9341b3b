//! The roles that memberships can have.

use std::sync::Arc;

use domain::{context::PartKind, rights, role::ROLES};
use edge::{answer::Answer, call::Call, error::Error, handler::Mounting};
use proto::membership::{AvailableRole, AvailableRolePart, ListAvailableRolesRequest, ListAvailableRolesResponse};

use crate::{Queries, get};

/// Mounts the reads of this module.
pub(super) fn mount(mounting: Mounting<Queries>) -> Mounting<Queries> {
    mounting.on(roles)
}

async fn roles(
    queries: Arc<Queries>,
    call: Call,
    ListAvailableRolesRequest { ctx: _ }: ListAvailableRolesRequest,
) -> Result<Answer<ListAvailableRolesResponse>, Error> {
    let held = ROLES.iter().filter(|role| role.level == call.context.kind);
    let roles = held.map(|role| AvailableRole {
        role: role.name.to_owned(),
        permissions: rights::of(role).iter().cloned().collect(),
        held_in: match role.part {
            None => AvailableRolePart::Unspecified,
            Some(PartKind::Project) => AvailableRolePart::Project,
            Some(PartKind::ProjectGrant) => AvailableRolePart::ProjectGrant,
        }
        .into(),
    });
    get::constant(&queries, &call, ListAvailableRolesResponse { roles: roles.collect() }).await
}
