//! What happens in the platform: every aggregate with its events, and what of their payloads stays inside.

use std::{collections::HashMap, sync::LazyLock};

use serde_json::Value;

use crate::{
    aggregate::Aggregate,
    reference::Link,
    resource::{
        data_key::DataKey, domain::Domain, execution::Execution, instance::Instance, membership::Membership,
        organization::Organization, project::Project, signing_key::SigningKey, system::System, target::Target,
        user::User,
    },
    secret,
    setting::features::Features,
    settings::{Properties, Settings},
    standard::{Resource, Standard},
};

/// Something is made of each resource and of each settings service.
pub trait Visitor {
    /// Makes it of a resource.
    fn resource<R: Resource>(&mut self);

    /// Makes it of a settings service.
    fn settings<P: Properties>(&mut self);
}

/// Every resource and every settings service, a line each. From here follow the names of events, tables and search indexes,
/// and the permissions of roles.
pub fn visit(visitor: &mut impl Visitor) {
    visitor.resource::<Instance>();
    visitor.resource::<Domain>();
    visitor.resource::<Organization>();
    visitor.resource::<Project>();
    visitor.resource::<User>();
    visitor.resource::<Membership>();
    visitor.resource::<SigningKey>();
    visitor.resource::<DataKey>();
    visitor.settings::<Features>();
    visitor.resource::<Target>();
    visitor.resource::<Execution>();
    visitor.resource::<System>();
}

/// Every aggregate: its name, and the names of its events.
pub static AGGREGATES: LazyLock<Vec<(&str, &[&str])>> = LazyLock::new(|| {
    let mut found = Aggregates(vec![]);
    visit(&mut found);
    found.0.sort_unstable();
    found.0
});

struct Aggregates(Vec<(&'static str, &'static [&'static str])>);

impl Visitor for Aggregates {
    fn resource<R: Resource>(&mut self) {
        self.0.push((R::NAME, Standard::<R>::EVENTS));
    }

    fn settings<P: Properties>(&mut self) {
        self.0.push((P::NAME, Settings::<P>::EVENTS));
    }
}

/// By which links the aggregates of a kind are named.
pub fn links_to(aggregate: &str) -> &'static [Link] {
    static LINKS: LazyLock<HashMap<&str, Vec<Link>>> = LazyLock::new(|| {
        let mut found = Links(HashMap::new());
        found.note(&[Link::ORGANIZATION, Link::INSTANCE]);
        visit(&mut found);
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

/// Takes secrets out of a payload, however deep they are: they leave the platform for nobody.
pub fn without_secrets(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, _| !secret::MEMBERS.contains(&name.as_str()));
            members.values_mut().for_each(without_secrets);
        }
        Value::Array(items) => items.iter_mut().for_each(without_secrets),
        _ => {}
    }
}

/// The types of all events, for example `target.added`.
pub fn event_types() -> impl Iterator<Item = String> {
    AGGREGATES.iter().flat_map(|(aggregate, events)| events.iter().map(move |event| format!("{aggregate}.{event}")))
}

/// The groups that an event is in, the longest first: what stands before each of its dots.
pub fn groups(event_type: &str) -> impl Iterator<Item = &str> {
    event_type.rmatch_indices('.').map(|(at, _)| &event_type[..at])
}

/// Whether there is an event of this type.
pub fn is_event_type(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(aggregate, event)| {
        AGGREGATES.iter().any(|(name, events)| *name == aggregate && events.contains(&event))
    })
}

/// Whether there are events in a group of this name.
pub fn is_group(name: &str) -> bool {
    event_types().any(|event_type| groups(&event_type).any(|group| group == name))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn an_event_is_in_the_groups_before_its_dots() {
        assert_eq!(groups("user.schema.added").collect::<Vec<_>>(), ["user.schema", "user"]);
        assert!(is_event_type("target.added") && !is_event_type("target.exploded") && !is_event_type("target"));
        assert!(is_group("feature_settings") && !is_group("target.added") && !is_group("tar"));
    }

    #[test]
    fn secrets_are_taken_out_however_deep_they_are() {
        let mut payload = serde_json::json!({
            "name": "a", "secret": "b", "keys": [{ "sealed": "c", "until": 1 }], "of": { "wrapped": "d", "is": true },
        });
        without_secrets(&mut payload);
        assert_eq!(payload, serde_json::json!({ "name": "a", "keys": [{ "until": 1 }], "of": { "is": true } }));
    }

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
        let mut all = Links(HashMap::new());
        visit(&mut all);
        for (to, links) in all.0.iter().chain([(&Link::ORGANIZATION.to, &vec![Link::ORGANIZATION, Link::INSTANCE])]) {
            assert!(links.iter().all(|link| AGGREGATES.iter().any(|(aggregate, _)| *aggregate == link.to)), "{to}");
        }
        for (aggregate, _) in AGGREGATES.iter() {
            let links = links_to(aggregate);
            assert_eq!(links.iter().collect::<HashSet<_>>().len(), links.len(), "{aggregate}");
        }
    }
}
