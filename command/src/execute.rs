//! The shell of a command: authorise, load, decide, commit, answer.

use std::{
    cell::Cell,
    sync::{Arc, Mutex, PoisonError},
};

use action::Actions;
use api::details::{ETAG, entity_tag};
use base::{id::Ids, metric::catalog::COMMANDS_REPLAYED, secret};
use bytes::Bytes;
use domain::{
    address::Allowed,
    aggregate::Aggregate,
    context::Owner,
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
};
use eventlog::record::{Key, owner_type};
use prost::Message;
use proto::operation::{Facts, PUT_EXECUTION, Verb};
use tokio::time::timeout;
use view::{
    directory::Directory,
    keyring::{Keyring, Purpose, SYSTEM},
    progress::Progress,
    projection::PROJECTIONS,
};

use crate::reaction::delivery;
use crate::{
    authority::{Authority, Object},
    challenge::Challenges,
    kept,
    turn::{Cause, ClaimKeys, Decided, Known, Stop, Turn},
    writer::{Handle, Once, Verdict},
};

/// Binds stored answers to their purpose.
const ANSWER: &str = "answer";

/// What the commands of a node need.
pub struct Commands {
    /// The way to the writer.
    pub writer: Handle,
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
    /// Looks for what shows whose a domain is.
    pub challenges: Challenges,
    /// What executions need.
    pub actions: Actions,
    /// Who is who.
    pub directory: Directory,
    /// How instances are reached from outside.
    pub external: External,
    /// The operations that are built.
    pub operations: Vec<&'static Facts>,
}

/// A command to one aggregate.
pub(crate) struct Command<A: Aggregate> {
    /// The aggregate.
    pub(crate) key: Key,
    /// Whether the id was made for this command, so that there is nothing to load.
    pub(crate) is_new: bool,
    /// The context that a new aggregate belongs to.
    pub(crate) owner: Owner,
    /// What is asked of it.
    pub(crate) asked: A::Command,
}

/// With what a command is decided.
pub(crate) struct Deciding {
    if_match: Option<IfMatch>,
    pub(crate) authority: Arc<Authority>,
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
        (key, owner): (&Key, &Owner),
        known: Known<A>,
        asked: A::Command,
    ) -> Result<Decided, Stop> {
        let events = A::decide(&known.state, asked);
        if !matches!(events, Err(Rejection::NotFound(_))) {
            let owner = known.place.owner.as_ref().unwrap_or(owner);
            let object = Object { name: A::NAME, exists: known.place.version > 0 };
            // What is created is no context yet.
            let context = if object.exists { A::context(&key.id, owner) } else { owner.clone() };
            self.permit(turn, &context, &object)?;
        }
        let events = events?;
        let sequence = known.place.sequence;
        if self.if_match.as_ref().is_some_and(|expected| !expected.has(sequence)) {
            let message = format!("the object has sequence {sequence}, which If-Match does not name");
            let mismatch = Error::new(Reason::SequenceMismatch, message).with("sequence", sequence.to_string());
            return Err(mismatch.into());
        }
        turn.append::<A>(key, known, owner, &events, (&self.keys, &self.cause))
    }

    /// Refuses what the caller may not do in a context.
    pub(crate) fn permit(&self, turn: &mut Turn<'_>, context: &Owner, object: &Object) -> Result<(), Stop> {
        self.authority.permit(turn, context, object)?;
        self.permitted.set(Some(context.clone()));
        Ok(())
    }

    /// Leaves an aggregate as it is.
    pub(crate) fn nothing<A: Aggregate>(
        &self,
        turn: &mut Turn<'_>,
        (key, owner): (&Key, &Owner),
        known: Known<A>,
    ) -> Result<Decided, Stop> {
        turn.append::<A>(key, known, owner, &[], (&self.keys, &self.cause))
    }

    /// Decides what follows from that for another aggregate.
    pub(crate) fn follow<A: Aggregate>(
        &self,
        turn: &mut Turn<'_>,
        (key, owner): (&Key, &Owner),
        known: Known<A>,
        asked: A::Command,
    ) -> Result<Decided, Stop> {
        let events = A::decide(&known.state, asked)?;
        turn.append::<A>(key, known, owner, &events, (&self.keys, &self.cause))
    }
}

impl Commands {
    /// Lets a command to one aggregate have its turn and answers when its outcome is committed.
    pub(crate) async fn execute<A: Aggregate, I: Message, O: Message + Default>(
        &self,
        call: &Call,
        request: &I,
        command: Command<A>,
        answer: impl Fn(&Decided) -> O + Send + Sync + 'static,
    ) -> Result<Answer<O>, Error> {
        let decide = move |turn: &mut Turn<'_>, deciding: &Deciding| decide(turn, &command, deciding);
        self.execute_with(call, request, decide, answer).await
    }

