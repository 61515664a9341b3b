//! The shell of a command: authorise, load, decide, commit, answer.

mod deciding;
mod replay;

use std::{
    cell::{Cell, RefCell},
    marker::PhantomData,
    sync::Arc,
};

use action::{Actions, executions::ExecutionIndex};
use api::details::{ETAG, entity_tag};
use base::{id::Ids, metric::catalog::COMMANDS_REPLAYED, secret};
use domain::{
    address::Allowed,
    context::OwnerType,
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
    prefer,
    seats::Seats,
};
use eventlog::{assets::Assets, log::Reached, record::AggregateKey, tries::Tries};
use prost::Message;
use proto::operation::{Facts, Verb};
use tokio::time::timeout;
use view::{
    database::Database,
    ended::Ended,
    keyring::{Keyring, Purpose, SYSTEM},
    persons::Persons,
    progress::Progress,
    projection::following,
    settings::SettingsIndex,
};

pub(crate) use self::deciding::Deciding;
use self::replay::status;
use crate::{
    authority::{Authority, Object},
    challenge::Challenges,
    last_login::LastLogin,
    reaction::delivery,
    registrations::Registrations,
    turn::{Cause, ClaimKeys, Decided, Refusal, Turn},
    writer::{Decide, Handle, Once, Origin, Verdict},
};

/// The header of an answer that was given before.
pub(crate) const REPLAYED: &str = "idempotency-replayed";

/// What the commands of a node need.
pub struct Commands {
    /// The way to the writer.
    pub writer: Handle,
    /// The connections for searches in failed events, and for the generations of views.
    pub audit: Database,
    /// The search indexes that are published.
    pub indexes: index::Remote,
    /// The data keys.
    pub keyring: Keyring,
    /// The keys of people.
    pub persons: Persons,
    /// The counters of password tries.
    pub tries: Tries,
    /// The pictures and fonts of the branding.
    pub assets: Assets,
    /// The person who logged in last with a password.
    pub last_login: LastLogin,
    /// How many people have registered lately.
    pub registrations: Registrations,
    /// The ids of new objects.
    pub ids: Arc<Ids>,
    /// The issuer of consistency tokens.
    pub tokens: Tokens,
    /// The progress of the read models.
    pub progress: Progress,
    /// The addresses beyond the public internet at which targets may be called.
    pub targets: Arc<Allowed>,
    /// Seats for making key pairs.
    pub pairs: Seats,
    /// Seats for hashing passwords, each of which takes a processor and up to 128 MiB.
    pub passwords: Seats,
    /// The search for the challenges of domains.
    pub challenges: Challenges,
    /// What executions need.
    pub actions: Actions,
    /// The settings of all contexts.
    pub settings: SettingsIndex,
    /// What was switched off or removed.
    pub ended: Ended,
    /// The scheme and port of the URLs of instances.
    pub external: External,
    /// The operations that this build offers.
    pub operations: Vec<&'static Facts>,
}

/// The request of a caller as a value: it may be decided more than once, and every time on another state.
pub(crate) trait Command: Send + 'static {
    /// What a decision returns besides [`Decided`].
    type Outcome: Send + 'static;

    /// Returns the log that the command writes to.
    fn class(&self) -> LogClass {
        LogClass::Events
    }

    /// Returns the hash of the token that the caller has shown, if one stands in for a permission.
    fn presented_token_hash(&self) -> &[u8] {
        &[]
    }

    /// Decides the command: reads the state that it depends on, and refuses it or writes the events that follow.
    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, Self::Outcome), Refusal>;
}

/// A request of any type.
#[derive(Clone, Copy)]
struct AnyRequest<'a> {
    encode: &'a Encode<'a>,
    /// The length of its protobuf, in bytes.
    bytes: usize,
}

/// Makes a request's protobuf.
type Encode<'a> = dyn Fn() -> Vec<u8> + Sync + 'a;

/// Makes the answer to a decision, in protobuf.
type Respond = Box<dyn Fn(&Decided) -> Vec<u8> + Send>;

/// A command of any type, so that its execution is compiled once and not for each type.
struct AnyCommand(Box<dyn Command<Outcome = Respond>>);

impl Command for AnyCommand {
    type Outcome = Respond;

    fn class(&self) -> LogClass {
        self.0.class()
    }

    fn presented_token_hash(&self) -> &[u8] {
        self.0.presented_token_hash()
    }

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, Respond), Refusal> {
        self.0.decide(turn, deciding)
    }
}

/// A command and the function that makes its answer.
struct WithAnswer<C, A> {
    command: C,
    answer: Arc<A>,
}

