//! References: which aggregates name which others, and as what.
//!
//! They follow from the state, as claims do. What a command takes and releases is the difference between two states.

use std::{collections::HashMap, sync::LazyLock};

use crate::{
    catalog::{self, Visitor},
    context::{Owner, OwnerType},
    resource::{instance::Instance, organization::Organization},
    settings::Properties,
    standard::Resource,
};

/// A way in which objects of one kind name those of another, such as an execution its targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Link {
    /// As what they are named. No two links to the same kind have one name.
    pub name: &'static str,
    /// What is named: a [`Resource::NAME`].
    pub to: &'static str,
}

impl Link {
    /// That of an object to the organization that it belongs to.
    pub const ORGANIZATION: Self = Self { name: "owner", to: Organization::NAME };
    /// That of an object to the instance that it belongs to.
    pub const INSTANCE: Self = Self { name: "owner", to: Instance::NAME };
}

/// That an aggregate names another one of its instance.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reference {
    /// As what.
    pub link: Link,
    /// The id of what is named.
    pub id: String,
}

impl Reference {
    /// A reference by this link.
    pub fn new(link: Link, id: impl Into<String>) -> Self {
        Self { link, id: id.into() }
    }

    /// That to the context that an object belongs to; nothing names the system.
    pub fn to_owner(owner: &Owner) -> Option<Self> {
        let link = match owner.kind {
            OwnerType::System => return None,
            OwnerType::Instance => Link::INSTANCE,
            OwnerType::Organization => Link::ORGANIZATION,
        };
        Some(Self::new(link, &owner.id))
    }
}

/// By which links the aggregates of a kind are named.
pub fn links_to(aggregate: &str) -> &'static [Link] {
    static LINKS: LazyLock<HashMap<&str, Vec<Link>>> = LazyLock::new(|| {
        let mut found = Links(HashMap::new());
        found.note(&[Link::ORGANIZATION, Link::INSTANCE]);
        catalog::visit(&mut found);
        found.0
    });
    LINKS.get(aggregate).map_or(&[], Vec::as_slice)
}

struct Links(HashMap<&'static str, Vec<Link>>);

impl Links {
    fn note(&mut self, links: &[Link]) {
        for link in links {
            self.0.entry(link.to).or_default().push(*link);
        }
    }
}

impl Visitor for Links {
    fn resource<R: Resource>(&mut self) {
        self.note(R::LINKS);
    }

    fn settings<P: Properties>(&mut self) {}
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::resource::{target::Target, user::User};

    #[test]
    fn a_kind_is_named_by_the_links_of_all_others() {
        let names = |aggregate: &str| links_to(aggregate).iter().map(|link| link.name).collect::<Vec<_>>();
        assert_eq!(names(Target::NAME), ["target"]);
        assert_eq!(names(User::NAME), ["user"]);
        assert_eq!(names(Organization::NAME), ["owner", "home"]);
        assert_eq!(names(Instance::NAME), ["owner"]);
        assert_eq!(names("data_key"), [""; 0]);
    }

    #[test]
    fn links_lead_to_what_there_is_and_have_names_of_their_own() {
        for (aggregate, _) in catalog::AGGREGATES.iter() {
            let links = links_to(aggregate);
            assert_eq!(links.iter().collect::<HashSet<_>>().len(), links.len(), "{aggregate}");
        }
        let known = |link: &Link| catalog::AGGREGATES.iter().any(|(aggregate, _)| *aggregate == link.to);
        let mut all = Links(HashMap::new());
        catalog::visit(&mut all);
        assert!(all.0.values().flatten().all(known));
    }

    #[test]
    fn what_belongs_to_a_context_names_it_unless_that_is_the_system() {
        assert_eq!(Reference::to_owner(&Owner::system()), None);
        assert_eq!(Reference::to_owner(&Owner::instance("1")), Some(Reference::new(Link::INSTANCE, "1")));
        assert_eq!(Reference::to_owner(&Owner::organization("2")), Some(Reference::new(Link::ORGANIZATION, "2")));
    }
}
