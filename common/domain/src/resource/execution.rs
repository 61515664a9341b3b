//! Executions: the targets that are called when a condition is met.

pub mod graph;

use std::fmt;

use serde::{Deserialize, Serialize};

use super::target::Target;
use crate::{
    column::Column,
    context::OwnerType,
    permission::Permissions,
    projection::Name,
    reference::{Link, Reference},
    standard::{Resource, Unpatchable},
};

/// The targets that are called when a condition is met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Execution {
    /// The condition.
    pub condition: Condition,
    /// The ids of the targets, in the order in which they are called.
    pub targets: Vec<String>,
    /// The ids of executions whose targets are called after these.
    pub includes: Vec<String>,
}

/// The condition on which an execution triggers.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// After a request is received.
    Request(Calls),
    /// Before a response is returned.
    Response(Calls),
    /// When the function of this name is used.
    Function(String),
    /// After an event is created.
    Event(Events),
}

/// The calls that trigger an execution.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Calls {
    /// Calls of a gRPC method, by its path.
    Method(String),
    /// Calls of a gRPC service, by its full name.
    Service(String),
    /// All calls.
    All,
}

/// The events that trigger an execution.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Events {
    /// Events of a type.
    Event(String),
    /// Events of a group.
    Group(String),
    /// All events.
    All,
}

/// The functions that call targets, by the names that conditions use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Function {
    /// Before the claims of a user are returned.
    PreUserinfo,
    /// Before an access token is signed.
    PreAccessToken,
}

impl Function {
    /// All functions.
    pub const ALL: [Self; 2] = [Self::PreAccessToken, Self::PreUserinfo];

    /// Returns its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PreUserinfo => "preuserinfo",
            Self::PreAccessToken => "preaccesstoken",
        }
    }
}

impl Condition {
    /// Returns the kind of the condition, as searches and columns name it.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Request(_) => "request",
            Self::Response(_) => "response",
            Self::Function(_) => "function",
            Self::Event(_) => "event",
        }
    }
}

/// The condition as a text that is unique to it: ids are derived from it.
impl fmt::Display for Condition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind();
        match self {
            Self::Request(calls) | Self::Response(calls) => match calls {
                Calls::Method(path) => write!(formatter, "{kind}/method/{path}"),
                Calls::Service(name) => write!(formatter, "{kind}/service/{name}"),
                Calls::All => write!(formatter, "{kind}/all"),
            },
            Self::Function(name) => write!(formatter, "{kind}/{name}"),
            Self::Event(events) => match events {
                Events::Event(name) => write!(formatter, "{kind}/event/{name}"),
                Events::Group(name) => write!(formatter, "{kind}/group/{name}"),
                Events::All => write!(formatter, "{kind}/all"),
            },
        }
    }
}

impl Execution {
    /// Whether a request waits for its targets.
    pub const fn is_waited_for(&self) -> bool {
        !matches!(self.condition, Condition::Event(_))
    }
}

/// The link from an execution to the targets that it calls.
pub const TARGET: Link = Link { name: "target", to: Target::NAME };
/// The link from an execution to others whose targets it calls, too.
pub const INCLUDE: Link = Link { name: "include", to: Execution::NAME };

/// The columns of the read model.
pub mod column {
    use super::Execution;
    use crate::{column::Column, resource::spaced};

    /// The kind of its condition.
    pub const EXECUTION_TYPE: Column<Execution> =
        Column::text("execution_type", |execution: &Execution| execution.condition.kind().to_owned()).filterable();
    /// The ids of its targets, each between spaces.
    pub const TARGETS: Column<Execution> =
        Column::text("targets", |execution: &Execution| spaced(&execution.targets)).filterable();
    /// The ids of its includes, each between spaces.
    pub const INCLUDES: Column<Execution> =
        Column::text("includes", |execution: &Execution| spaced(&execution.includes)).filterable();
}

