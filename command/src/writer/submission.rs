//! A command on its way through the writer, with its caller.

use bytes::Bytes;
use domain::log_class::LogClass;
use edge::error::Error;
use eventlog::record::Answer;
use tokio::sync::oneshot;
use view::history::StoredAnswer;

use super::ticket::{Origin, WriterTicket};
use crate::turn::{Decided, Refusal, Turn};

/// A command that the writer decides in a turn. It may be decided again, with more data or on another state.
pub(crate) trait Decide: Send + 'static {
    /// What a decision returns besides [`Decided`].
    type Outcome: Send + 'static;

    /// Returns the log that the command writes to. It may read both.
    fn class(&self) -> LogClass {
        LogClass::Events
    }

    /// Refuses a caller who may not send commands at all.
    fn permit(&self, _turn: &mut Turn<'_>) -> Result<(), Refusal> {
        Ok(())
    }

    /// Decides the command.
    fn decide(&self, turn: &mut Turn<'_>) -> Result<(Decided, Self::Outcome), Refusal>;
}

/// What makes a command idempotent.
pub(crate) struct Once<T> {
    /// The id of the command: a hash of the instance, the caller and the idempotency key.
    pub(crate) command_id: Bytes,
    /// The digest of the request, by which another request under the same key is noticed.
    pub(crate) request_digest: [u8; 32],
    /// The instance.
    pub(crate) instance_id: String,
    /// Makes the encrypted answer of a decision.
    pub(crate) answer: Box<Sealing<T>>,
}

/// Makes the encrypted answer of a decision.
type Sealing<T> = dyn Fn(&Decided, &T) -> Bytes + Send;

/// The result of a command.
#[derive(Debug)]
pub(crate) enum Verdict<T> {
    /// The command was decided and committed now.
    Decided(Decided, T),
    /// The command was done before; this is the stored answer.
    Replayed(StoredAnswer),
}

/// A command on its way.
pub(super) struct Submission {
    /// Keeps other commands with the same id away until the outcome is known. It is dropped before the task, by whose
    /// drop the caller learns that there is no outcome: then the key may be used again.
    pub(super) held: WriterTicket,
    pub(super) task: Box<dyn Task>,
    pub(super) origin: Origin,
    /// How often it had to wait for history.
    pub(super) rounds: u8,
}

/// A command with its caller, without the type of its outcome.
pub(super) trait Task: Send {
    /// See [`Decide::class`].
    fn class(&self) -> LogClass;

    /// Returns the id of an idempotent command, and the digest of its request.
    fn once(&self) -> Option<(&Bytes, &[u8; 32])>;

    /// See [`Decide::permit`].
    fn permit(&self, turn: &mut Turn<'_>) -> Result<(), Refusal>;

    /// Decides the command and stores the outcome.
    fn decide(&mut self, turn: &mut Turn<'_>) -> Result<Decided, Refusal>;

    /// Returns the answer that is stored beside the events of an idempotent command.
    fn stored(&self, decided: &Decided) -> Option<Answer>;

    /// Answers the caller; one that no longer waits is ignored.
    fn answer(self: Box<Self>, verdict: Result<Verdict<()>, Error>);
}

/// A task of one type.
pub(super) struct TypedSubmission<C: Decide> {
    pub(super) command: C,
    pub(super) once: Option<Once<C::Outcome>>,
    /// The outcome of the last decision.
    pub(super) outcome: Option<C::Outcome>,
    pub(super) caller: oneshot::Sender<Result<Verdict<C::Outcome>, Error>>,
}

impl<C: Decide> Task for TypedSubmission<C> {
    fn class(&self) -> LogClass {
        self.command.class()
    }

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
#[error("a command is marked as decided without a verdict")]
struct Undecided;

impl Submission {
    /// Answers the caller with what became of the command.
    pub(super) fn answer(self, verdict: Result<Verdict<()>, Error>) {
        // A caller who has the answer may use the key again.
        drop(self.held);
        self.task.answer(verdict);
    }

    /// Answers that the command is not done.
    pub(super) fn refuse(self, error: Error) {
        self.answer(Err(error));
    }
}
