//! The shell of a command: authorise, load, decide, commit, answer.

use std::{cell::Cell, marker::PhantomData, sync::Arc};

use action::{Actions, executions::ExecutionIndex};
use api::details::{ETAG, entity_tag};
use base::{id::Ids, metric::catalog::COMMANDS_REPLAYED, secret};
use bytes::Bytes;
use domain::{
    address::Allowed,
    aggregate::Aggregate,
    context::{Owner, OwnerType},
    log_class::LogClass,
    rejection::Rejection,
    standard::{Resource, Standard},
};
use edge::{
    answer::Answer,
    call::Call,
    caller::External,
    consistency::{self, Tokens, unavailable},
    error::{Error, Reason},
    precondition::IfMatch,
    prefer,
    refusal::permission_denied,
    seats::Seats,
};
use eventlog::{
    log::Reached,
    record::{AggregateKey, owner_type},
};
use prost::Message;
use proto::operation::{Facts, Verb};
use tokio::time::timeout;
use view::{
    database::Database,
    ended::Ended,
    keyring::{Keyring, Purpose, SYSTEM},
    progress::Progress,
    projection::following,
    settings::SettingsIndex,
};

use crate::reaction::delivery;
use crate::{
    authority::{Authority, Object},
    challenge::Challenges,
    stored_answer,
    turn::{Cause, ClaimKeys, Current, Decided, Refusal, Turn},
    writer::{Decide, Handle, Once, Origin, Verdict},
};

/// Binds stored answers to their purpose.
const ANSWER: &str = "answer";

/// What the commands of a node need.
pub struct Commands {
    /// The way to the writer.
    pub writer: Handle,
    /// Where the read models are.
    pub database: Database,
    /// The data keys.
    pub keyring: Keyring,
    /// The ids of new objects.
    pub ids: Arc<Ids>,
    /// Consistency tokens.
    pub tokens: Tokens,
    /// How far the read models are.
    pub progress: Progress,
    /// Where targets may be called beyond the public internet.
    pub targets: Arc<Allowed>,
    /// Seats for making key pairs.
    pub pairs: Seats,
    /// Looks for what shows whose a domain is.
    pub challenges: Challenges,
    /// What executions need.
    pub actions: Actions,
    /// What is set in which context.
    pub settings: SettingsIndex,
    /// What has ended.
    pub ended: Ended,
    /// How instances are reached from outside.
    pub external: External,
    /// The operations that are built.
    pub operations: Vec<&'static Facts>,
}

/// What a caller asks for, as a value: it may be decided more than once, and every time on another state.
pub(crate) trait Command: Send + 'static {
    /// What a decision tells beyond where the object stands.
    type Outcome: Send + 'static;

    /// Decides it: reads what it rests on, refuses it or writes what follows from it.
    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, Self::Outcome), Refusal>;
}

/// With what a command is decided.
pub(crate) struct Deciding {
    if_match: Option<IfMatch>,
    /// Whether that was compared with the object it is about; what asks for it is not done otherwise.
    compared: Cell<bool>,
    pub(crate) authority: Authority,
    pub(crate) keys: ClaimKeys,
    pub(crate) cause: Cause,
    /// Where the caller may do what is decided; nothing is written before that is known.
    permitted: Cell<Option<Owner>>,
}

impl Deciding {
    /// Decides what is asked of the aggregate that a command is for, at the sequence that its caller may name.
    pub(crate) fn decide<A: Aggregate>(
        &self,
        turn: &mut Turn<'_>,
        current: Current<A>,
        asked: A::Command,
    ) -> Result<Decided, Refusal> {
        let events = A::decide(&current.state, asked);
        if !matches!(events, Err(Rejection::NotFound(_))) {
            self.permit_on(turn, &current)?;
            if !self.compared.get() {
                self.compare(&current)?;
            }
        }
        turn.append(current, &events?, &self.keys, &self.cause)
    }

    /// Refuses a write to an object that is not at a sequence which its caller names. What is decided is compared without
    /// being asked for; this is for a command that is about another object than what it writes.
    pub(crate) fn compare<A: Aggregate>(&self, current: &Current<A>) -> Result<(), Refusal> {
        let is_there = A::ALWAYS_EXISTS || current.head.version > 0 && A::exists(&current.state);
        self.compare_sequence(is_there.then_some(current.head.sequence))
    }

    /// The same with the sequence of an object, where it is there, of which a command says itself what that is.
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

    /// Refuses what the caller may not do in a context.
    pub(crate) fn permit(&self, turn: &mut Turn<'_>, context: &Owner, object: &Object) -> Result<(), Refusal> {
        self.authority.permit(turn, context, object)?;
        self.permitted.set(Some(context.clone()));
        Ok(())
    }

