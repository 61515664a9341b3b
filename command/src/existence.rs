//! Whether an object exists together with everything that it depends on. What depends on a removed object is gone with
//! it at once, though a sweep may remove it later.

use std::{collections::HashMap, sync::LazyLock};

use domain::{
    catalog::{self, Visitor},
    rejection::Rejection,
    resource::{organization::Organization, user::User},
    settings::Properties,
    standard::{Resource, Standard, goes_with},
};
use eventlog::record::AggregateKey;

use crate::turn::{Current, Refusal, Turn};

/// Refuses an object that is gone with something that it depends on.
pub(crate) fn require_existing<R: Resource>(
    turn: &mut Turn<'_>,
    current: &Current<Standard<R>>,
) -> Result<(), Refusal> {
    if current.resource().is_none() || exists_with_dependencies(turn, current) {
        return Ok(());
    }
    Err(Rejection::NotFound(R::NAME).into())
}

/// Whether an object and everything that it depends on exist.
pub(crate) fn is_there<R: Resource>(turn: &mut Turn<'_>, key: &AggregateKey) -> bool {
    let current = turn.get::<Standard<R>>(key);
    exists_with_dependencies(turn, &current)
}

/// Returns the organization of a user who may log in, or `None` if the user may not.
pub(crate) fn organization_of_live(
    turn: &mut Turn<'_>,
    user: &Current<Standard<User>>,
) -> Result<Option<String>, Refusal> {
    let Some(found) = user.resource() else { return Ok(None) };
    let owner = user.owner()?;
    let organization = AggregateKey::of::<Standard<Organization>>(&*user.key.instance_id, owner.id.as_str());
    let organization = turn.get::<Standard<Organization>>(&organization);
    let is_active = organization.resource().is_some_and(|organization| organization.is_active);
    Ok((found.is_live() && is_active).then(|| owner.id.clone()))
}

/// Whether an object has not expired and everything that it depends on exists. All of it is looked at, so that all is
/// loaded at once.
fn exists_with_dependencies<R: Resource>(turn: &mut Turn<'_>, current: &Current<Standard<R>>) -> bool {
    let (Some(found), Some(owner)) = (current.resource(), current.head.owner.as_ref()) else { return false };
    let mut stands = !found.has_expired(turn.now().as_millisecond());
    for reference in goes_with(found, Standard::<R>::names(&current.state, owner)) {
        if let Some(is_there) = KINDS.get(reference.link.to) {
            let (instance_id, aggregate_type) = (current.key.instance_id.clone(), reference.link.to.to_owned());
            stands &= is_there(turn, &AggregateKey { instance_id, aggregate_type, id: reference.id });
        }
    }
    stands
}

type IsThere = fn(&mut Turn<'_>, &AggregateKey) -> bool;

static KINDS: LazyLock<HashMap<&str, IsThere>> = LazyLock::new(|| {
    let mut found = Kinds(HashMap::new());
    catalog::visit(&mut found);
    found.0
});

struct Kinds(HashMap<&'static str, IsThere>);

impl Visitor for Kinds {
    fn resource<R: Resource>(&mut self) {
        self.0.insert(R::NAME, is_there::<R>);
    }

    fn settings<P: Properties>(&mut self) {}
}

#[cfg(test)]
mod tests {
    use domain::{
        context::Owner,
        resource::{instance::Instance, organization::Organization, project::Project, project_role::ProjectRole},
        standard::Command,
    };

    use super::*;
    use crate::scene::{INSTANCE, Scene, key};

    fn role() -> ProjectRole {
        let (key, display_name) = ("admin".to_owned(), "Admin".to_owned());
        ProjectRole { project_id: "3".into(), key, display_name, group: String::new() }
    }

    /// An instance with an organization, a project of it and a role of the project.
    fn scene() -> Scene {
        let mut scene = Scene::new();
        let (instance, organization) = (Owner::instance(INSTANCE), Owner::organization("2"));
        scene.add(INSTANCE, &Owner::system(), Instance::new("a", "9")).unwrap();
        scene.add("2", &instance, Organization::new("Acme")).unwrap();
        scene.add("3", &organization, Project::new("Shop")).unwrap();
        scene.add("4", &organization, role()).unwrap();
        scene
    }

    #[test]
    fn what_stands_on_a_removed_thing_is_gone_however_far_below() {
        let is_there = |scene: &mut Scene| {
            scene.inspect(|turn| {
                let current = turn.get::<Standard<ProjectRole>>(&key::<ProjectRole>("4"));
                assert_eq!(require_existing(turn, &current).is_ok(), is_there::<ProjectRole>(turn, &current.key));
                is_there::<ProjectRole>(turn, &current.key)
            })
        };
        assert!(is_there(&mut scene()));
        let mut without_project = scene();
        without_project.change::<Project>("3", Command::Delete).unwrap();
        let mut without_organization = scene();
        without_organization.change::<Organization>("2", Command::Delete).unwrap();
        let mut without_instance = scene();
        without_instance.change::<Instance>(INSTANCE, Command::Delete).unwrap();
        for mut scene in [without_project, without_organization, without_instance] {
            assert!(!is_there(&mut scene));
        }
    }

    #[test]
    fn what_never_was_is_not_there_and_is_refused_by_whoever_decides() {
        let mut scene = scene();
        let missing = key::<ProjectRole>("5");
        assert!(!scene.inspect(|turn| is_there::<ProjectRole>(turn, &missing)));
        assert!(scene.inspect(|turn| {
            let current = turn.get::<Standard<ProjectRole>>(&missing);
            require_existing(turn, &current).is_ok()
        }));
    }
}