impl<C, A, O> Command for WithAnswer<C, A>
where
    C: Command,
    A: Fn(&Decided, &C::Outcome) -> O + Send + Sync + 'static,
    O: Message,
{
    type Outcome = Respond;

    fn class(&self) -> LogClass {
        self.command.class()
    }

    fn presented_token_hash(&self) -> &[u8] {
        self.command.presented_token_hash()
    }

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, Respond), Refusal> {
        let (decided, outcome) = self.command.decide(turn, deciding)?;
        let answer = self.answer.clone();
        Ok((decided, Box::new(move |decided| answer(decided, &outcome).encode_to_vec())))
    }
}

/// A command with the rights of its caller.
struct Authorized<C> {
    command: C,
    deciding: Deciding,
}

impl<C: Command> Decide for Authorized<C> {
    type Outcome = C::Outcome;

    fn class(&self) -> LogClass {
        self.command.class()
    }

    fn permit(&self, turn: &mut Turn<'_>) -> Result<(), Refusal> {
        self.deciding.authority.check(turn)
    }

    fn decide(&self, turn: &mut Turn<'_>) -> Result<(Decided, C::Outcome), Refusal> {
        // The command may have been decided before; then its permission is checked again.
        self.deciding.permitted.take();
        self.deciding.compared.take();
        self.deciding.shown.take();
        let (decided, outcome) = self.command.decide(turn, &self.deciding)?;
        if !self.deciding.compared.get() {
            self.deciding.compare_none()?;
        }
        let place = self.deciding.permitted.take().ok_or_else(|| Error::internal(&Unpermitted))?;
        let by_token = self.deciding.shown.borrow().is_some();
        Ok((Decided { place: (!by_token).then_some(place), ..decided }, outcome))
    }
}

/// Reads a resource for a caller who may do with it what the operation does. Writes nothing.
struct ReadResource<R> {
    key: AggregateKey,
    resource: PhantomData<fn() -> R>,
}

impl<R: Resource> Command for ReadResource<R> {
    /// The resource, and the sequence of the log's end.
    type Outcome = (R, u64);

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, (R, u64)), Refusal> {
        let current = turn.get::<Standard<R>>(&self.key);
        let found = current.resource().ok_or(Rejection::NotFound(R::NAME))?.clone();
        let user_id = found.user(&self.key.id).map(str::to_owned);
        let object = Object { name: R::NAME, exists: true, user_id, parts: found.parts(&self.key.id) };
        deciding.permit(turn, &R::context(&self.key.id, current.owner()?), &object)?;
        deciding.compare(&current)?;
        let end = turn.ends().events;
        Ok((deciding.change_nothing(turn, current)?, (found, end)))
    }
}

impl Commands {
    /// Returns how far the state in memory that follows aggregates of a type has been updated.
    fn position_of(&self, aggregate_type: &str) -> Option<&Reached> {
        if ExecutionIndex::follows(aggregate_type) {
            Some(self.actions.executions.position())
        } else if SettingsIndex::follows(aggregate_type) {
            Some(self.settings.position())
        } else {
            Ended::follows(aggregate_type).then(|| self.ended.position())
        }
    }

    /// Gives a command its turn and answers once its outcome is committed.
    pub(crate) async fn execute<C: Command, I: Message, O: Message + Default>(
        &self,
        call: &Call,
        request: &I,
        command: C,
        answer: impl Fn(&Decided, &C::Outcome) -> O + Send + Sync + 'static,
    ) -> Result<Answer<O>, Error> {
        let command = AnyCommand(Box::new(WithAnswer { command, answer: Arc::new(answer) }));
        let asked = AnyRequest { encode: &|| request.encode_to_vec(), bytes: request.encoded_len() };
        let Answer { message, status, metadata } = self.execute_any(call, asked, command).await?;
        let message = O::decode(message.as_slice()).map_err(|error| Error::internal(&error))?;
        Ok(Answer { message, status, metadata })
    }

    /// Executes a command of any type; request and answer are in protobuf.
    async fn execute_any(
        &self,
        call: &Call,
        AnyRequest { encode, bytes }: AnyRequest<'_>,
        command: AnyCommand,
    ) -> Result<Answer<Vec<u8>>, Error> {
        let (once, class) = (replay::once(self, call, encode, command.presented_token_hash()).await?, command.class());
        // The key that the answer needs is loaded before anything is committed.
        self.keyring.key(SYSTEM, Purpose::Consistency).await.map_err(unavailable)?;
        match self.submit(call, bytes, command, once).await? {
            Verdict::Decided(decided, told) => {
                let status = status(call.operation, &decided);
                // What was written is in force on this node at once.
                if let Some(reached) = self.position_of(decided.aggregate_type) {
                    reached.wait_briefly_for(decided.sequence).await;
                }
                self.answer(call, told(&decided), Written { class, sequence: decided.sequence, status }, false).await
            }
            Verdict::Replayed(answered) => {
                COMMANDS_REPLAYED.one().count();
                let (message, status) = replay::stored_answer(self, call, &answered.answer.answer).await?;
                self.answer(call, message, Written { class, sequence: answered.answer.sequence, status }, true).await
            }
        }
    }

