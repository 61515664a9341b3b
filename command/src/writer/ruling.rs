//! The outcome of a command in its turn, also if its code panics.

use base::{
    fault,
    panic::{Panicked, caught},
};
use edge::error::{Error, Reason};
use eventlog::record::Answer;
use jiff::Timestamp;
use view::history::{ANSWERS_KEPT, StoredAnswer};

use super::submission::Submission;
use crate::turn::{Decided, Lack, Refusal, Turn};

/// The outcome of a command, before anything of it takes effect.
pub(super) enum Ruling {
    /// The command is done, once the turn is finished, with this answer to store.
    Decided(Decided, Option<Answer>),
    /// The command was done before.
    Replayed(StoredAnswer),
    Refused(Refusal),
    /// The command depends on what the turn lacks.
    Lacking(Lack),
}

/// A command was decided by code that panicked.
#[derive(Debug, thiserror::Error)]
#[error("{operation} of instance {instance_id:?} is not decided")]
struct Undecidable {
    operation: &'static str,
    instance_id: String,
    #[source]
    panicked: Panicked,
}

/// Decides a command. A panic of its code, or of a fold that it needs, refuses this command alone.
pub(super) fn rule(submission: &mut Submission, turn: &mut Turn<'_>, now: Timestamp) -> Ruling {
    // What a panic leaves half done belongs to the turn, which its caller then drops: the record is written to by
    // `finish` alone. The writer's memory changes by complete entries, each of which is true without the others.
    let ruled = caught(|| decide(submission, turn, now));
    // A panic, too, may come from something that counts as absent because it is not loaded.
    if let Some(lack) = turn.lack() {
        return Ruling::Lacking(lack);
    }
    match ruled {
        Ok(Ok(ruling)) => ruling,
        Ok(Err(refusal)) => Ruling::Refused(refusal),
        Err(panicked) => {
            let (operation, instance_id) = (submission.origin.operation, submission.origin.instance_id.to_string());
            Ruling::Refused(Error::internal(&Undecidable { operation, instance_id, panicked }).into())
        }
    }
}

/// Returns the ruling of the command's own code, which is valid if the turn lacks nothing.
fn decide(submission: &mut Submission, turn: &mut Turn<'_>, now: Timestamp) -> Result<Ruling, Refusal> {
    let Submission { task, origin, .. } = submission;
    // Both are read before either is looked at, so that one load brings both.
    let permitted = task.permit(turn);
    let once = task.once().map(|(command_id, digest)| (turn.answer(command_id), *digest));
    if let Some(lack) = turn.lack() {
        return Ok(Ruling::Lacking(lack));
    }
    permitted?;
    if let Some((Some(answered), digest)) = once
        && answered.committed_at + ANSWERS_KEPT > now
    {
        if answered.answer.request_digest == digest.as_slice() {
            return Ok(Ruling::Replayed(answered));
        }
        let message = "this Idempotency-Key was used for another request";
        return Err(Error::new(Reason::IdempotencyKeyReused, message).into());
    }
    let decided = task.decide(turn)?;
    fault::point_of("turn.decided", origin.operation);
    let answer = task.stored(&decided);
    Ok(Ruling::Decided(decided, answer))
}

#[cfg(test)]
mod tests;