    /// Lets a command that may read and write several aggregates have its turn.
    pub(crate) async fn execute_with<I: Message, O: Message + Default>(
        &self,
        call: &Call,
        request: &I,
        decide: impl Fn(&mut Turn<'_>, &Deciding) -> Result<Decided, Stop> + Send + 'static,
        answer: impl Fn(&Decided) -> O + Send + Sync + 'static,
    ) -> Result<Answer<O>, Error> {
        let answer = Arc::new(answer);
        let once = self.once(call, request, answer.clone()).await?;
        // What the answer needs is at hand before anything is committed.
        self.keyring.key(SYSTEM, Purpose::Consistency).await.map_err(unavailable)?;
        match self.submit(call, decide, once).await? {
            Verdict::Decided(decided) => {
                let status = status(call.operation, &decided);
                self.answer(call, answer(&decided), (decided.sequence, status), false).await
            }
            Verdict::Replayed(answered) => {
                COMMANDS_REPLAYED.one().count();
                let key = self.keyring.key(&call.tenant.id, Purpose::Answer).await.map_err(unavailable)?;
                let opened =
                    key.open_bytes(ANSWER, &answered.answer.answer).map_err(|error| Error::internal(&error))?;
                // What is shown once is not shown again to whoever has lost the right to it.
                if let Some(needed) = call.operation.permission
                    && kept::context(&opened).is_some_and(|context| !call.may(&context))
                {
                    return Err(permission_denied(needed));
                }
                let message = O::decode(opened.as_slice()).map_err(|error| Error::internal(&error))?;
                self.answer(call, message, (answered.answer.sequence, kept::status(&opened)), true).await
            }
        }
    }

    /// What a resource is now, for whoever may do with it what the operation does, and the sequence of the log's end.
    /// Nothing is written.
    pub(crate) async fn look<R: Resource>(&self, call: &Call, key: &Key) -> Result<(R, u64), Error> {
        let (key, seen) = (key.clone(), Arc::new(Mutex::new(None)));
        let shown = seen.clone();
        let decide = move |turn: &mut Turn<'_>, deciding: &Deciding| {
            let known = turn.known::<Standard<R>>(&key)?;
            let (state, owner) = (known.state.clone(), known.place.owner.clone());
            let (Some(found), Some(owner)) = (state.as_ref(), owner) else {
                return Err(Rejection::NotFound(R::NAME).into());
            };
            deciding.permit(turn, &R::context(&key.id, &owner), &Object { name: R::NAME, exists: true })?;
            *shown.lock().unwrap_or_else(PoisonError::into_inner) = Some((found.known.clone(), turn.end()));
            deciding.nothing(turn, (&key, &owner), known)
        };
        self.submit(call, decide, None).await?;
        let seen = seen.lock().unwrap_or_else(PoisonError::into_inner).take();
        seen.ok_or_else(|| Error::internal(&Unpermitted))
    }

    /// Lets a command have its turn, with the rights of its caller.
    async fn submit(
        &self,
        call: &Call,
        decide: impl Fn(&mut Turn<'_>, &Deciding) -> Result<Decided, Stop> + Send + 'static,
        once: Option<Once>,
    ) -> Result<Verdict, Error> {
        let keys = ClaimKeys {
            instance: self.keyring.key(&call.tenant.id, Purpose::Claim).await.map_err(unavailable)?,
            system: self.keyring.key(SYSTEM, Purpose::Claim).await.map_err(unavailable)?,
        };
        let command_id =
            once.as_ref().map_or_else(|| secret::random::<16>().to_vec().into(), |once| once.command_id.clone());
        let causation_id = delivery::causation(call.depth);
        let (actor, trace_context) = (call.caller.id.clone(), call.trace_context.clone());
        let cause = Cause { actor, command_id, trace_context, causation_id };
        let own = self.keyring.key(&call.home.id, Purpose::Claim).await.map_err(unavailable)?;
        let authority = Arc::new(Authority::of(call, own));
        let checking = authority.clone();
        let permit = move |turn: &mut Turn<'_>| checking.check(turn);
        let deciding = Deciding { if_match: call.if_match.clone(), authority, keys, cause, permitted: Cell::new(None) };
        let decide = move |turn: &mut Turn<'_>| {
            // It may have been decided before, and what was permitted then is asked for again.
            deciding.permitted.take();
            let decided = decide(turn, &deciding)?;
            let context = deciding.permitted.take().ok_or_else(unpermitted)?;
            Ok(Decided { context, ..decided })
        };
        self.writer.submit(Box::new(permit), Box::new(decide), once).await
    }

    async fn answer<O>(
        &self,
        call: &Call,
        message: O,
        (sequence, status): (u64, Option<u16>),
        is_replayed: bool,
    ) -> Result<Answer<O>, Error> {
        tracing::Span::current().record("sequence", sequence);
        if call.operation.service == PUT_EXECUTION.facts.service {
            // What was written is in force on this node at once.
            self.actions.book.has(sequence).await;
        }
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

    /// Waits until every read model has processed a sequence.
    async fn read_models_have(&self, sequence: u64) {
        for projection in PROJECTIONS {
            // Its sender lives as long as the node.
            let _ = self.progress.of(projection).wait_for(|reached| reached.sequence >= sequence).await;
        }
    }

    async fn once<O: Message>(
        &self,
        call: &Call,
        request: &impl Message,
        answer: Arc<impl Fn(&Decided) -> O + Send + Sync + 'static>,
    ) -> Result<Option<Once>, Error> {
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
            answer: Box::new(move |decided| {
                key.seal_bytes(ANSWER, &kept::encode(&answer(decided), status(operation, decided), &decided.context))
                    .into()
            }),
        }))
    }
}

#[derive(Debug, thiserror::Error)]
#[error("a command was decided that nobody has permitted")]
struct Unpermitted;

fn unpermitted() -> Stop {
    Error::internal(&Unpermitted).into()
}

/// The status where it is not the operation's own: that of a put which found what it replaces.
fn status(operation: &Facts, decided: &Decided) -> Option<u16> {
    operation.also.filter(|_| !decided.is_new)
}

fn decide<A: Aggregate>(turn: &mut Turn<'_>, command: &Command<A>, deciding: &Deciding) -> Result<Decided, Stop> {
    let known = if command.is_new { turn.unborn(&command.key)? } else { turn.known::<A>(&command.key)? };
    deciding.decide(turn, (&command.key, &command.owner), known, command.asked.clone())
}