    /// Returns a resource and the sequence of the log's end, for a caller who may do with it what the operation does.
    pub(crate) async fn read<R: Resource>(&self, call: &Call, key: &AggregateKey) -> Result<(R, u64), Error> {
        self.seen_by(call, ReadResource { key: key.clone(), resource: PhantomData }).await
    }

    /// Returns a resource ahead of a command on it; see [`seen_ahead`](Self::seen_ahead).
    pub(crate) async fn read_ahead<R: Resource>(&self, call: &Call, key: &AggregateKey) -> Result<Option<R>, Error> {
        let seen = self.seen_ahead(call, ReadResource { key: key.clone(), resource: PhantomData }).await?;
        Ok(seen.map(|(resource, _)| resource))
    }

    /// Returns the outcome of a command that writes nothing, ahead of another one, which reports refusals, other
    /// sequences and earlier answers itself; `None` if there is nothing or the caller may not see it.
    pub(crate) async fn seen_ahead<C: Command>(&self, call: &Call, command: C) -> Result<Option<C::Outcome>, Error> {
        match self.seen_at_any_sequence(call, command).await {
            Err(error) if [Reason::ResourceNotFound, Reason::PermissionDenied].contains(&error.reason()) => Ok(None),
            seen => seen.map(Some),
        }
    }

    /// Returns the outcome of a command that writes nothing, whatever sequence the request names.
    pub(crate) async fn seen_at_any_sequence<C: Command>(&self, call: &Call, command: C) -> Result<C::Outcome, Error> {
        let mut call = call.clone();
        call.if_match = None;
        self.seen_by(&call, command).await
    }

    /// Returns the outcome of a command that writes nothing.
    pub(crate) async fn seen_by<C: Command>(&self, call: &Call, command: C) -> Result<C::Outcome, Error> {
        match self.submit(call, 0, command, None).await? {
            Verdict::Decided(_, seen) => Ok(seen),
            Verdict::Replayed(_) => Err(Error::internal(&Unpermitted)),
        }
    }

    /// Gives a command of `bytes` bytes its turn, with the rights of its caller.
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
        let (compared, shown, permitted) = (Cell::new(false), RefCell::default(), Cell::new(None));
        let deciding = Deciding { if_match, compared, authority, keys, cause, shown, permitted };
        let place = if call.context.kind == OwnerType::System { SYSTEM } else { &call.tenant.id };
        let origin = Origin { operation: call.operation.method, instance_id: place.into(), bytes };
        self.writer.submit(origin, Authorized { command, deciding }, once).await
    }

    async fn answer(
        &self,
        call: &Call,
        message: Vec<u8>,
        Written { class, sequence, status }: Written,
        is_replayed: bool,
    ) -> Result<Answer<Vec<u8>>, Error> {
        tracing::Span::current().record("sequence", sequence);
        let seen = call.seen_with(class, sequence);
        let token = self.tokens.mint_for(&call.home.id, &call.caller.id, seen).await.map_err(unavailable)?;
        let mut metadata = vec![(consistency::HEADER, token)];
        if call.operation.verb != Verb::Delete {
            metadata.push((ETAG, entity_tag(sequence)));
        }
        if is_replayed {
            metadata.push((REPLAYED, "true".to_owned()));
        }
        if let Some(limit) = call.wait
            && timeout(limit, self.read_models_have(class, sequence)).await.is_ok()
        {
            metadata.push((prefer::APPLIED, prefer::WAITED.to_owned()));
        }
        Ok(Answer { message, status, metadata })
    }

    /// Waits until every read model of a log has processed a sequence.
    async fn read_models_have(&self, class: LogClass, sequence: u64) {
        for projection in following(class) {
            // The sender lives as long as the node.
            let _ = self.progress.of(projection).wait_for(|reached| reached.sequence >= sequence).await;
        }
    }
}

/// What the answer to a write is made from, besides its message.
struct Written {
    class: LogClass,
    /// The sequence of the last event.
    sequence: u64,
    status: Option<u16>,
}

#[derive(Debug, thiserror::Error)]
#[error("a command was decided without a permission check")]
struct Unpermitted;
