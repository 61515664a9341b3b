//! The escalation check: only a caller who could give a user its roles may act as that user or take it away. Otherwise a
//! role that may manage users would be worth as much as the roles of any of them.

use std::collections::BTreeSet;

use base::secret;
use domain::{
    context::{Owner, OwnerType, Part, PartKind, RolePlace},
    reference::Link,
    resource::{
        membership::{self, Membership},
        organization::Organization,
        project::Project,
        project_grant::ProjectGrant,
        user::User,
    },
    standard::{Resource, Standard},
};
use edge::refusal::permission_denied;
use eventlog::record::AggregateKey;

use crate::{
    authority::{self, Object},
    execute::Deciding,
    existence::is_there,
    references,
    turn::{Current, Refusal, Turn},
};

/// The permission to give roles.
const GIVE_ROLES: &str = "membership.write";

/// Refuses what the caller may not do to a user; if it gives power over the user, also a caller who could not give the
/// user its roles.
pub(crate) fn permit_user(
    turn: &mut Turn<'_>,
    deciding: &Deciding,
    current: &Current<Standard<User>>,
    gives_power: bool,
) -> Result<(), Refusal> {
    let (key, owner) = (&current.key, current.owner()?);
    deciding.permit(turn, owner, &Object { user_id: Some(key.id.clone()), ..Object::of_nobody(User::NAME, true) })?;
    if gives_power && !deciding.authority.is_caller(&key.id) {
        check_user(turn, deciding, key, owner)?;
    }
    Ok(())
}

/// Refuses a caller who may not give the roles of a user, which belongs to `home`.
pub(crate) fn check_user(
    turn: &mut Turn<'_>,
    deciding: &Deciding,
    user: &AggregateKey,
    home: &Owner,
) -> Result<(), Refusal> {
    let places = places_of(turn, &deciding.keys.instance, user, home)?;
    check(turn, deciding, &user.instance_id, places)
}

/// Returns where the roles of a user hold, which belongs to `home`. `claims` is the key of its instance.
pub(crate) fn places_of(
    turn: &mut Turn<'_>,
    claims: &secret::SymmetricKey,
    user: &AggregateKey,
    home: &Owner,
) -> Result<Vec<RolePlace>, Refusal> {
    // If there are more than are read, those that matter most are still among them: all others are in organizations of
    // the instance.
    let mut places = role_places(turn, user, membership::USER, &Owner::instance(&user.instance_id))?;
    let above: Vec<_> = home.chain(&user.instance_id).into_iter().map(|context| (context, None)).collect();
    let held = authority::memberships(turn, claims, &user.id, &above);
    places.extend(held.iter().filter_map(Current::resource).map(Membership::place));
    Ok(places)
}

/// Refuses a caller who may not give the roles that users of an organization hold elsewhere.
pub(crate) fn check_users_of(
    turn: &mut Turn<'_>,
    deciding: &Deciding,
    organization: &AggregateKey,
) -> Result<(), Refusal> {
    let places = role_places(turn, organization, membership::HOME, &Owner::system())?;
    check(turn, deciding, &organization.instance_id, places)
}

/// Returns where the memberships that name a user or an organization hold. If there are more than are read, a context
/// above all of them is among the places: whoever may give roles there may give all of them.
fn role_places(
    turn: &mut Turn<'_>,
    named: &AggregateKey,
    link: Link,
    above: &Owner,
) -> Result<Vec<RolePlace>, Refusal> {
    references::are_complete(turn)?;
    let referrers = turn.referrers(named, link);
    let all: Vec<_> = referrers.keys.iter().map(|key| turn.get::<Standard<Membership>>(key)).collect();
    let places = all.iter().filter_map(Current::resource).map(Membership::place);
    Ok(places.chain(referrers.has_more.then(|| above.clone().into())).collect())
}

fn check(turn: &mut Turn<'_>, deciding: &Deciding, instance_id: &str, places: Vec<RolePlace>) -> Result<(), Refusal> {
    let places = retain_existing(turn, instance_id, places);
    if deciding.authority.may_in_all(turn, GIVE_ROLES, &places) {
        return Ok(());
    }
    Err(permission_denied(GIVE_ROLES).into())
}

/// Retains the places that still exist: roles in a removed organization give nothing, and nobody could give them.
pub(crate) fn retain_existing(turn: &mut Turn<'_>, instance_id: &str, mut places: Vec<RolePlace>) -> Vec<RolePlace> {
    let organizations: BTreeSet<String> = places
        .iter()
        .map(|place| &place.context)
        .filter(|context| context.kind == OwnerType::Organization)
        .map(|context| context.id.clone())
        .collect();
    let key = |id: &str| AggregateKey::of::<Standard<Organization>>(instance_id, id);
    let is_gone = |id: &String| turn.get::<Standard<Organization>>(&key(id)).resource().is_none();
    let gone: BTreeSet<String> = organizations.into_iter().filter(is_gone).collect();
    places.retain(|RolePlace { context, .. }| context.kind != OwnerType::Organization || !gone.contains(&context.id));
    places.retain(|place| place.parts.iter().all(|part| is_part(turn, instance_id, part)));
    places
}

/// Whether a part exists: the part of a membership may be removed before the membership is.
fn is_part(turn: &mut Turn<'_>, instance_id: &str, part: &Part) -> bool {
    match part.kind {
        PartKind::Project => is_there::<Project>(turn, &AggregateKey::of::<Standard<Project>>(instance_id, &part.id)),
        PartKind::ProjectGrant => {
            is_there::<ProjectGrant>(turn, &AggregateKey::of::<Standard<ProjectGrant>>(instance_id, &part.id))
        }
    }
}
