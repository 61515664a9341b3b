//! Converts conditions of executions between the API and the core, and checks the names in them.

use base::id;
use domain::{
    catalog,
    resource::execution::{Calls, Condition, Events, Function},
};
use proto::{
    Violation,
    action::{
        self, EventExecution, RequestExecution, ResponseExecution, condition::ConditionType, event_execution,
        request_execution, response_execution,
    },
    operation::Facts,
};

/// The error for a condition with an unknown name.
#[derive(Debug, thiserror::Error)]
#[error("no {kind} has the name given in {path}")]
pub struct Unknown {
    /// The kind of the unknown name.
    pub kind: &'static str,
    /// The path of the field with the name.
    pub path: String,
}

/// Converts a condition of the API; validation has refused an empty one.
///
/// # Errors
/// If it is empty nevertheless.
pub fn read(condition: action::Condition, path: &str) -> Result<Condition, Violation> {
    let read = match condition.condition_type {
        Some(ConditionType::Request(RequestExecution { condition: Some(calls) })) => Condition::Request(match calls {
            request_execution::Condition::Method(name) => Calls::Method(name),
            request_execution::Condition::Service(name) => Calls::Service(name),
            request_execution::Condition::All(_) => Calls::All,
        }),
        Some(ConditionType::Response(ResponseExecution { condition: Some(calls) })) => {
            Condition::Response(match calls {
                response_execution::Condition::Method(name) => Calls::Method(name),
                response_execution::Condition::Service(name) => Calls::Service(name),
                response_execution::Condition::All(_) => Calls::All,
            })
        }
        Some(ConditionType::Function(name)) => Condition::Function(name),
        Some(ConditionType::Event(EventExecution { condition: Some(events) })) => Condition::Event(match events {
            event_execution::Condition::Event(name) => Events::Event(name),
            event_execution::Condition::Group(name) => Events::Group(name),
            event_execution::Condition::All(_) => Events::All,
        }),
        _ => return Err(Violation::new(path, "is required")),
    };
    Ok(read)
}

/// Converts a condition to the API.
pub fn write(condition: &Condition) -> action::Condition {
    let condition_type = match condition.clone() {
        Condition::Request(calls) => {
            let condition = Some(match calls {
                Calls::Method(name) => request_execution::Condition::Method(name),
                Calls::Service(name) => request_execution::Condition::Service(name),
                Calls::All => request_execution::Condition::All(true),
            });
            ConditionType::Request(RequestExecution { condition })
        }
        Condition::Response(calls) => {
            let condition = Some(match calls {
                Calls::Method(name) => response_execution::Condition::Method(name),
                Calls::Service(name) => response_execution::Condition::Service(name),
                Calls::All => response_execution::Condition::All(true),
            });
            ConditionType::Response(ResponseExecution { condition })
        }
        Condition::Function(name) => ConditionType::Function(name),
        Condition::Event(events) => {
            let condition = Some(match events {
                Events::Event(name) => event_execution::Condition::Event(name),
                Events::Group(name) => event_execution::Condition::Group(name),
                Events::All => event_execution::Condition::All(true),
            });
            ConditionType::Event(EventExecution { condition })
        }
    };
    action::Condition { condition_type: Some(condition_type) }
}

/// Returns the names of the functions that a condition can name.
pub fn functions() -> Vec<String> {
    Function::ALL.iter().map(|function| function.name().to_owned()).collect()
}

/// Returns the paths of the methods that a condition can name, sorted.
pub fn methods(operations: &[&'static Facts]) -> Vec<String> {
    distinct(operations, |facts| facts.grpc)
}

/// Returns the names of the services that a condition can name, sorted.
pub fn services(operations: &[&'static Facts]) -> Vec<String> {
    distinct(operations, |facts| facts.service)
}

fn distinct(operations: &[&'static Facts], part: fn(&Facts) -> &'static str) -> Vec<String> {
    let mut names: Vec<String> = operations.iter().map(|facts| part(facts).to_owned()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Refuses a condition with an unknown name.
///
/// # Errors
/// If the name is unknown.
pub fn is_known(condition: &Condition, operations: &[&'static Facts]) -> Result<(), Unknown> {
    let calls = |calls: &Calls| match calls {
        Calls::Method(name) => operations.iter().all(|facts| facts.grpc != name).then_some("method"),
        Calls::Service(name) => operations.iter().all(|facts| facts.service != name).then_some("service"),
        Calls::All => None,
    };
    let unknown = match condition {
        Condition::Request(of) | Condition::Response(of) => calls(of),
        Condition::Function(name) => Function::ALL.iter().all(|function| function.name() != name).then_some("function"),
        Condition::Event(Events::Event(name)) => (!catalog::is_event_type(name)).then_some("event"),
        Condition::Event(Events::Group(name)) => (!catalog::is_group(name)).then_some("group"),
        Condition::Event(Events::All) => None,
    };
    let Some(kind) = unknown else { return Ok(()) };
    let path = match condition {
        Condition::Function(_) => "execution.condition.function".to_owned(),
        _ => format!("execution.condition.{}.{kind}", condition.kind()),
    };
    Err(Unknown { kind, path })
}

/// Returns the id of the execution of a condition in an instance: a number of 63 bits as well, always the same.
pub fn id(instance_id: &str, condition: &Condition) -> String {
    id::from_hash(&format!("{instance_id}\0{condition}"))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proto::operation::OPERATIONS;

    use super::*;

    /// Returns every condition that can be named.
    fn all(operations: &[&'static Facts]) -> impl Iterator<Item = Condition> {
        let methods = methods(operations).into_iter().map(Calls::Method);
        let services = services(operations).into_iter().map(Calls::Service);
        let calls: Vec<Calls> = methods.chain(services).chain([Calls::All]).collect();
        let requests = calls.clone().into_iter().map(Condition::Request);
        let responses = calls.into_iter().map(Condition::Response);
        let functions = functions().into_iter().map(Condition::Function);
        let events = catalog::event_types().flat_map(|name| {
            let groups: Vec<_> = catalog::groups(&name).map(|group| Events::Group(group.to_owned())).collect();
            groups.into_iter().chain([Events::Event(name)])
        });
        let events = events.chain([Events::All]).map(Condition::Event);
        requests.chain(responses).chain(functions).chain(events)
    }

    #[test]
    fn what_can_be_named_is_known_and_comes_back_as_it_was() {
        let conditions: HashSet<_> = all(OPERATIONS).collect();
        assert!(conditions.len() > 2 * OPERATIONS.len());
        for condition in conditions {
            is_known(&condition, OPERATIONS).unwrap();
            assert_eq!(read(write(&condition), "condition").unwrap(), condition);
        }
    }

    #[test]
    fn what_there_is_not_is_refused_by_its_path() {
        let method = || Calls::Method("/platform.Nothing/Here".to_owned());
        for (condition, path) in [
            (Condition::Request(method()), "execution.condition.request.method"),
            (Condition::Response(Calls::Service("x".into())), "execution.condition.response.service"),
            (Condition::Function("presleep".into()), "execution.condition.function"),
            (Condition::Event(Events::Event("target".into())), "execution.condition.event.event"),
            (Condition::Event(Events::Group("target.added".into())), "execution.condition.event.group"),
        ] {
            let error = is_known(&condition, OPERATIONS).unwrap_err();
            assert!(error.to_string().contains(path), "{error}");
        }
    }
}
