//! The queue of commands that wait for the writer, and the way of their answers back.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use base::{fault, metric::catalog::COMMANDS_WAITING};
use bytes::Bytes;
use edge::error::{Error, Reason};
use eventlog::record::Answer;
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::timeout,
};
use view::history::Answered;

use super::Phase;
use crate::turn::{Decided, Refusal, Turn};

/// How many commands may wait for their turn.
const CAPACITY: usize = 4096;
/// How long a caller waits for the outcome.
fn patience() -> Duration {
    fault::shortened(Duration::from_secs(30), Duration::from_secs(10))
}
/// When a caller that was refused may try again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// What the writer decides in a turn. It may be decided again, with more to know or on another state.
pub(crate) trait Decide: Send + 'static {
    /// What a decision yields beside the new version of the object.
    type Outcome: Send + 'static;

    /// Refuses whoever may not ask at all.
    fn permit(&self, _turn: &mut Turn<'_>) -> Result<(), Refusal> {
        Ok(())
    }

    /// Decides it.
    fn decide(&self, turn: &mut Turn<'_>) -> Result<(Decided, Self::Outcome), Refusal>;
}

/// What makes a command idempotent.
pub(crate) struct Once<T> {
    /// The command's id: instance, caller and the key they gave.
    pub(crate) command_id: Bytes,
    /// What was asked, so that another request under the same key is noticed.
    pub(crate) request_digest: [u8; 32],
    /// The instance.
    pub(crate) instance_id: String,
    /// The encrypted answer that belongs to a decision.
    pub(crate) answer: Box<Sealing<T>>,
}

/// Makes the encrypted answer of a decision.
type Sealing<T> = dyn Fn(&Decided, &T) -> Bytes + Send;

/// The result of a command.
#[derive(Debug)]
pub(crate) enum Verdict<T> {
    /// It was decided and committed now.
    Decided(Decided, T),
    /// It had been before; this is what was answered.
    Replayed(Answered),
}

/// A command on its way.
pub(super) struct Submission {
    /// Keeps others with the same id away until the outcome is known. It is dropped before the task, with which the caller
    /// learns that there is none: whoever knows that may use the key again.
    in_progress: Option<InProgress>,
    pub(super) task: Box<dyn Task>,
    /// How often it had to wait for history.
    pub(super) rounds: u8,
}

/// A command with its caller, without the type of its outcome.
pub(super) trait Task: Send {
    /// Under which id it was answered before, if ever, and what was asked then.
    fn once(&self) -> Option<(&Bytes, &[u8; 32])>;

