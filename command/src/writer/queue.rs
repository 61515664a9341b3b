//! The queue of commands that wait for the writer, and the way of their answers back.

use std::time::Duration;

use base::{fault, metric::catalog::COMMANDS_WAITING};
use edge::error::Error;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::timeout,
};

use super::{
    Phase,
    submission::{Decide, Once, Submission, TypedSubmission, Verdict},
    ticket::{Origin, PLACES, Shared},
    unavailable::{outcome_unknown, writer_unavailable},
};

/// How long a caller waits for the outcome.
fn patience() -> Duration {
    fault::shortened(Duration::from_secs(30), Duration::from_secs(10))
}

/// The caller's end of the queue.
#[derive(Debug, Clone)]
pub struct Handle {
    queue: mpsc::Sender<Submission>,
    shared: Shared,
    phases: watch::Receiver<Phase>,
}

/// The writer's end of the queue.
pub(super) struct Queue {
    pub(super) arrivals: mpsc::Receiver<Submission>,
}

pub(super) fn channel(phases: watch::Receiver<Phase>) -> (Handle, Queue) {
    let (queue, arrivals) = mpsc::channel(PLACES);
    (Handle { queue, shared: Shared::new(), phases }, Queue { arrivals })
}

impl Handle {
    /// Submits a command and waits until its outcome is committed. A caller who stops waiting, or drops this future,
    /// withdraws a command that is in no record yet.
    pub(crate) async fn submit<C: Decide>(
        &self,
        origin: Origin,
        command: C,
        once: Option<Once<C::Outcome>>,
    ) -> Result<Verdict<C::Outcome>, Error> {
        if let Some(advice) = self.phases.borrow().advice() {
            return Err(writer_unavailable(advice));
        }
        let _waiting = COMMANDS_WAITING.one().hold();
        let (stub, held) = self.shared.enter(&origin, once.as_ref().map(|once| &once.command_id))?;
        let (caller, verdict) = oneshot::channel();
        let task = Box::new(TypedSubmission { command, once, outcome: None, caller });
        // The channel has a place for every command that was admitted.
        let sent = self.queue.try_send(Submission { held, task, origin, rounds: 0 });
        sent.map_err(|_| writer_unavailable(CHANGED))?;
        match timeout(patience(), verdict).await {
            Ok(Ok(verdict)) => verdict,
            // A writer that ends in order knows what became of the record that it wrote.
            Ok(Err(_)) if *self.phases.borrow() != Phase::Active => Err(writer_unavailable(CHANGED)),
            Ok(Err(_)) if stub.withdraw() => Err(writer_unavailable(CHANGED)),
            Ok(Err(_)) => Err(outcome_unknown("the writer has ended")),
            Err(_) if stub.withdraw() => Err(writer_unavailable(LATE)),
            Err(_) => Err(outcome_unknown("the log did not answer in time")),
        }
    }

    /// Returns what the writer is doing, and every change of it.
    pub fn phases(&self) -> watch::Receiver<Phase> {
        self.phases.clone()
    }
}

impl Queue {
    /// Refuses the commands that were taken and not done, and those that wait. A node that passes one on then looks who
    /// writes, so the phase has to be right already.
    pub(super) fn refuse_all(&mut self, undone: Vec<Submission>) {
        for submission in undone {
            submission.refuse(writer_unavailable(CHANGED));
        }
        while let Ok(submission) = self.arrivals.try_recv() {
            submission.refuse(writer_unavailable(STANDBY));
        }
    }
}

/// The advice to the sender of a command whose turn did not come, or led to nothing.
const CHANGED: &str =
    "another node became the writer before the command was committed: send it again, to any command node";

/// The advice to the sender of a command whose turn did not come in time.
const LATE: &str = "the command waited too long and was not executed by this request: send it again, with the same \
                    Idempotency-Key";

/// The advice to the sender of a command that a standby does not accept.
const STANDBY: &str = "this node is not the writer: send the command to another command node, or again to this one, \
                       which takes over when no other node writes";

impl Phase {
    /// Returns the advice to the sender of a command that this node does not accept; `None` if it accepts commands.
    fn advice(&self) -> Option<&'static str> {
        match self {
            Self::Active => None,
            Self::Standby(_) => Some(STANDBY),
            Self::TakingOver => Some("this node is becoming the writer: send the command again"),
            Self::Ended => Some("this node has stopped writing: send the command to another command node"),
        }
    }
}

#[cfg(test)]
mod tests;
