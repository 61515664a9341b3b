//! What a command is decided with: the rights of its caller, and the state that the caller expects.

use std::cell::{Cell, RefCell};

use domain::{
    aggregate::Aggregate,
    context::{Owner, Part, RolePlace},
    rejection::Rejection,
};
use edge::{
    error::{Error, Reason},
    precondition::IfMatch,
};
use eventlog::record::AggregateKey;

use crate::{
    authority::{Authority, Object},
    turn::{Cause, ClaimKeys, Current, Decided, Refusal, Turn},
};

/// What a command is decided with.
pub(crate) struct Deciding {
    pub(super) if_match: Option<IfMatch>,
    /// Whether `if_match` was compared with the object; a command that requires it is not done otherwise.
    pub(super) compared: Cell<bool>,
    pub(crate) authority: Authority,
    pub(crate) keys: ClaimKeys,
    pub(crate) cause: Cause,
    /// The object whose token the caller has shown, if that permits the operation.
    pub(super) shown: RefCell<Option<AggregateKey>>,
    /// The place in which the caller may do what is decided; nothing is written before it is known.
    pub(super) permitted: Cell<Option<RolePlace>>,
}

impl Deciding {
    /// Creates one for a caller who sends no `If-Match`.
    #[cfg(test)]
    pub(crate) fn of(authority: Authority, keys: ClaimKeys, cause: Cause) -> Self {
        let (compared, shown, permitted) = Default::default();
        Self { if_match: None, compared, authority, keys, cause, shown, permitted }
    }

    /// Decides a command on the aggregate that it is for, at the sequence that the caller may name.
    pub(crate) fn decide<A: Aggregate>(
        &self,
        turn: &mut Turn<'_>,
        current: Current<A>,
        asked: A::Command,
    ) -> Result<Decided, Refusal> {
        let parts = A::parts(&current.key.id, &current.state, Some(&asked));
        self.decide_within(turn, current, asked, parts)
    }

    /// Decides like [`decide`](Self::decide) on an aggregate that is in the given parts of its context.
    pub(crate) fn decide_within<A: Aggregate>(
        &self,
        turn: &mut Turn<'_>,
        current: Current<A>,
        asked: A::Command,
        parts: Vec<Part>,
    ) -> Result<Decided, Refusal> {
        let events = A::decide(&current.state, asked);
        if !matches!(events, Err(Rejection::NotFound(_))) {
            self.permit_within(turn, &current, parts)?;
            if !self.compared.get() {
                self.compare(&current)?;
            }
        }
        turn.append(current, &events?, &self.keys, &self.cause)
    }

    /// Refuses a write to an object that is not at a sequence which the caller names. [`decide`](Self::decide) compares
    /// by itself; this is for a command that is about another object than the one it writes.
    pub(crate) fn compare<A: Aggregate>(&self, current: &Current<A>) -> Result<(), Refusal> {
        let is_there = A::ALWAYS_EXISTS || current.head.version > 0 && A::exists(&current.state);
        self.compare_sequence(is_there.then_some(current.head.sequence))
    }

    /// Compares like [`compare`](Self::compare) with a sequence that the command determines itself; `None` if the
    /// object does not exist.
    pub(crate) fn compare_sequence(&self, sequence: Option<u64>) -> Result<(), Refusal> {
        self.compared.set(true);
        let Some(expected) = &self.if_match else { return Ok(()) };
        if expected.has(sequence) {
            return Ok(());
        }
        let Some(sequence) = sequence else { return Err(nothing_to_match()) };
        let message = format!("the object has sequence {sequence}, which If-Match does not name");
        Err(Error::new(Reason::SequenceMismatch, message).with("sequence", sequence.to_string()).into())
    }

    /// Refuses a condition on one object where several are written.
    pub(crate) fn compare_none(&self) -> Result<(), Refusal> {
        self.compared.set(true);
        if self.if_match.is_some() { Err(nothing_to_match()) } else { Ok(()) }
    }

    /// Lets the caller do what the operation does to an object whose token it has shown, if the operation accepts a
    /// token.
    pub(crate) fn shows_token(&self, key: &AggregateKey) {
        *self.shown.borrow_mut() = self.authority.takes_token().then(|| key.clone());
    }

    /// Refuses what the caller may not do in a context.
    pub(crate) fn permit(&self, turn: &mut Turn<'_>, context: &Owner, object: &Object) -> Result<(), Refusal> {
        self.authority.permit(turn, context, object)?;
        self.permitted.set(Some(RolePlace { context: context.clone(), parts: object.parts.clone() }));
        Ok(())
    }

    /// Refuses what the caller may not do to an aggregate.
    pub(crate) fn permit_on<A: Aggregate>(&self, turn: &mut Turn<'_>, current: &Current<A>) -> Result<(), Refusal> {
        self.permit_within(turn, current, A::parts(&current.key.id, &current.state, None))
    }

    /// Refuses what the caller may not do to an aggregate that is, or will be, in the given parts of its context.
    pub(crate) fn permit_within<A: Aggregate>(
        &self,
        turn: &mut Turn<'_>,
        current: &Current<A>,
        parts: Vec<Part>,
    ) -> Result<(), Refusal> {
        let owner = current.owner()?;
        let user_id = A::user(&current.key.id, &current.state).map(str::to_owned);
        // An aggregate that always exists cannot be hidden, only the context that it belongs to.
        let exists = current.head.version > 0 && !A::ALWAYS_EXISTS;
        let object = Object { name: A::NAME, exists, user_id, parts };
        // An object that is being created is no context yet.
        let context = if object.exists { A::context(&current.key.id, owner) } else { owner.clone() };
        if self.shown.borrow().as_ref() == Some(&current.key) {
            self.permitted.set(Some(RolePlace { context, parts: object.parts }));
            return Ok(());
        }
        self.permit(turn, &context, &object)
    }

    /// Leaves an aggregate as it is.
    pub(crate) fn change_nothing<A: Aggregate>(
        &self,
        turn: &mut Turn<'_>,
        current: Current<A>,
    ) -> Result<Decided, Refusal> {
        turn.append(current, &[], &self.keys, &self.cause)
    }

    /// Decides what follows from a command for another aggregate, without checking permissions.
    pub(crate) fn follow<A: Aggregate>(
        &self,
        turn: &mut Turn<'_>,
        current: Current<A>,
        asked: A::Command,
    ) -> Result<Decided, Refusal> {
        let events = A::decide(&current.state, asked)?;
        turn.append(current, &events, &self.keys, &self.cause)
    }
}

/// Returns the refusal of an `If-Match` that no object can satisfy.
fn nothing_to_match() -> Refusal {
    let message = "the request does not change a single existing object that If-Match could apply to; leave it out";
    Error::new(Reason::SequenceMismatch, message).into()
}
