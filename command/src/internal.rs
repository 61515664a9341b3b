//! The commands that oidc nodes send: a closed list. Only the node that writes listens to them.

use std::sync::{Arc, Mutex, PoisonError};

use async_nats::{Client, Message, Subject};
use base::{clock, explain::explain, fair::Room, secret::Key};
use domain::{
    aggregate::Aggregate,
    context::Owner,
    log_class::LogClass,
    token_revocation::{Revoked, TokenRevocation, id_of_all},
};
use edge::internal::{answer, key, opened, subject};
use eventlog::record::AggregateKey;
use futures::StreamExt;
use prost::Message as _;
use proto::bus::{
    InternalAnswer, InternalCommand, InternalOutcome, InternalRequest, RevokeTokens, internal_command::Command,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use view::{
    keyring::Keyring,
    revoked::{LONGEST_LIFE, REMEMBERED},
};

use crate::{
    turn::{Cause, ClaimKeys, Decided, Refusal, Turn},
    writer::{Decide, Handle, Origin, Phase, Verdict},
};

/// How many are done at a time; no instance has more of them than it leaves to others.
const MOST: u64 = 1024;
/// The longest id of what is named.
const LONGEST_ID: usize = 200;
/// Who is named as having revoked tokens: their client, beside which the user stands in the event.
const ACTOR: &str = "oidc";

/// Takes commands of oidc nodes whenever this node writes.
#[derive(Clone)]
pub struct Taker {
    writer: Handle,
    keyring: Keyring,
    client: Client,
    shard: u16,
    room: Arc<Mutex<Room<Arc<str>>>>,
}

impl Taker {
    /// One that has commands of a shard decided by this writer. The keyring has the key that they are signed with.
    pub fn new(writer: Handle, keyring: Keyring, client: Client, shard: u16) -> Self {
        Self { writer, keyring, client, shard, room: Arc::new(Mutex::new(Room::new(MOST))) }
    }

    /// Does so until `stopping`. What it has taken is done by these tasks.
    pub async fn work(self, tasks: TaskTracker, stopping: CancellationToken) {
        let mut phases = self.writer.phases();
        loop {
            tokio::select! {
                active = phases.wait_for(|phase| *phase == Phase::Active) => {
                    if active.is_err() {
                        return;
                    }
                }
                () = stopping.cancelled() => return,
            }
            let mut requests = match self.client.subscribe(subject(self.shard)).await {
                Ok(requests) => requests,
                Err(error) => {
                    tracing::error!(error = explain(&error), "commands of oidc nodes cannot be heard");
                    return;
                }
            };
            loop {
                let message = tokio::select! {
                    message = requests.next() => message,
                    _ = phases.wait_for(|phase| *phase != Phase::Active) => None,
                    () = stopping.cancelled() => return,
                };
                let Some(message) = message else { break };
                tokio::select! {
                    () = self.take(message, &tasks) => {}
                    () = stopping.cancelled() => return,
                }
            }
        }
    }

    /// Has a command done, where its instance has a place. Otherwise its sender tries again.
    async fn take(&self, message: Message, tasks: &TaskTracker) {
        let Some(reply) = message.reply else { return };
        let (key, command) = match self.opened(&message.payload).await {
            Ok(opened) => opened,
            Err(answer) => return self.reply(reply, &answer).await,
        };
        let Some(place) = Place::of(&self.room, command.instance_id.as_str().into()) else {
            return self.reply(reply, &InternalAnswer::default()).await;
        };
        let (taker, bytes) = (self.clone(), message.payload.len());
        tasks.spawn(async move {
            let _place = place;
            let answer = taker.outcome(&key, command, bytes).await;
            taker.reply(reply, &answer).await;
        });
    }

    async fn reply(&self, to: Subject, answer: &InternalAnswer) {
        if let Err(error) = self.client.publish(to, answer.encode_to_vec().into()).await {
            tracing::warn!(error = explain(&error), "a command of an oidc node was not answered");
        }
    }

    /// What a node has signed, with the key that it did so with; otherwise what its sender is told.
    async fn opened(&self, payload: &[u8]) -> Result<(Arc<Key>, InternalCommand), InternalAnswer> {
        let key = key(&self.keyring).await.map_err(|failure| {
            tracing::warn!(error = explain(&failure), "a command of an oidc node cannot be verified");
            InternalAnswer::default()
        })?;
        match InternalRequest::decode(payload).ok().and_then(|request| opened(&key, &request)) {
            Some(command) => Ok((key, command)),
            None => {
                tracing::warn!(
                    "something that no node has signed, or that is old, was sent as a command of an oidc node"
                );
                Err(answer(&key, &InternalOutcome { refused: true, ..InternalOutcome::default() }))
            }
        }
    }

    async fn outcome(&self, key: &Key, command: InternalCommand, bytes: usize) -> InternalAnswer {
        let nonce = command.nonce.clone();
        match self.done(command, bytes).await {
            Ok(sequence) => answer(key, &InternalOutcome { nonce, sequence, refused: false }),
            Err(Undone::Untaken) => InternalAnswer::default(),
            Err(Undone::Refused) => answer(key, &InternalOutcome { nonce, sequence: 0, refused: true }),
        }
    }

    async fn done(&self, command: InternalCommand, bytes: usize) -> Result<u64, Undone> {
        let InternalCommand { instance_id, trace_context, command, .. } = command;
        let Some(Command::RevokeTokens(revoke)) = command else { return Err(Undone::Refused) };
        let keys = ClaimKeys::of(&self.keyring, &instance_id).await.map_err(|_| Undone::Untaken)?;
        let cause = Cause { actor: ACTOR.to_owned(), trace_context, ..Cause::default() };
        let origin = Origin { operation: "RevokeTokens", instance_id: instance_id.as_str().into(), bytes };
        let revoke = Revoke { instance_id, revoke, keys, cause };
        if !revoke.is_sound() {
            return Err(Undone::Refused);
        }
        match self.writer.submit(origin, revoke, None).await {
            Ok(Verdict::Decided(decided, ())) => Ok(decided.sequence),
            Ok(Verdict::Replayed(_)) => Err(Undone::Refused),
            Err(error) if *self.writer.phases().borrow() != Phase::Active => {
                tracing::debug!(reason = error.reason().name(), "a command of an oidc node is left to another writer");
                Err(Undone::Untaken)
            }
            Err(error) => {
                tracing::warn!(reason = error.reason().name(), "a command of an oidc node was not done");
                Err(Undone::Refused)
            }
        }
    }
}

/// A place of an instance, until it is dropped.
struct Place {
    room: Arc<Mutex<Room<Arc<str>>>>,
    instance_id: Arc<str>,
}

impl Place {
    fn of(room: &Arc<Mutex<Room<Arc<str>>>>, instance_id: Arc<str>) -> Option<Self> {
        room.lock().unwrap_or_else(PoisonError::into_inner).take(&instance_id, 1).ok()?;
        Some(Self { room: room.clone(), instance_id })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.room.lock().unwrap_or_else(PoisonError::into_inner).give_back(&self.instance_id, 1);
    }
}

/// Why a command was not done, as its sender is told.
enum Undone {
    /// It can be sent again.
    Untaken,
    Refused,
}

/// Revokes tokens.
struct Revoke {
    instance_id: String,
    revoke: RevokeTokens,
    keys: ClaimKeys,
    cause: Cause,
}

impl Revoke {
    /// Whether it is about something that can be revoked, for a time after which it can be forgotten.
    fn is_sound(&self) -> bool {
        let RevokeTokens { user_id, client_id, token_id, expires_at, .. } = &self.revoke;
        let is_id = |id: &String| (1..=LONGEST_ID).contains(&id.len());
        let is_in_time = *expires_at <= (clock::now() + REMEMBERED).as_millisecond();
        // One with a dot would be that of all tokens of somebody.
        let is_token = token_id.len() <= LONGEST_ID && !token_id.contains('.');
        is_id(user_id) && is_id(client_id) && is_token && is_in_time && !self.instance_id.is_empty()
    }
}

impl Decide for Revoke {
    type Outcome = ();

    fn class(&self) -> LogClass {
        TokenRevocation::CLASS
    }

    fn decide(&self, turn: &mut Turn<'_>) -> Result<(Decided, ()), Refusal> {
        let RevokeTokens { user_id, client_id, token_id, expires_at, seen } = &self.revoke;
        let is_all = token_id.is_empty();
        let id = if is_all { id_of_all(user_id, client_id) } else { token_id.clone() };
        let key = AggregateKey::of::<TokenRevocation>(self.instance_id.as_str(), id);
        let current = turn.get::<TokenRevocation>(&key).owned_by(&Owner::instance(&self.instance_id));
        let revoked =
            Revoked { user_id: user_id.clone(), client_id: client_id.clone(), expires_at: *expires_at, is_all };
        // It may be sent again, and whoever has many tokens of one user and client revokes each.
        let is_remembered = turn.now() < current.head.changed_at + LONGEST_LIFE;
        let events = if is_all && current.head.sequence > *seen && is_remembered {
            vec![]
        } else {
            TokenRevocation::decide(&current.state, revoked)?
        };
        Ok((turn.append(current, &events, &self.keys, &self.cause)?, ()))
    }
}
