//! The way to the writer, and back.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use base::metric::catalog::COMMANDS_WAITING;
use bytes::Bytes;
use edge::error::{Error, Reason};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::timeout,
};
use view::history::Answered;

use super::Phase;
use crate::turn::{Decided, Stop, Turn};

/// How many commands may wait for their turn.
const CAPACITY: usize = 4096;
/// How long a caller waits for the outcome.
const PATIENCE: Duration = Duration::from_secs(30);
/// When a caller that was refused may try again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Checks whether the caller may ask at all. It may be called again, with more to know.
pub(crate) type Permit = Box<dyn FnMut(&mut Turn<'_>) -> Result<(), Stop> + Send>;

/// Decides a command. It may be called again, with more to know or on another state.
pub(crate) type Decide = Box<dyn FnMut(&mut Turn<'_>) -> Result<Decided, Stop> + Send>;

/// What makes a command idempotent.
pub struct Once {
    /// The command's id: instance, caller and the key they gave.
    pub command_id: Bytes,
    /// What was asked, so that another request under the same key is noticed.
    pub request_digest: [u8; 32],
    /// The instance.
    pub instance_id: String,
    /// The encrypted answer that belongs to a decision.
    pub answer: Box<dyn Fn(&Decided) -> Bytes + Send>,
}

/// What a command came to.
#[derive(Debug)]
pub enum Verdict {
    /// It was decided and committed now.
    Decided(Decided),
    /// It had been before; this is what was answered.
    Replayed(Answered),
}

/// A command on its way.
pub(super) struct Submission {
    pub(super) permit: Permit,
    pub(super) decide: Decide,
    pub(super) once: Option<Once>,
    /// Keeps others with the same id away until the outcome is known.
    in_progress: Option<InProgress>,
    /// How often it had to wait for history.
    pub(super) rounds: u8,
    answer: oneshot::Sender<Result<Verdict, Error>>,
}

/// The ids of the commands that are on their way.
type Ids = Arc<Mutex<HashSet<Bytes>>>;

/// The id of a command that is on its way.
struct InProgress {
    ids: Ids,
    command_id: Bytes,
}

/// The caller's end.
#[derive(Debug, Clone)]
pub struct Handle {
    queue: mpsc::Sender<Submission>,
    in_progress: Ids,
    phases: watch::Receiver<Phase>,
}

/// The writer's end.
pub(super) struct Queue {
    pub(super) arrivals: mpsc::Receiver<Submission>,
}

pub(super) fn channel(phases: watch::Receiver<Phase>) -> (Handle, Queue) {
    let (queue, arrivals) = mpsc::channel(CAPACITY);
    (Handle { queue, in_progress: Ids::default(), phases }, Queue { arrivals })
}

impl Handle {
    /// Submits a command and waits until its outcome is committed.
    pub(crate) async fn submit(&self, permit: Permit, decide: Decide, once: Option<Once>) -> Result<Verdict, Error> {
        if let Some(advice) = self.phases.borrow().advice() {
            return Err(writer_unavailable(advice));
        }
        let _waiting = COMMANDS_WAITING.one().hold();
        let in_progress = match &once {
            Some(once) => Some(InProgress::begin(&self.in_progress, &once.command_id)?),
            None => None,
        };
        let (answer, outcome) = oneshot::channel();
        let submission = Submission { permit, decide, once, in_progress, rounds: 0, answer };
        self.queue.try_send(submission).map_err(|_| writer_unavailable("too many commands wait for their turn"))?;
        match timeout(PATIENCE, outcome).await {
            Ok(Ok(outcome)) => outcome,
            // A writer that ends in order knows what became of the record that it wrote.
            Ok(Err(_)) if *self.phases.borrow() != Phase::Active => Err(writer_unavailable(CHANGED)),
            Ok(Err(_)) => Err(outcome_unknown("the node that writes has ended")),
            Err(_) => Err(outcome_unknown("the log did not answer in time")),
        }
    }

    /// What the writer is doing, and every change of it.
    pub fn phases(&self) -> watch::Receiver<Phase> {
        self.phases.clone()
    }
}

impl Queue {
    /// Lets the callers of what was taken and not done, and of what waits, know that. Whoever passes it on looks then who
    /// writes, so the phase has to be right already.
    pub(super) fn refuse_all(&mut self, undone: VecDeque<Submission>) {
        for submission in undone {
            submission.refuse(writer_unavailable(CHANGED));
        }
        while let Ok(submission) = self.arrivals.try_recv() {
            submission.refuse(writer_unavailable(STANDBY));
        }
    }
}

impl Submission {
    /// Tells the outcome; a caller that no longer waits is none of our business.
    pub(super) fn tell(self, outcome: Result<Verdict, Error>) {
        // Whoever has the answer may use the key again.
        drop(self.in_progress);
        let _ = self.answer.send(outcome);
    }

    /// Answers that it is not done.
    pub(super) fn refuse(self, error: Error) {
        self.tell(Err(error));
    }
}

impl InProgress {
    fn begin(ids: &Ids, command_id: &Bytes) -> Result<Self, Error> {
        if !lock(ids).insert(command_id.clone()) {
            let message = "a request with this Idempotency-Key is still in progress";
            return Err(Error::new(Reason::IdempotencyInProgress, message));
        }
        Ok(Self { ids: ids.clone(), command_id: command_id.clone() })
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        lock(&self.ids).remove(&self.command_id);
    }
}

fn lock(ids: &Ids) -> MutexGuard<'_, HashSet<Bytes>> {
    ids.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the sender of a command can do whose turn did not come, or led to nothing.
const CHANGED: &str =
    "the node that writes changed before the command was committed: send it again, to any command node";

/// What the sender of a command can do that a standby does not take.
const STANDBY: &str = "this node is not the one that writes: send the command to another command node, or again to this \
                       one, which takes over when no other writes";

impl Phase {
    /// What the sender of a command can do that this node does not take; `None` where it takes commands.
    fn advice(&self) -> Option<&'static str> {
        match self {
            Self::Active => None,
            Self::Standby(_) => Some(STANDBY),
            Self::TakingOver => {
                Some("this node is about to write, when it knows the end of the log: send the command again")
            }
            Self::Ended => Some("this node has stopped writing: send the command to another command node"),
        }
    }
}

/// A command that was not done, and that can be sent again.
pub(crate) fn writer_unavailable(message: &str) -> Error {
    Error::new(Reason::WriterUnavailable, message).retry_after(RETRY_AFTER)
}

/// A command that was done or not.
pub(crate) fn outcome_unknown(why: &str) -> Error {
    let message =
        format!("{why}, and whether the command was done is not known: send it again with the same Idempotency-Key");
    Error::new(Reason::OutcomeUnknown, message).retry_after(RETRY_AFTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn submit(handle: &Handle) -> impl Future<Output = Result<Verdict, Error>> + use<> {
        let once = Once {
            command_id: Bytes::from_static(b"id"),
            request_digest: [0; 32],
            instance_id: String::new(),
            answer: Box::new(|_| Bytes::new()),
        };
        let handle = handle.clone();
        let refused = || Box::new(Error::new(Reason::Internal, "nobody decides"));
        let decide = move |_: &mut Turn<'_>| Err(Stop::Refused(refused()));
        async move { handle.submit(Box::new(|_| Ok(())), Box::new(decide), Some(once)).await }
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_is_in_progress_from_its_first_request_to_its_answer_however_slow_the_writer() {
        let (_phase, phases) = watch::channel(Phase::Active);
        let (handle, mut queue) = channel(phases);
        let first = tokio::spawn(submit(&handle));
        let waiting = queue.arrivals.recv().await.unwrap();
        let second = submit(&handle).await.unwrap_err();
        assert_eq!(second.reason(), Reason::IdempotencyInProgress);
        // The first caller gives up, the writer does not.
        assert_eq!(first.await.unwrap().unwrap_err().reason(), Reason::OutcomeUnknown);
        assert_eq!(submit(&handle).await.unwrap_err().reason(), Reason::IdempotencyInProgress);
        waiting.refuse(writer_unavailable("not now"));
        let third = tokio::spawn(submit(&handle));
        queue.arrivals.recv().await.unwrap().refuse(writer_unavailable("not now"));
        assert_eq!(third.await.unwrap().unwrap_err().reason(), Reason::WriterUnavailable);
    }
}
