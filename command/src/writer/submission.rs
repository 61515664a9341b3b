//! A command on its way through the writer, with its caller.

use bytes::Bytes;
use domain::log_class::LogClass;
use edge::error::Error;
use eventlog::record::Answer;
use tokio::sync::oneshot;
use view::history::Answered;

use super::ticket::{Origin, WriterTicket};
use crate::turn::{Decided, Refusal, Turn};

/// What the writer decides in a turn. It may be decided again, with more to know or on another state.
pub(crate) trait Decide: Send + 'static {
    /// What a decision yields beside the new version of the object.
    type Outcome: Send + 'static;

    /// The log that it writes. It reads of both.
    fn class(&self) -> LogClass {
        LogClass::Events
    }

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
pub(super) struct Waiting<C: Decide> {
    pub(super) command: C,
    pub(super) once: Option<Once<C::Outcome>>,
    /// The outcome of the last decision.
    pub(super) outcome: Option<C::Outcome>,
    pub(super) caller: oneshot::Sender<Result<Verdict<C::Outcome>, Error>>,
}

impl<C: Decide> Task for Waiting<C> {
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
#[error("a command counts as decided that nobody has decided")]
struct Undecided;

impl Submission {
    /// Answers the caller with what became of the command.
    pub(super) fn answer(self, verdict: Result<Verdict<()>, Error>) {
        // Whoever has the answer may use the key again.
        drop(self.held);
        self.task.answer(verdict);
    }

    /// Answers that it is not done.
    pub(super) fn refuse(self, error: Error) {
        self.answer(Err(error));
    }
}
