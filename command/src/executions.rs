//! All executions of an instance, in the writer's turn. Their ids follow from what a condition can name, so that they
//! are found without an index that could lag.

use std::collections::HashSet;

use api::condition;
use domain::{
    context::Owner,
    resource::execution::{Execution, Without},
    standard::{Command as Asked, Standard},
};
use edge::call::Call;
use eventlog::record::Key;

use crate::{
    execute::{Commands, Deciding},
    turn::{Known, Stop, Turn},
};

/// The aggregate of an execution.
pub(crate) type Executions = Standard<Execution>;

/// The keys of all executions that an instance may have: one for each condition that can be named.
pub(crate) fn keys(commands: &Commands, call: &Call) -> Vec<Key> {
    let instance_id = &call.tenant.id;
    let ids: HashSet<String> =
        condition::all(&commands.operations).map(|condition| condition::id(instance_id, &condition)).collect();
    ids.into_iter().map(|id| Key::of::<Executions>(instance_id, id)).collect()
}

/// Those of them that there are. What must be loaded first is noted.
pub(crate) fn of(turn: &mut Turn<'_>, keys: &[Key]) -> Result<Vec<(Key, Known<Executions>)>, Stop> {
    let mut found = vec![];
    for key in keys {
        if let Some(known) = turn.get::<Executions>(key)?
            && known.state.is_some()
        {
            found.push((key.clone(), known));
        }
    }
    Ok(found)
}

/// Takes what is removed out of all executions that name it.
pub(crate) fn without(
    turn: &mut Turn<'_>,
    deciding: &Deciding,
    executions: Vec<(Key, Known<Executions>)>,
    (removed, gone): (&Key, &Without),
) -> Result<(), Stop> {
    for (key, known) in executions.into_iter().filter(|(key, _)| key != removed) {
        if known.state.as_ref().as_ref().is_some_and(|execution| execution.names(gone)) {
            let owner = Owner::instance(&key.instance_id);
            deciding.follow(turn, (&key, &owner), known, Asked::Patch(gone.clone()))?;
        }
    }
    Ok(())
}
