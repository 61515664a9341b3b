//! All executions of an instance, in the writer's turn. Their ids follow from what a condition can name, so that they
//! are found without an index that could lag.

use std::collections::HashSet;

use api::condition;
use domain::{
    resource::execution::{Execution, Without},
    standard::{Command as Asked, Standard},
};
use edge::call::Call;
use eventlog::record::AggregateKey;

use crate::{
    execute::{Commands, Deciding},
    turn::{Current, Refusal, Turn},
};

/// The aggregate of an execution.
pub(crate) type Executions = Standard<Execution>;

/// The keys of all executions that an instance may have: one for each condition that can be named.
pub(crate) fn keys(commands: &Commands, call: &Call) -> Vec<AggregateKey> {
    let instance_id = &call.tenant.id;
    let ids: HashSet<String> =
        condition::all(&commands.operations).map(|condition| condition::id(instance_id, &condition)).collect();
    ids.into_iter().map(|id| AggregateKey::of::<Executions>(instance_id, id)).collect()
}

/// Those of them that there are.
pub(crate) fn of(turn: &mut Turn<'_>, keys: &[AggregateKey]) -> Vec<Current<Executions>> {
    let all = keys.iter().map(|key| turn.get::<Executions>(key));
    all.filter(|current| current.resource().is_some()).collect()
}

/// Takes what is removed out of all executions that name it.
pub(crate) fn without(
    turn: &mut Turn<'_>,
    deciding: &Deciding,
    executions: Vec<Current<Executions>>,
    gone: &Without,
) -> Result<(), Refusal> {
    for current in executions {
        if current.resource().is_some_and(|execution| execution.names(gone)) {
            deciding.follow(turn, current, Asked::Patch(gone.clone()))?;
        }
    }
    Ok(())
}