    /// Refuses what the caller may not do to an aggregate.
    pub(crate) fn permit_on<A: Aggregate>(&self, turn: &mut Turn<'_>, current: &Current<A>) -> Result<(), Refusal> {
        let owner = current.owner()?;
        let user_id = A::user(&current.key.id, &current.state).map(str::to_owned);
        // Of what is always there it can only be hidden whose it is.
        let exists = current.head.version > 0 && !A::ALWAYS_EXISTS;
        let object = Object { name: A::NAME, exists, user_id };
        // What is created is no context yet.
        let context = if object.exists { A::context(&current.key.id, owner) } else { owner.clone() };
        self.permit(turn, &context, &object)
    }

    /// Leaves an aggregate as it is.
    pub(crate) fn nothing<A: Aggregate>(&self, turn: &mut Turn<'_>, current: Current<A>) -> Result<Decided, Refusal> {
        turn.append(current, &[], &self.keys, &self.cause)
    }

    /// Decides what follows from that for another aggregate.
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

/// A command with the rights of its caller.
struct Authorized<C> {
    command: C,
    deciding: Deciding,
}

impl<C: Command> Decide for Authorized<C> {
    type Outcome = C::Outcome;

    fn permit(&self, turn: &mut Turn<'_>) -> Result<(), Refusal> {
        self.deciding.authority.check(turn)
    }

    fn decide(&self, turn: &mut Turn<'_>) -> Result<(Decided, C::Outcome), Refusal> {
        // It may have been decided before, and what was permitted then is asked for again.
        self.deciding.permitted.take();
        self.deciding.compared.take();
        let (decided, outcome) = self.command.decide(turn, &self.deciding)?;
        if !self.deciding.compared.get() {
            self.deciding.compare_none()?;
        }
        let context = self.deciding.permitted.take().ok_or_else(|| Error::internal(&Unpermitted))?;
        Ok((Decided { context, ..decided }, outcome))
    }
}

/// Shows a resource to whoever may do with it what the operation does. It writes nothing.
struct Look<R> {
    key: AggregateKey,
    resource: PhantomData<fn() -> R>,
}

impl<R: Resource> Command for Look<R> {
    /// The resource, and the sequence of the log's end.
    type Outcome = (R, u64);

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, (R, u64)), Refusal> {
        let current = turn.get::<Standard<R>>(&self.key);
        let found = current.resource().ok_or(Rejection::NotFound(R::NAME))?.clone();
        let user_id = found.user(&self.key.id).map(str::to_owned);
        let object = Object { name: R::NAME, exists: true, user_id };
        deciding.permit(turn, &R::context(&self.key.id, current.owner()?), &object)?;
        deciding.compare(&current)?;
        let end = turn.end();
        Ok((deciding.nothing(turn, current)?, (found, end)))
    }
}

impl Commands {
    /// How far the state in memory is that is updated from what happens to aggregates of a type.
    fn reached(&self, aggregate_type: &str) -> Option<&Reached> {
        if ExecutionIndex::follows(aggregate_type) {
            Some(self.actions.executions.reached())
        } else if SettingsIndex::follows(aggregate_type) {
            Some(self.settings.reached())
        } else {
            Ended::follows(aggregate_type).then(|| self.ended.reached())
        }
    }

    /// Lets a command have its turn and answers when what it came to is committed.
    pub(crate) async fn execute<C: Command, I: Message, O: Message + Default>(
        &self,
        call: &Call,
        request: &I,
        command: C,
        answer: impl Fn(&Decided, &C::Outcome) -> O + Send + Sync + 'static,
    ) -> Result<Answer<O>, Error> {
        let answer = Arc::new(answer);
        let once = self.once(call, request, answer.clone()).await?;
        // What the answer needs is at hand before anything is committed.
        self.keyring.key(SYSTEM, Purpose::Consistency).await.map_err(unavailable)?;
        match self.submit(call, request.encoded_len(), command, once).await? {
            Verdict::Decided(decided, outcome) => {
                let status = status(call.operation, &decided);
                // What was written is in force on this node at once.
                if let Some(reached) = self.reached(decided.aggregate_type) {
                    reached.wait_briefly_for(decided.sequence).await;
                }
                self.answer(call, answer(&decided, &outcome), (decided.sequence, status), false).await
            }
            Verdict::Replayed(answered) => {
                COMMANDS_REPLAYED.one().count();
                let key = self.keyring.key(&call.tenant.id, Purpose::Answer).await.map_err(unavailable)?;
                let opened =
                    key.open_bytes(ANSWER, &answered.answer.answer).map_err(|error| Error::internal(&error))?;
                // What is shown once is not shown again to whoever has lost the right to it.
                if let Some(context) = stored_answer::context(&opened)
                    && let Some(needed) = call.needs(&context)
                    && !call.may(&context)
                {
                    return Err(permission_denied(needed));
                }
                let message = O::decode(opened.as_slice()).map_err(|error| Error::internal(&error))?;
                self.answer(call, message, (answered.answer.sequence, stored_answer::status(&opened)), true).await
            }
        }
    }

