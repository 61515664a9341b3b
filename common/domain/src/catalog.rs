//! The catalog of what happens in the platform: every aggregate with its events, and the members of payloads that stay
//! inside.

#[cfg(feature = "kinds")]
mod samples;

use std::sync::LazyLock;

use serde_json::Value;

use crate::{
    aggregate::Aggregate,
    disclosure::Disclosure,
    failed_event::FailedEvent,
    log_class::{LogClass, OfEach},
    refresh_family::RefreshFamily,
    resource::{
        app::App, data_key::DataKey, domain::Domain, execution::Execution, idp::Idp, instance::Instance, key::Key,
        membership::Membership, organization::Organization, personal_access_token::PersonalAccessToken,
        project::Project, project_grant::ProjectGrant, project_role::ProjectRole, session::Session,
        signing_key::SigningKey, system::System, target::Target, user::User, user_grant::UserGrant,
        user_metadata::UserMetadata,
    },
    reusable::{Reusable, StatePolicy},
    secret,
    setting::{
        branding::Branding, domains::Domains, features::Features, help::Help, languages::Languages, lockout::Lockout,
        login::Login, oidc::Oidc, password::Password, texts::Texts,
    },
    settings::{Properties, Settings},
    standard::{Resource, Standard},
    token_revocation::TokenRevocation,
};

/// Visits every resource and every settings service.
pub trait Visitor {
    /// Visits a resource.
    fn resource<R: Resource>(&mut self);

    /// Visits a reusable resource, and the policies on it.
    fn reusable<R: Reusable>(&mut self) {
        self.resource::<R>();
        self.resource::<StatePolicy<R>>();
    }

    /// Visits a settings service.
    fn settings<P: Properties>(&mut self);

    /// Visits an aggregate that is neither, but has events.
    fn other<A: Aggregate>(&mut self) {}
}

/// Visits every resource and every settings service, a line each. The names of events, tables and search indexes, and
/// the permissions of roles follow from this list.
pub fn visit(visitor: &mut impl Visitor) {
    visitor.resource::<Instance>();
    visitor.resource::<Domain>();
    visitor.resource::<Organization>();
    visitor.resource::<Project>();
    visitor.resource::<App>();
    visitor.resource::<Key<App>>();
    visitor.resource::<ProjectRole>();
    visitor.resource::<ProjectGrant>();
    visitor.resource::<User>();
    visitor.resource::<Key<User>>();
    visitor.resource::<PersonalAccessToken>();
    visitor.resource::<UserMetadata>();
    visitor.resource::<UserGrant>();
    visitor.resource::<Membership>();
    visitor.resource::<Session>();
    visitor.resource::<SigningKey>();
    visitor.resource::<DataKey>();
    visitor.settings::<Features>();
    visitor.settings::<Languages>();
    visitor.settings::<Login>();
    visitor.settings::<Branding>();
    visitor.settings::<Texts>();
    visitor.settings::<Password>();
    visitor.settings::<Lockout>();
    visitor.settings::<Help>();
    visitor.settings::<Domains>();
    visitor.settings::<Oidc>();
    visitor.resource::<Target>();
    visitor.resource::<Execution>();
    visitor.reusable::<Idp>();
    visitor.resource::<System>();
    visitor.other::<FailedEvent>();
    visitor.other::<Disclosure>();
    visitor.other::<TokenRevocation>();
    visitor.other::<RefreshFamily>();
    #[cfg(feature = "kinds")]
    samples::visit(visitor);
}

/// Every aggregate of the log that is retained for ever: its name, and the names of its events. Executions and the
/// search of events cover these.
pub static AGGREGATES: LazyLock<Vec<(&str, &[&str])>> = LazyLock::new(|| {
    let mut found = Aggregates::default();
    visit(&mut found);
    found.0.events.sort_unstable();
    found.0.events
});

/// The names of the aggregates of the log that ages out.
pub static OF_SESSIONS: LazyLock<Vec<&str>> = LazyLock::new(|| {
    let mut found = Aggregates::default();
    visit(&mut found);
    found.0.sessions.into_iter().map(|(name, _)| name).collect()
});

#[derive(Default)]
struct Aggregates(OfEach<Vec<(&'static str, &'static [&'static str])>>);

impl Visitor for Aggregates {
    fn resource<R: Resource>(&mut self) {
        self.other::<Standard<R>>();
    }

    fn settings<P: Properties>(&mut self) {
        self.other::<Settings<P>>();
    }

    fn other<A: Aggregate>(&mut self) {
        self.0[A::CLASS].push((A::NAME, A::EVENTS));
    }
}

/// Returns the log that the events of an aggregate type are in.
pub fn class_of(aggregate_type: &str) -> LogClass {
    if OF_SESSIONS.contains(&aggregate_type) { LogClass::Sessions } else { LogClass::Events }
}

/// Removes secrets from a payload at any depth: they never leave the platform.
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

/// Returns the types of all events, for example `target.added`.
pub fn event_types() -> impl Iterator<Item = String> {
    AGGREGATES.iter().flat_map(|(aggregate, events)| events.iter().map(move |event| format!("{aggregate}.{event}")))
}

/// Returns the groups that an event is in, the longest first: the prefix before each of its dots.
pub fn groups(event_type: &str) -> impl Iterator<Item = &str> {
    event_type.rmatch_indices('.').map(|(at, _)| &event_type[..at])
}

/// Whether this is the type of an event.
pub fn is_event_type(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(aggregate, event)| {
        AGGREGATES.iter().any(|(name, events)| *name == aggregate && events.contains(&event))
    })
}

/// Whether this is the name of a group of events.
pub fn is_group(name: &str) -> bool {
    event_types().any(|event_type| groups(&event_type).any(|group| group == name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_in_the_groups_before_its_dots() {
        assert_eq!(groups("user.schema.added").collect::<Vec<_>>(), ["user.schema", "user"]);
        assert!(is_event_type("target.added") && !is_event_type("target.exploded") && !is_event_type("target"));
        assert!(is_event_type("failed_event.discarded") && !is_event_type("target.discarded"));
        assert!(is_group("feature_settings") && !is_group("target.added") && !is_group("tar"));
    }

    #[test]
    fn each_aggregate_is_in_one_log() {
        assert!(AGGREGATES.iter().all(|(name, _)| class_of(name) == LogClass::Events));
        assert!(OF_SESSIONS.iter().all(|name| class_of(name) == LogClass::Sessions));
        assert_eq!(class_of(TokenRevocation::NAME), TokenRevocation::CLASS);
    }

    #[test]
    fn secrets_are_taken_out_however_deep_they_are() {
        let mut payload = serde_json::json!({
            "name": "a", "secret": "b", "keys": [{ "sealed": "c", "until": 1 }], "of": { "wrapped": "d", "is": true },
        });
        without_secrets(&mut payload);
        assert_eq!(payload, serde_json::json!({ "name": "a", "keys": [{ "until": 1 }], "of": { "is": true } }));
    }
}
