//! The executions of one instance, arranged by trigger. Exactly one fires: the best match.

use std::collections::HashMap;

use domain::{
    catalog,
    resource::execution::{
        Calls, Condition, Events, Execution,
        graph::{self, Graph},
    },
};

use super::Chain;

/// The executions of an instance that have targets.
#[derive(Debug, Default)]
pub struct Matcher {
    /// Executions on requests, by method and service.
    pub(super) request: Level,
    /// Executions on responses, by method and service.
    pub(super) response: Level,
    /// Executions on functions, by name.
    pub(super) functions: HashMap<String, Chain>,
    /// Executions on events, by type and group.
    pub(super) events: Level,
}

/// Executions from the narrowest condition to the widest.
#[derive(Debug, Default)]
pub(super) struct Level {
    exact: HashMap<String, Chain>,
    groups: HashMap<String, Chain>,
    all: Option<Chain>,
}

impl Level {
    /// Returns the best match: the name itself, then the first of its groups, then all.
    pub(super) fn best<'a>(&self, name: &str, mut groups: impl Iterator<Item = &'a str>) -> Option<Chain> {
        let exact = self.exact.get(name);
        exact.or_else(|| groups.find_map(|group| self.groups.get(group))).or(self.all.as_ref()).cloned()
    }

    fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.groups.is_empty() && self.all.is_none()
    }

    fn add_calls(&mut self, calls: &Calls, chain: Chain) {
        match calls {
            Calls::Method(name) => drop(self.exact.insert(name.clone(), chain)),
            Calls::Service(name) => drop(self.groups.insert(name.clone(), chain)),
            Calls::All => self.all = Some(chain),
        }
    }

    fn add_events(&mut self, events: &Events, chain: Chain) {
        match events {
            Events::Event(name) => drop(self.exact.insert(name.clone(), chain)),
            Events::Group(name) => drop(self.groups.insert(name.clone(), chain)),
            Events::All => self.all = Some(chain),
        }
    }
}

impl Matcher {
    /// Arranges executions; `chain` finds the targets with these ids. An execution without targets matches nothing.
    pub(super) fn of(executions: &HashMap<String, Execution>, chain: impl Fn(&[&str]) -> Chain) -> Self {
        let graph: Graph<'_> = executions.iter().map(|(id, execution)| (id.as_str(), execution)).collect();
        let mut matcher = Self::default();
        for execution in executions.values() {
            let chain = chain(&graph::targets(&graph, execution));
            if chain.is_empty() {
                continue;
            }
            match &execution.condition {
                Condition::Request(calls) => matcher.request.add_calls(calls, chain),
                Condition::Response(calls) => matcher.response.add_calls(calls, chain),
                Condition::Function(name) => drop(matcher.functions.insert(name.clone(), chain)),
                Condition::Event(events) => matcher.events.add_events(events, chain),
            }
        }
        matcher
    }

    /// Returns what an event of this type triggers.
    pub fn event(&self, event_type: &str) -> Option<Chain> {
        self.events.best(event_type, catalog::groups(event_type))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.request.is_empty() && self.response.is_empty() && self.functions.is_empty() && self.events.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use domain::resource::target::{Mode, Target, TargetKind};
    use tokio::sync::Semaphore;

    use super::*;
    use crate::executions::CallableTarget;

    fn called(id: &str) -> Arc<CallableTarget> {
        let target = Target {
            name: id.to_owned(),
            kind: TargetKind::RestWebhook,
            url: "https://example.com".to_owned(),
            timeout_ms: 1000,
            mode: Mode::Continue,
            signing_keys: vec![],
        };
        let (id, seats) = (id.to_owned(), Arc::new(Semaphore::new(1)));
        Arc::new(CallableTarget { instance_id: "1".to_owned(), id, target, seats, share: Arc::default() })
    }

    fn matcher(executions: Vec<(&str, Condition, &[&str])>) -> Matcher {
        let executions = executions.into_iter().map(|(id, condition, targets)| {
            let targets = targets.iter().map(|&id| id.to_owned()).collect();
            (id.to_owned(), Execution { condition, targets, includes: vec![] })
        });
        Matcher::of(&executions.collect(), |ids| ids.iter().map(|id| called(id)).collect())
    }

    fn first(chain: Option<Chain>) -> Option<String> {
        chain.map(|chain| chain[0].id.clone())
    }

    #[test]
    fn the_narrowest_condition_that_calls_somebody_fires() {
        let calls = |calls: Calls| Condition::Request(calls);
        let matcher = matcher(vec![
            ("1", calls(Calls::Method("/a.S/M".into())), &["method"]),
            ("2", calls(Calls::Method("/a.S/N".into())), &[]),
            ("3", calls(Calls::Service("a.S".into())), &["service"]),
            ("4", calls(Calls::All), &["all"]),
            ("5", Condition::Response(Calls::All), &["response"]),
        ]);
        let best = |method: &str, service: &str| first(matcher.request.best(method, std::iter::once(service)));
        assert_eq!(best("/a.S/M", "a.S").as_deref(), Some("method"));
        assert_eq!(best("/a.S/N", "a.S").as_deref(), Some("service"));
        assert_eq!(best("/b.S/M", "b.S").as_deref(), Some("all"));
        assert_eq!(first(matcher.response.best("/b.S/M", std::iter::once("b.S"))).as_deref(), Some("response"));
    }

    #[test]
    fn the_longest_group_of_an_event_fires() {
        let on = |events: Events| Condition::Event(events);
        let with_all = matcher(vec![
            ("1", on(Events::Group("user".into())), &["short"]),
            ("2", on(Events::Group("user.schema".into())), &["long"]),
            ("3", on(Events::Event("user.schema.added".into())), &["exact"]),
            ("4", on(Events::All), &["all"]),
        ]);
        for (event, expected) in [
            ("user.schema.added", "exact"),
            ("user.schema.changed", "long"),
            ("user.added", "short"),
            ("users.added", "all"),
        ] {
            assert_eq!(first(with_all.event(event)).as_deref(), Some(expected), "{event}");
        }
        let without = matcher(vec![("1", on(Events::Group("user".into())), &["x"])]);
        assert!(without.event("target.added").is_none() && !without.is_empty() && matcher(vec![]).is_empty());
    }
}