impl Resource for Execution {
    const NAME: &'static str = "execution";
    const COLUMNS: &'static [Column<Self>] = &[column::EXECUTION_TYPE, column::TARGETS, column::INCLUDES];
    const ROWS: Option<Name> = Some(Name::first("executions"));
    const LIMIT: Option<u64> = Some(10_000);
    const INDEX: Option<Name> = Some(Name::first("executions_index"));
    const PERMISSIONS: &'static [Permissions] = &[
        Permissions::new("action.execution", &["write", "delete"]).at(&[OwnerType::Instance]),
        Permissions::new("execution", &["read"]).at(&[OwnerType::Instance]),
    ];
    const LINKS: &'static [Link] = &[TARGET, INCLUDE];
    type Patch = Unpatchable;

    fn patched(self, patch: Unpatchable) -> Self {
        match patch {}
    }

    fn references(&self) -> Vec<Reference> {
        let targets = self.targets.iter().map(|id| Reference::new(TARGET, id));
        targets.chain(self.includes.iter().map(|id| Reference::new(INCLUDE, id))).collect()
    }

    fn unlinked(mut self, gone: &Reference) -> Option<Self> {
        let names = if gone.link == TARGET { &mut self.targets } else { &mut self.includes };
        names.retain(|id| *id != gone.id);
        [TARGET, INCLUDE].contains(&gone.link).then_some(self)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        aggregate::Aggregate,
        context::Owner,
        standard::{Command, Event, Standard},
        testing::{assert_columns, given},
    };

    fn execution(targets: &[&str]) -> Execution {
        let targets = targets.iter().map(|&id| id.to_owned()).collect();
        Execution { condition: Condition::Event(Events::All), targets, includes: vec![] }
    }

    #[test]
    fn a_put_creates_then_replaces_and_the_same_again_is_no_event() {
        let (first, second) = (execution(&["1"]), execution(&["2", "1"]));
        given::<Standard<Execution>>([]).when(Command::Put(first.clone())).then([Event::Added(first.clone().into())]);
        let added = || [Event::Added(first.clone().into())];
        given::<Standard<Execution>>(added()).when(Command::Put(first.clone())).then([]);
        let changed = Event::Changed { to: second.clone().into(), fields: vec!["targets".into()] };
        given::<Standard<Execution>>(added()).when(Command::Put(second)).then([changed]);
    }

    #[test]
    fn what_is_gone_is_taken_out_once() {
        let added = [Event::Added(execution(&["1", "2", "1"]).into())];
        let unlink = Command::Unlink(Reference::new(TARGET, "1"));
        let changed = Event::Changed { to: execution(&["2"]).into(), fields: vec!["targets".into()] };
        given::<Standard<Execution>>(added).when(unlink.clone()).then([changed]);
        given::<Standard<Execution>>([Event::Added(execution(&["2"]).into())]).when(unlink.clone()).then([]);
        given::<Standard<Execution>>([]).when(unlink).then([]);
    }

    #[test]
    fn it_goes_with_its_instance() {
        let unlink = Command::Unlink(Reference::new(Link::INSTANCE, "9"));
        given::<Standard<Execution>>([Event::Added(execution(&["1"]).into())]).when(unlink).then([Event::Removed]);
    }

    #[test]
    fn it_names_each_target_and_include_and_what_it_belongs_to_once() {
        let execution = Execution { includes: vec!["1".into()], ..execution(&["1", "2", "1"]) };
        let expected = [(Link::INSTANCE, "9"), (TARGET, "1"), (TARGET, "2"), (INCLUDE, "1")];
        let expected = expected.map(|(link, id)| Reference::new(link, id));
        assert_eq!(Standard::<Execution>::references(&Some(execution.into()), &Owner::instance("9")), expected);
        assert_eq!(Standard::<Execution>::references(&None, &Owner::instance("9")), []);
    }

    #[test]
    fn no_two_conditions_have_one_text() {
        let calls = |calls: fn(String) -> Calls, name: &str| Condition::Request(calls(name.to_owned()));
        let texts = [
            calls(Calls::Method, "a"),
            calls(Calls::Service, "a"),
            calls(|_| Calls::All, ""),
            Condition::Response(Calls::All),
            Condition::Function("all".into()),
            Condition::Event(Events::All),
            Condition::Event(Events::Event("all".into())),
            Condition::Event(Events::Group("all".into())),
        ]
        .map(|condition| condition.to_string());
        assert_eq!(texts.iter().collect::<std::collections::HashSet<_>>().len(), texts.len(), "{texts:?}");
    }

    #[test]
    fn columns_hold_whole_ids_with_spaces_around_them() {
        let execution = Execution { includes: vec!["7".into()], ..execution(&["1", "23"]) };
        let columns = json!({ "execution_type": "event", "targets": " 1 23 ", "includes": " 7 " });
        assert_columns(&execution, &columns);
    }

    #[test]
    fn what_is_gone_is_taken_out_of_its_own_list_alone() {
        let ids = || vec!["1".to_owned(), "2".to_owned()];
        let both = Execution { targets: ids(), includes: ids(), ..execution(&[]) };
        let without_target = Execution { targets: vec!["2".into()], ..both.clone() };
        let without_include = Execution { includes: vec!["1".into()], ..both.clone() };
        assert_eq!(both.clone().unlinked(&Reference::new(TARGET, "1")), Some(without_target));
        assert_eq!(both.unlinked(&Reference::new(INCLUDE, "2")), Some(without_include));
    }

    #[test]
    fn nobody_waits_for_the_targets_of_events() {
        for (condition, is_waited_for) in [
            (Condition::Request(Calls::All), true),
            (Condition::Response(Calls::All), true),
            (Condition::Function("preuserinfo".into()), true),
            (Condition::Event(Events::All), false),
        ] {
            assert_eq!(Execution { condition, ..execution(&["1"]) }.is_waited_for(), is_waited_for);
        }
    }

    #[test]
    fn functions_have_the_names_by_which_conditions_know_them() {
        assert_eq!(Function::ALL.map(Function::name), ["preaccesstoken", "preuserinfo"]);
    }

    #[test]
    fn a_condition_has_a_kind() {
        let kinds = [
            Condition::Request(Calls::All),
            Condition::Response(Calls::All),
            Condition::Function("a".into()),
            Condition::Event(Events::All),
        ]
        .map(|condition| condition.kind());
        assert_eq!(kinds, ["request", "response", "function", "event"]);
    }
}
