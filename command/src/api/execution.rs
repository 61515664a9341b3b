//! Executions as they are written. What an execution names is looked up in the writer's turn.

use std::{collections::HashSet, sync::Arc};

use api::condition;
use domain::{
    context::Owner,
    rejection::Rejection,
    resource::{
        execution::{Execution, graph},
        target::Target,
    },
    standard::{Command as Asked, Standard},
};
use edge::{
    answer::Answer,
    call::Call,
    error::{Error, Reason},
};
use eventlog::record::Key;
use proto::action::{PutExecutionRequest, PutExecutionResponse};

use crate::{
    execute::{Commands, Deciding},
    executions::{self, Executions},
    standard::details,
    turn::{Decided, Known, Stop, Turn},
};

pub(super) async fn put(
    commands: Arc<Commands>,
    call: Call,
    request: PutExecutionRequest,
) -> Result<Answer<PutExecutionResponse>, Error> {
    let wanted = request.execution.clone().unwrap_or_default();
    let condition = condition::read(wanted.condition.unwrap_or_default(), "execution.condition")?;
    condition::is_known(&condition, &commands.operations)?;
    let execution = Execution { condition, targets: wanted.targets, includes: wanted.includes };
    include_others_once(&execution)?;
    let instance_id = call.tenant.id.clone();
    let id = condition::id(&instance_id, &execution.condition);
    let put =
        Put { key: Key::of::<Executions>(&instance_id, &id), others: executions::keys(&commands, &call), execution };
    let decide = move |turn: &mut Turn<'_>, deciding: &Deciding| put.decide(turn, deciding);
    commands.execute_with(&call, &request, decide, move |decided| details(&id, decided).into()).await
}

/// An execution that is created or replaced.
struct Put {
    key: Key,
    execution: Execution,
    /// Every execution that there may be.
    others: Vec<Key>,
}

impl Put {
    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<Decided, Stop> {
        let Self { key, execution, others } = self;
        let instance_id = &key.instance_id;
        let known = turn.get::<Executions>(key)?;
        let mut unknown = vec![];
        for (index, id) in execution.targets.iter().enumerate() {
            let may_exist = may_exist(id);
            let target = may_exist.then(|| turn.get::<Standard<Target>>(&Key::of::<Standard<Target>>(instance_id, id)));
            let target = target.transpose()?.flatten();
            if !may_exist || target.is_some_and(|target| target.state.is_none()) {
                unknown.push(("target", format!("execution.targets[{index}]"), id));
            }
        }
        for (index, id) in execution.includes.iter().enumerate() {
            let may_exist = may_exist(id);
            let included = may_exist.then(|| turn.get::<Executions>(&Key::of::<Executions>(instance_id, id)));
            let included = included.transpose()?.flatten();
            if !may_exist || (*id != key.id && included.is_some_and(|included| included.state.is_none())) {
                unknown.push(("execution", format!("execution.includes[{index}]"), id));
            }
        }
        // Those that include this one have its targets too.
        let others = executions::of(turn, others)?;
        turn.complete()?;
        if let Some((resource, field, id)) = unknown.into_iter().next() {
            let message = format!("there is no {resource} with the id that {field} names");
            let error = Error::new(Reason::ResourceNotFound, message).with("resource", resource).with("id", id);
            return Err(error.violation(field, "must be an id that there is").into());
        }
        let Some(known) = known else { return Err(Stop::Missing) };
        self.may_stand(&known, &others)?;
        let owner = Owner::instance(instance_id);
        deciding.decide(turn, (key, &owner), known, Asked::Put(execution.clone()))
    }

    /// Refuses what does not go together with the executions that there are.
    fn may_stand(&self, known: &Known<Executions>, others: &[(Key, Known<Executions>)]) -> Result<(), Stop> {
        let wanted = &self.execution;
        if known.state.as_ref().as_ref().is_some_and(|found| found.condition != wanted.condition) {
            // Ids are hashes of 63 bits.
            return Err(Rejection::Precondition("another condition has the id of this one").into());
        }
        let states =
            others.iter().filter_map(|(key, other)| Some((key.id.as_str(), &other.state.as_ref().as_ref()?.known)));
        let mut graph: graph::Graph<'_> = states.collect();
        let includes = wanted.includes.iter().filter_map(|id| graph.get(id.as_str()));
        if includes.into_iter().any(|included| included.condition.kind() != wanted.condition.kind()) {
            let rule = "must be executions with the same kind of condition";
            return Err(Rejection::invalid("execution.includes", rule).into());
        }
        graph.insert(&self.key.id, wanted);
        Ok(graph::check(&graph)?)
    }
}

/// Whether something can have this id: nothing is looked up that cannot.
fn may_exist(id: &str) -> bool {
    id.bytes().all(|byte| byte.is_ascii_digit())
}

fn include_others_once(execution: &Execution) -> Result<(), Error> {
    let mut seen = HashSet::new();
    if execution.includes.iter().all(|include| seen.insert(include)) {
        return Ok(());
    }
    Err(Rejection::invalid("execution.includes", "must not name an execution twice").into())
}