    /// What a resource is now, for whoever may do with it what the operation does, and the sequence of the log's end.
    pub(crate) async fn look<R: Resource>(&self, call: &Call, key: &AggregateKey) -> Result<(R, u64), Error> {
        match self.submit(call, 0, Look { key: key.clone(), resource: PhantomData }, None).await? {
            Verdict::Decided(_, seen) => Ok(seen),
            Verdict::Replayed(_) => Err(Error::internal(&Unpermitted)),
        }
    }

    /// Lets a command, of so many bytes, have its turn, with the rights of its caller.
    async fn submit<C: Command>(
        &self,
        call: &Call,
        bytes: usize,
        command: C,
        once: Option<Once<C::Outcome>>,
    ) -> Result<Verdict<C::Outcome>, Error> {
        let keys = ClaimKeys::of(&self.keyring, &call.tenant.id).await.map_err(unavailable)?;
        let cause = Cause {
            actor: call.caller.id.clone(),
            command_id: once
                .as_ref()
                .map_or_else(|| secret::random::<16>().to_vec().into(), |once| once.command_id.clone()),
            trace_context: call.trace_context.clone(),
            causation_id: delivery::causation(call.depth),
        };
        let own = self.keyring.key(&call.home.id, Purpose::Claim).await.map_err(unavailable)?;
        let (if_match, authority) = (call.if_match.clone(), Authority::of(call, own));
        let (compared, permitted) = (Cell::new(false), Cell::new(None));
        let deciding = Deciding { if_match, compared, authority, keys, cause, permitted };
        let place = if call.context.kind == OwnerType::System { SYSTEM } else { &call.tenant.id };
        let origin = Origin { operation: call.operation.method, instance_id: place.into(), bytes };
        self.writer.submit(origin, Authorized { command, deciding }, once).await
    }

    async fn answer<O>(
        &self,
        call: &Call,
        message: O,
        (sequence, status): (u64, Option<u16>),
        is_replayed: bool,
    ) -> Result<Answer<O>, Error> {
        tracing::Span::current().record("sequence", sequence);
        let token = self.tokens.mint_for(&call.home.id, &call.caller.id, sequence).await.map_err(unavailable)?;
        let mut metadata = vec![(consistency::HEADER, token)];
        if call.operation.verb != Verb::Delete {
            metadata.push((ETAG, entity_tag(sequence)));
        }
        if is_replayed {
            metadata.push(("idempotency-replayed", "true".to_owned()));
        }
        if let Some(limit) = call.wait
            && timeout(limit, self.read_models_have(sequence)).await.is_ok()
        {
            metadata.push((prefer::APPLIED, prefer::WAITED.to_owned()));
        }
        Ok(Answer { message, status, metadata })
    }

    /// Waits until every read model has processed a sequence of the log that is kept for ever.
    async fn read_models_have(&self, sequence: u64) {
        for projection in following(LogClass::Events) {
            // Its sender lives as long as the node.
            let _ = self.progress.of(projection).wait_for(|reached| reached.sequence >= sequence).await;
        }
    }

    async fn once<O: Message, T>(
        &self,
        call: &Call,
        request: &impl Message,
        answer: Arc<impl Fn(&Decided, &T) -> O + Send + Sync + 'static>,
    ) -> Result<Option<Once<T>>, Error> {
        let Some(given) = &call.idempotency_key else { return Ok(None) };
        let (instance_id, operation) = (call.tenant.id.clone(), call.operation);
        let key = self.keyring.key(&instance_id, Purpose::Answer).await.map_err(unavailable)?;
        let command_id = key.mac(&[instance_id.as_bytes(), call.caller.id.as_bytes(), given.as_bytes()]);
        let if_match = call.if_match.as_ref().map(IfMatch::to_bytes).unwrap_or_default();
        // Keyed, so that nobody can guess from the log what was asked.
        let context = [&owner_type(call.context.kind).to_be_bytes(), call.context.id.as_bytes()].concat();
        let digest = key.mac(&[b"request", call.operation.grpc.as_bytes(), &if_match, &call.asked(request), &context]);
        Ok(Some(Once {
            command_id: Bytes::copy_from_slice(&command_id),
            request_digest: digest,
            instance_id,
            answer: Box::new(move |decided, outcome| {
                let message = answer(decided, outcome);
                key.seal_bytes(ANSWER, &stored_answer::encode(&message, status(operation, decided), &decided.context))
                    .into()
            }),
        }))
    }
}

#[derive(Debug, thiserror::Error)]
#[error("a command was decided that nobody has permitted")]
struct Unpermitted;

/// What `If-Match` asks for cannot be there.
fn nothing_to_match() -> Refusal {
    let message = "the request changes no single object that is there, which If-Match could be about; leave it out";
    Error::new(Reason::SequenceMismatch, message).into()
}

/// The status where it is not the operation's own: that of a put which found what it replaces.
fn status(operation: &Facts, decided: &Decided) -> Option<u16> {
    operation.also.filter(|_| !decided.is_new)
}
