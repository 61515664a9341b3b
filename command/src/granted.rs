//! What grants name, looked up in the writer's turn: projects, and their roles by key.

use std::collections::HashSet;

use base::id;
use domain::{
    context::{Owner, Part, RolePlace},
    rejection::Rejection,
    resource::{
        project::Project,
        project_grant::ProjectGrant,
        project_role::{GrantedRole, ProjectRole},
    },
    standard::{Resource, Standard},
};
use edge::error::{Error, FieldFault, Reason};
use eventlog::record::AggregateKey;

use crate::{
    execute::Deciding,
    existence::is_there,
    turn::{Refusal, Turn},
};

/// Returns the owner of a project that the caller may see.
pub(crate) fn owner_of_project(
    turn: &mut Turn<'_>,
    deciding: &Deciding,
    project: &AggregateKey,
) -> Result<Owner, Refusal> {
    let is_there = is_there::<Project>(turn, project);
    let current = turn.get::<Standard<Project>>(project);
    let owner = current.head.owner.filter(|_| is_there).ok_or(Rejection::NotFound(Project::NAME))?;
    let place = RolePlace { context: owner, parts: vec![Part::project(&project.id)] };
    if !deciding.authority.may_at(turn, "project.read", &place) {
        return Err(Rejection::NotFound(Project::NAME).into());
    }
    Ok(place.context)
}

/// Returns the organization that a project was granted to by a project grant that the caller may see, and the project
/// grant.
pub(crate) fn owner_by_grant(
    turn: &mut Turn<'_>,
    deciding: &Deciding,
    key: &AggregateKey,
) -> Result<(Owner, ProjectGrant), Refusal> {
    let is_there = is_there::<ProjectGrant>(turn, key);
    let current = turn.get::<Standard<ProjectGrant>>(key);
    let grant = current.resource().filter(|_| is_there).ok_or(Rejection::NotFound(ProjectGrant::NAME))?;
    let context = Owner::organization(&grant.organization_id);
    let place = RolePlace { context, parts: vec![Part::project_grant(&key.id)] };
    if !deciding.authority.may_at(turn, "project.grant.read", &place) {
        return Err(Rejection::NotFound(ProjectGrant::NAME).into());
    }
    Ok((place.context, grant.clone()))
}

/// Returns the aggregate key of the role with a key. It is always the same one, so that the key is unique in its
/// project.
pub(crate) fn role_of(instance_id: &str, project_id: &str, key: &str) -> AggregateKey {
    AggregateKey::of::<Standard<ProjectRole>>(
        instance_id,
        &id::from_hash(&format!("{instance_id}\0{project_id}\0{key}")),
    )
}

/// Returns the roles of a project that a field of the request names by their keys, each once. All of them are looked
/// up, so that all are loaded at once.
pub(crate) fn roles(
    turn: &mut Turn<'_>,
    project: &AggregateKey,
    field: &'static str,
    keys: &[String],
) -> Result<Vec<GrantedRole>, Refusal> {
    let (mut seen, mut found, mut unknown) = (HashSet::new(), vec![], None);
    for (index, key) in keys.iter().enumerate() {
        let role = role_of(&project.instance_id, &project.id, key);
        let current = turn.get::<Standard<ProjectRole>>(&role);
        if current.resource().is_some_and(|role| role.key == *key && role.project_id == project.id) {
            found.push(GrantedRole { id: role.id, key: key.clone() });
        } else {
            unknown.get_or_insert((index, key));
        }
        seen.insert(key);
    }
    if seen.len() < keys.len() {
        return Err(Rejection::invalid(field, "must not have a role twice").into());
    }
    let Some((index, key)) = unknown else { return Ok(found) };
    let fault = FieldFault::new(format!("{field}[{index}]"), "must be the key of a role of the project");
    let fault = fault.worded("no role of the project has the key given in ".to_owned(), "");
    let error = Error::of_fields(Reason::ResourceNotFound, vec![fault]);
    Err(error.with("resource", ProjectRole::NAME).with("key", key).into())
}
