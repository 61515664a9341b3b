//! The shell of a command: authorise, load, decide, commit, answer.

use std::sync::Arc;

use bytes::Bytes;
use domain::{address::Allowed, aggregate::Aggregate, context::Owner};
use prost::Message;
use proto::operation::Verb;
use store::{
    id::Ids,
    keyring::{Keyring, Purpose, SYSTEM},
    metric::catalog::COMMANDS_REPLAYED,
    progress::Progress,
    projection::PROJECTIONS,
    record::Key,
    secret,
};
use tokio::time::timeout;
use transport::{
    consistency::{self, Tokens, unavailable},
    details::{ETAG, entity_tag},
    edge::Call,
    error::{Error, Reason},
    mount::Answer,
    precondition::IfMatch,
    prefer,
};

use crate::{
    authority::Authority,
    turn::{Cause, ClaimKeys, Decided, Stop, Turn},
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

impl Commands {
    /// Lets a command have its turn and answers when its outcome is committed.
    pub(crate) async fn execute<A: Aggregate, I: Message, O: Message + Default>(
        &self,
        call: &Call,
        request: &I,
        command: Command<A>,
        answer: impl Fn(&Decided) -> O + Send + Sync + 'static,
    ) -> Result<Answer<O>, Error> {
        let instance_id = &call.tenant.id;
        let keys = ClaimKeys {
            instance: self.keyring.key(instance_id, Purpose::Claim).await.map_err(unavailable)?,
            system: self.keyring.key(SYSTEM, Purpose::Claim).await.map_err(unavailable)?,
        };
        let answer = Arc::new(answer);
        let once = self.once(call, request, answer.clone()).await?;
        let command_id =
            once.as_ref().map_or_else(|| secret::random::<16>().to_vec().into(), |once| once.command_id.clone());
        let cause = Cause { actor: call.caller.id.clone(), command_id, trace_context: call.trace_context.clone() };
        let authority = Authority::of(call, &keys);
        let if_match = call.if_match.clone();
        // What the answer needs is at hand before anything is committed.
        self.keyring.key(SYSTEM, Purpose::Consistency).await.map_err(unavailable)?;
        let permit = move |turn: &mut Turn<'_>| authority.check(turn);
        let decide = move |turn: &mut Turn<'_>| decide(turn, &command, if_match.as_ref(), &keys, &cause);
        match self.writer.submit(Box::new(permit), Box::new(decide), once).await? {
            Verdict::Decided(decided) => self.answer(call, answer(&decided), decided.sequence, false).await,
            Verdict::Replayed(answered) => {
                COMMANDS_REPLAYED.one().count();
                let key = self.keyring.key(instance_id, Purpose::Answer).await.map_err(unavailable)?;
                let opened =
                    key.open_bytes(ANSWER, &answered.answer.answer).map_err(|error| Error::internal(&error))?;
                let message = O::decode(opened.as_slice()).map_err(|error| Error::internal(&error))?;
                self.answer(call, message, answered.answer.sequence, true).await
            }
        }
    }

    async fn answer<O>(&self, call: &Call, message: O, sequence: u64, is_replayed: bool) -> Result<Answer<O>, Error> {
        tracing::Span::current().record("sequence", sequence);
        let token = self.tokens.mint_for(&call.tenant.id, &call.caller.id, sequence).await.map_err(unavailable)?;
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
        Ok(Answer { message, status: None, metadata })
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
        let instance_id = call.tenant.id.clone();
        let key = self.keyring.key(&instance_id, Purpose::Answer).await.map_err(unavailable)?;
        let command_id = key.mac(&[instance_id.as_bytes(), call.caller.id.as_bytes(), given.as_bytes()]);
        let if_match = call.if_match.as_ref().map(IfMatch::to_bytes).unwrap_or_default();
        // Keyed, so that nobody can guess from the log what was asked.
        let digest = key.mac(&[b"request", call.operation.grpc.as_bytes(), &if_match, &request.encode_to_vec()]);
        Ok(Some(Once {
            command_id: Bytes::copy_from_slice(&command_id),
            request_digest: digest,
            instance_id,
            answer: Box::new(move |decided| key.seal_bytes(ANSWER, &answer(decided).encode_to_vec()).into()),
        }))
    }
}

fn decide<A: Aggregate>(
    turn: &mut Turn<'_>,
    command: &Command<A>,
    if_match: Option<&IfMatch>,
    keys: &ClaimKeys,
    cause: &Cause,
) -> Result<Decided, Stop> {
    let known = if command.is_new { Some(turn.unborn(&command.key)?) } else { turn.get::<A>(&command.key)? };
    turn.complete()?;
    let Some(known) = known else { return Err(Stop::Missing) };
    let events = A::decide(&known.state, command.asked.clone())
        .map_err(|rejection| Stop::Refused(Box::new(rejection.into())))?;
    if let Some(expected) = if_match
        && !expected.has(known.place.sequence)
    {
        let message = format!("the object has sequence {}, which If-Match does not name", known.place.sequence);
        let mismatch = Error::new(Reason::SequenceMismatch, message).with("sequence", known.place.sequence.to_string());
        return Err(Stop::Refused(Box::new(mismatch)));
    }
    turn.append::<A>(&command.key, known, &command.owner, &events, (keys, cause))
}