    /// See [`Decide::permit`].
    fn permit(&self, turn: &mut Turn<'_>) -> Result<(), Refusal>;

    /// Decides it and keeps the outcome.
    fn decide(&mut self, turn: &mut Turn<'_>) -> Result<Decided, Refusal>;

    /// The answer that is stored beside the events of an idempotent command.
    fn stored(&self, decided: &Decided) -> Option<Answer>;

    /// Answers the caller; one that no longer waits is ignored.
    fn answer(self: Box<Self>, verdict: Result<Verdict<()>, Error>);
}

/// A task of one type.
struct Waiting<C: Decide> {
    command: C,
    once: Option<Once<C::Outcome>>,
    /// The outcome of the last decision.
    outcome: Option<C::Outcome>,
    caller: oneshot::Sender<Result<Verdict<C::Outcome>, Error>>,
}

impl<C: Decide> Task for Waiting<C> {
    fn once(&self) -> Option<(&Bytes, &[u8; 32])> {
        self.once.as_ref().map(|once| (&once.command_id, &once.request_digest))
    }

    fn permit(&self, turn: &mut Turn<'_>) -> Result<(), Refusal> {
        self.command.permit(turn)
    }

    fn decide(&mut self, turn: &mut Turn<'_>) -> Result<Decided, Refusal> {
        let (decided, outcome) = self.command.decide(turn)?;
        self.outcome = Some(outcome);
        Ok(decided)
    }

    fn stored(&self, decided: &Decided) -> Option<Answer> {
        let (once, outcome) = (self.once.as_ref()?, self.outcome.as_ref()?);
        Some(Answer {
            command_id: once.command_id.clone(),
            request_digest: once.request_digest.to_vec().into(),
            answer: (once.answer)(decided, outcome),
            instance_id: once.instance_id.clone(),
            sequence: decided.sequence,
        })
    }

    fn answer(self: Box<Self>, verdict: Result<Verdict<()>, Error>) {
        let Self { caller, outcome, .. } = *self;
        let verdict = verdict.and_then(|verdict| match (verdict, outcome) {
            (Verdict::Replayed(answered), _) => Ok(Verdict::Replayed(answered)),
            (Verdict::Decided(decided, ()), Some(outcome)) => Ok(Verdict::Decided(decided, outcome)),
            (Verdict::Decided(..), None) => Err(Error::internal(&Undecided)),
        });
        let _ = caller.send(verdict);
    }
}

#[derive(Debug, thiserror::Error)]
#[error("a command counts as decided that nobody has decided")]
struct Undecided;

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
    pub(crate) async fn submit<C: Decide>(
        &self,
        command: C,
        once: Option<Once<C::Outcome>>,
    ) -> Result<Verdict<C::Outcome>, Error> {
        if let Some(advice) = self.phases.borrow().advice() {
            return Err(writer_unavailable(advice));
        }
        let _waiting = COMMANDS_WAITING.one().hold();
        let in_progress = match &once {
            Some(once) => Some(InProgress::begin(&self.in_progress, &once.command_id)?),
            None => None,
        };
        let (caller, verdict) = oneshot::channel();
        let task = Box::new(Waiting { command, once, outcome: None, caller });
        let submission = Submission { task, in_progress, rounds: 0 };
        self.queue.try_send(submission).map_err(|_| writer_unavailable("too many commands wait for their turn"))?;
        match timeout(patience(), verdict).await {
            Ok(Ok(verdict)) => verdict,
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
    /// Answers the caller with what became of the command.
    pub(super) fn answer(self, verdict: Result<Verdict<()>, Error>) {
        // Whoever has the answer may use the key again.
        drop(self.in_progress);
        self.task.answer(verdict);
    }

    /// Answers that it is not done.
    pub(super) fn refuse(self, error: Error) {
        self.answer(Err(error));
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

    struct Nothing;

    impl Decide for Nothing {
        type Outcome = ();

        fn decide(&self, _: &mut Turn<'_>) -> Result<(Decided, ()), Refusal> {
            Err(Error::new(Reason::Internal, "nobody decides").into())
        }
    }

    fn submit(handle: &Handle) -> impl Future<Output = Result<Verdict<()>, Error>> + use<> {
        let once = Once {
            command_id: Bytes::from_static(b"id"),
            request_digest: [0; 32],
            instance_id: String::new(),
            answer: Box::new(|_, ()| Bytes::new()),
        };
        let handle = handle.clone();
        async move { handle.submit(Nothing, Some(once)).await }
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

    #[tokio::test]
    async fn a_key_is_free_when_its_caller_learns_that_nobody_decided() {
        let (_phase, phases) = watch::channel(Phase::Active);
        let (handle, mut queue) = channel(phases);
        let first = {
            let (handle, ids) = (handle.clone(), handle.in_progress.clone());
            // On a thread of its own, so that it looks the moment it learns of it.
            std::thread::spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
                let refused = runtime.block_on(submit(&handle)).unwrap_err();
                (refused.reason(), lock(&ids).is_empty())
            })
        };
        let waiting = queue.arrivals.recv().await.unwrap();
        drop(waiting);
        assert_eq!(first.join().unwrap(), (Reason::OutcomeUnknown, true));
    }
}
