//! The links by which aggregates of each kind are referred to, from the list of all resources.

use std::{collections::HashMap, sync::LazyLock};

use crate::{
    catalog::{self, Visitor},
    log_class::LogClass,
    reference::Link,
    settings::Properties,
    standard::Resource,
};

/// Returns the links by which aggregates of a kind are referred to.
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
        // References from the log that ages out are not looked for.
        if R::CLASS == LogClass::Events {
            self.note(R::LINKS);
        }
    }

    fn settings<P: Properties>(&mut self) {}
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::resource::{
        instance::Instance,
        organization::Organization,
        target::Target,
        user::{User, contact::CONTACT},
    };

    #[test]
    fn a_kind_is_named_by_the_links_of_all_others() {
        let names = |aggregate: &str| links_to(aggregate).iter().map(|link| link.name).collect::<Vec<_>>();
        assert_eq!(names(Target::NAME), ["target"]);
        assert_eq!(names(User::NAME), ["user_key", "personal_access_token", "user_metadata", "user_grant", "user"]);
        assert_eq!(names(Organization::NAME), ["owner", "project_grant", "home"]);
        assert_eq!(names(Instance::NAME), ["owner", "signing_key"]);
        assert_eq!(names("data_key"), [""; 0]);
    }

    #[test]
    fn links_lead_to_what_there_is_and_have_names_of_their_own() {
        for (aggregate, _) in catalog::AGGREGATES.iter() {
            let links = links_to(aggregate);
            assert_eq!(links.iter().collect::<HashSet<_>>().len(), links.len(), "{aggregate}");
        }
        let is_kind = |link: &Link| catalog::AGGREGATES.iter().any(|(aggregate, _)| *aggregate == link.to);
        // A contact is no object, so nothing ends with one.
        let known = |link: &Link| is_kind(link) != (link.to == CONTACT);
        let mut all = Links(HashMap::new());
        catalog::visit(&mut all);
        assert!(all.0.values().flatten().all(known));
    }

    #[test]
    fn contexts_are_named_as_what_they_are() {
        assert_eq!((Link::ORGANIZATION.to, Link::INSTANCE.to), (Organization::NAME, Instance::NAME));
    }
}
