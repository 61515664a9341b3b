//! Handlers that put and delete executions. The targets and executions that one names are looked up in the writer's
//! turn.

use std::{collections::HashSet, sync::Arc};

use api::condition;
use domain::{
    context::Owner,
    rejection::Rejection,
    resource::{
        execution::{Execution, graph},
        target::{LONGEST_WAIT_MS, Target},
    },
    standard::{Command as Asked, Standard},
};
use edge::{
    answer::Answer,
    call::Call,
    error::{Error, FieldFault, Reason},
    handler::Mounting,
};
use eventlog::record::AggregateKey;
use proto::action::{DeleteExecutionRequest, PutExecutionRequest, PutExecutionResponse};

use crate::{
    execute::{Command, Commands, Deciding},
    executions::{self, Executions},
    standard::{self, details},
    turn::{Current, Decided, Refusal, Turn},
};

/// Mounts the operations of this module.
pub(super) fn mount(mounting: Mounting<Commands>) -> Mounting<Commands> {
    mounting.on(put).on(standard::delete::<Execution, DeleteExecutionRequest>)
}

async fn put(
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
    let put = Put { key: AggregateKey::of::<Executions>(&instance_id, &id), execution };
    commands.execute(&call, &request, put, move |decided, ()| details(&id, decided).into()).await
}

/// An execution that is created or replaced.
struct Put {
    key: AggregateKey,
    execution: Execution,
}

impl Command for Put {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        let owner = Owner::instance(&self.key.instance_id);
        let current = turn.get::<Executions>(&self.key).owned_by(&owner);
        let unknown = self.unknown(turn);
        let others = self.others(turn)?;
        if let Some((resource, field, id)) = unknown {
            let fault = FieldFault::new(field, "must be the id of an existing object");
            let fault = fault.worded(format!("no {resource} has the id given in "), "");
            let error = Error::of_fields(Reason::ResourceNotFound, vec![fault]);
            return Err(error.with("resource", resource).with("id", id).into());
        }
        self.may_stand(&current, &others)?;
        self.is_in_time(turn, &others)?;
        Ok((deciding.decide(turn, current, Asked::Put(self.execution.clone()))?, ()))
    }
}

impl Put {
    /// Returns the first named target or execution that does not exist: its type, the field that names it, and its id.
    /// Everything that is named is looked up, so that all of it is loaded at once.
    fn unknown(&self, turn: &mut Turn<'_>) -> Option<(&'static str, String, &str)> {
        let Self { key, execution, .. } = self;
        let mut unknown = vec![];
        for (index, id) in execution.targets.iter().enumerate() {
            let target = AggregateKey::of::<Standard<Target>>(&key.instance_id, id);
            if !may_exist(id) || turn.get::<Standard<Target>>(&target).resource().is_none() {
                unknown.push(("target", format!("execution.targets[{index}]"), id.as_str()));
            }
        }
        for (index, id) in execution.includes.iter().enumerate().filter(|(_, id)| **id != key.id) {
            let included = AggregateKey::of::<Executions>(&key.instance_id, id);
            if !may_exist(id) || turn.get::<Executions>(&included).resource().is_none() {
                unknown.push(("execution", format!("execution.includes[{index}]"), id.as_str()));
            }
        }
        unknown.into_iter().next()
    }

    /// Returns the executions that include this one, and those that it or they include.
    fn others(&self, turn: &mut Turn<'_>) -> Result<Vec<Current<Executions>>, Refusal> {
        let mut others = executions::including(turn, vec![self.key.clone()])?;
        let included = self.execution.includes.iter().filter(|id| may_exist(id));
        others.extend(included.map(|id| AggregateKey::of::<Executions>(&self.key.instance_id, id)));
        others.remove(&self.key);
        Ok(executions::with_included(turn, others))
    }

    /// Refuses an execution that conflicts with the existing ones.
    fn may_stand(&self, current: &Current<Executions>, others: &[Current<Executions>]) -> Result<(), Refusal> {
        let wanted = &self.execution;
        if current.resource().is_some_and(|found| found.condition != wanted.condition) {
            // Ids are hashes of 63 bits.
            return Err(Rejection::Precondition("another condition has the id of this one").into());
        }
        let mut graph = executions::graph(others);
        let includes = wanted.includes.iter().filter_map(|id| graph.get(id.as_str()));
        if includes.into_iter().any(|included| included.condition.kind() != wanted.condition.kind()) {
            let rule = "must be executions with the same kind of condition";
            return Err(Rejection::invalid("execution.includes", rule).into());
        }
        graph.insert(&self.key.id, wanted);
        Ok(graph::check(&graph)?)
    }

    /// Refuses an execution with which a request would wait for longer than it may, for it or for one that includes it.
    fn is_in_time(&self, turn: &mut Turn<'_>, others: &[Current<Executions>]) -> Result<(), Refusal> {
        let wanted = &self.execution;
        if !wanted.is_waited_for() {
            return Ok(());
        }
        let mut graph = executions::graph(others);
        graph.insert(&self.key.id, wanted);
        let is_concerned = |execution: &Execution| graph::leads_to(&graph, execution, &self.key.id);
        let mut is_too_long = false;
        for execution in graph.values().filter(|execution| **execution == wanted || is_concerned(execution)) {
            is_too_long |= executions::wait(turn, &self.key.instance_id, &graph, execution) > LONGEST_WAIT_MS;
        }
        if is_too_long {
            let rule = "must not be waited for longer than 50s in all, with those of includes: shorten their timeouts, \
                        or make some asynchronous";
            return Err(Rejection::invalid("execution.targets", rule).into());
        }
        Ok(())
    }
}

/// Whether something can have this id; other ids are not looked up.
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
