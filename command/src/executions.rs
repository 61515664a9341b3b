//! What executions amount to together, in the writer's turn: which include which, and how long a request waits for
//! them.

use std::collections::HashSet;

use domain::{
    rejection::Rejection,
    resource::{
        execution::{
            Execution, INCLUDE,
            graph::{self, Graph},
        },
        target::{Target, waited_for},
    },
    standard::Standard,
};
use eventlog::record::AggregateKey;

use crate::{
    references,
    turn::{Current, Refusal, Turn},
};

/// The aggregate of an execution.
pub(crate) type Executions = Standard<Execution>;

/// Returns these executions and those that include them, which call their targets, too. Includes are only a few levels
/// deep, so that few steps find them.
pub(crate) fn including(turn: &mut Turn<'_>, these: Vec<AggregateKey>) -> Result<HashSet<AggregateKey>, Refusal> {
    references::are_complete(turn)?;
    let (mut seen, mut next) = (these.iter().cloned().collect::<HashSet<_>>(), these);
    while let Some(included) = next.pop() {
        let referrers = turn.referrers(&included, INCLUDE);
        if referrers.has_more {
            return Err(Rejection::Precondition("too many executions include it, or one that includes it").into());
        }
        next.extend(referrers.keys.into_iter().filter(|referrer| seen.insert(referrer.clone())));
    }
    Ok(seen)
}

/// Returns the existing ones of these executions, and all that they include.
pub(crate) fn with_included(turn: &mut Turn<'_>, these: HashSet<AggregateKey>) -> Vec<Current<Executions>> {
    let (mut next, mut seen, mut found) = (these.iter().cloned().collect::<Vec<_>>(), these, vec![]);
    while let Some(other) = next.pop() {
        let current = turn.get::<Executions>(&other);
        let Some(execution) = current.resource() else { continue };
        let key = |id: &String| AggregateKey::of::<Executions>(&other.instance_id, id);
        next.extend(execution.includes.iter().map(key).filter(|included| seen.insert(included.clone())));
        found.push(current);
    }
    found
}

/// Returns executions as a graph of what includes what.
pub(crate) fn graph(executions: &[Current<Executions>]) -> Graph<'_> {
    executions.iter().filter_map(|execution| Some((execution.key.id.as_str(), execution.resource()?))).collect()
}

/// Returns how long a request waits in all for the targets of an execution and of those that it includes, in
/// milliseconds.
pub(crate) fn wait<'a>(turn: &mut Turn<'_>, instance_id: &str, graph: &Graph<'a>, execution: &'a Execution) -> u64 {
    let key = |id: &str| AggregateKey::of::<Standard<Target>>(instance_id, id);
    let targets = graph::targets(graph, execution);
    // All are looked up, so that all are loaded at once.
    let targets: Vec<_> = targets.iter().map(|id| turn.get::<Standard<Target>>(&key(id))).collect();
    waited_for(targets.iter().filter_map(Current::resource))
}
