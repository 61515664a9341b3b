//! The commands that oidc nodes send: a closed list. Only the node that writes listens to them.

mod choose_password;
mod end_session;
mod impersonate;
mod log_in;
mod page_user_agent;
mod put_metadata;
mod refresh;
mod register;
mod revoke;

use std::sync::{Arc, Mutex, PoisonError};

use async_nats::{Client, Message, Subject};
use base::{explain::explain, fair::Room, secret::SymmetricKey};
use edge::{
    error::Error,
    internal::{answer, has_password, is_metadata, key, opened, subject},
};
use futures::StreamExt;
use prost::Message as _;
use proto::bus::{
    Checked, InternalAnswer, InternalCommand, InternalOutcome, InternalRequest, checked::Fault,
    internal_command::Command,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use self::{
    end_session::{End, EndAll},
    impersonate::Impersonate,
    refresh::{Begin, Use},
    revoke::Revoke,
};
use crate::{
    execute::Commands,
    password::{Faults, GUESSABLE},
    trial::Trial,
    turn::{Cause, ClaimKeys},
    writer::{Decide, Origin, Phase, Verdict},
};

/// How many commands are executed at a time; no instance has more of these places than it leaves to others.
const MOST: u64 = 1024;
/// How many commands with a password, which waits for a seat, are executed at a time: all others go on while many are
/// tried.
const MOST_PASSWORDS: u64 = 128;
/// How many commands with metadata are executed at a time: they come as often as tokens are used, and must not hold up
/// logins.
const MOST_METADATA: u64 = 64;
/// The longest id that a command may name, in bytes.
const LONGEST_ID: usize = 200;
/// The actor of events that name themselves the client and the user that they are about.
const ACTOR: &str = "oidc";

/// Executes commands of oidc nodes whenever this node writes.
#[derive(Clone)]
pub struct Taker {
    commands: Arc<Commands>,
    client: Client,
    shard: u16,
    room: Arc<Mutex<Room<Arc<str>>>>,
    room_of_passwords: Arc<Mutex<Room<Arc<str>>>>,
    room_of_metadata: Arc<Mutex<Room<Arc<str>>>>,
}

impl Taker {
    /// Creates a taker that has the writer of this node decide the commands of a shard.
    pub fn new(commands: Arc<Commands>, client: Client, shard: u16) -> Self {
        let room = |most| Arc::new(Mutex::new(Room::new(most)));
        let [room, room_of_passwords, room_of_metadata] = [MOST, MOST_PASSWORDS, MOST_METADATA].map(room);
        Self { commands, client, shard, room, room_of_passwords, room_of_metadata }
    }

    /// Executes commands until `stopping`. The accepted ones are completed on `tasks`.
    pub async fn work(self, tasks: TaskTracker, stopping: CancellationToken) {
        let mut phases = self.commands.writer.phases();
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
                    tracing::error!(error = explain(&error), "cannot subscribe to commands of oidc nodes");
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

    /// Executes a command, if its instance has a free place. Otherwise its sender tries again.
    async fn take(&self, message: Message, tasks: &TaskTracker) {
        let Some(reply) = message.reply else { return };
        let (key, command) = match self.opened(&message.payload).await {
            Ok(opened) => opened,
            Err(answer) => return self.reply(reply, &answer).await,
        };
        let is_password = command.command.as_ref().is_some_and(has_password);
        let is_metadata = command.command.as_ref().is_some_and(is_metadata);
        let room = match (is_password, is_metadata) {
            (true, _) => &self.room_of_passwords,
            (_, true) => &self.room_of_metadata,
            _ => &self.room,
        };
        let Some(place) = CommandPermit::of(room, command.instance_id.as_str().into()) else {
            // Sending it again and again would make it worse where each command waits for a seat.
            let (nonce, checked) = (command.nonce, is_password.then(|| faulty(Fault::Busy)));
            let busy = InternalOutcome { nonce, checked, refused: is_metadata, ..InternalOutcome::default() };
            let full = if is_password || is_metadata { answer(&key, &busy) } else { InternalAnswer::default() };
            return self.reply(reply, &full).await;
        };
        let (taker, bytes) = (self.clone(), message.payload.len());
        tasks.spawn(async move {
            let _place = place;
            let answer = taker.execute(&key, command, bytes).await;
            taker.reply(reply, &answer).await;
        });
    }

    async fn reply(&self, to: Subject, answer: &InternalAnswer) {
        if let Err(error) = self.client.publish(to, answer.encode_to_vec().into()).await {
            tracing::warn!(error = explain(&error), "a command of an oidc node was not answered");
        }
    }

    /// Returns the command that a node has signed, and the key of the signature; otherwise the answer to its sender.
    async fn opened(&self, payload: &[u8]) -> Result<(Arc<SymmetricKey>, InternalCommand), InternalAnswer> {
        let key = key(&self.commands.keyring).await.map_err(|failure| {
            tracing::warn!(error = explain(&failure), "a command of an oidc node cannot be verified");
            InternalAnswer::default()
        })?;
        match InternalRequest::decode(payload).ok().and_then(|request| opened(&key, &request)) {
            Some(command) => Ok((key, command)),
            None => {
                tracing::warn!("a command of an oidc node was refused, because no node has signed it or it is too old");
                Err(answer(&key, &InternalOutcome { refused: true, ..InternalOutcome::default() }))
            }
        }
    }

    async fn execute(&self, key: &SymmetricKey, command: InternalCommand, bytes: usize) -> InternalAnswer {
        let nonce = command.nonce.clone();
        match self.done(command, bytes).await {
            Ok(outcome) => answer(key, &InternalOutcome { nonce, ..outcome }),
            Err(CommandRefusal::Untaken) => InternalAnswer::default(),
            Err(CommandRefusal::Refused) => {
                answer(key, &InternalOutcome { nonce, refused: true, ..InternalOutcome::default() })
            }
        }
    }

    async fn done(&self, command: InternalCommand, bytes: usize) -> Result<InternalOutcome, CommandRefusal> {
        let InternalCommand { instance_id, trace_context, command, .. } = command;
        let keys = ClaimKeys::of(&self.commands.keyring, &instance_id).await.map_err(|_| CommandRefusal::Untaken)?;
        let cause = Cause { actor: ACTOR.to_owned(), trace_context, ..Cause::default() };
        let by = CommandActor { instance_id, keys, cause };
        match command {
            Some(Command::RevokeTokens(asked)) => self.decided(Revoke { by, asked }, bytes).await,
            Some(Command::BeginFamily(asked)) => self.decided(Begin { by, asked }, bytes).await,
            Some(Command::UseRefreshToken(asked)) => self.decided(Use { by, asked }, bytes).await,
            Some(Command::Impersonate(asked)) => self.decided(Impersonate { by, asked }, bytes).await,
            Some(Command::EndSession(asked)) => self.decided(End { by, asked }, bytes).await,
            Some(Command::EndAllSessions(asked)) => self.decided(EndAll { by, asked }, bytes).await,
            Some(Command::CheckPassword(asked)) => self.login_outcome(log_in::check(&self.commands, by, asked).await),
            Some(Command::ChangePassword(asked)) => {
                self.login_outcome(choose_password::choose(&self.commands, by, asked).await)
            }
            Some(Command::Register(asked)) => self.login_outcome(register::register(&self.commands, by, asked).await),
            Some(Command::PutMetadata(asked)) => {
                put_metadata::put(&self.commands, by, asked, bytes).await.map_err(|error| self.refusal(&error))
            }
            None => Err(CommandRefusal::Refused),
        }
    }

    async fn decided<C: Ask>(&self, command: C, bytes: usize) -> Result<InternalOutcome, CommandRefusal> {
        if command.by().instance_id.is_empty() || !command.is_sound() {
            return Err(CommandRefusal::Refused);
        }
        let origin = Origin { operation: C::NAME, instance_id: command.by().instance_id.as_str().into(), bytes };
        match self.commands.writer.submit(origin, command, None).await {
            Ok(Verdict::Decided(decided, outcome)) => Ok(InternalOutcome { sequence: decided.sequence, ..outcome }),
            Ok(Verdict::Replayed(_)) => Err(CommandRefusal::Refused),
            Err(error) => Err(self.refusal(&error)),
        }
    }

    /// Returns the outcome for a person who logs in, registers or changes a password.
    fn login_outcome(&self, checked: Result<Checked, Error>) -> Result<InternalOutcome, CommandRefusal> {
        let checked = checked.map_err(|error| self.refusal(&error))?;
        if checked.fault() == Fault::Busy && *self.commands.writer.phases().borrow() != Phase::Active {
            return Err(CommandRefusal::Untaken);
        }
        Ok(InternalOutcome { checked: Some(checked), ..InternalOutcome::default() })
    }

    /// Returns why a command was not done.
    fn refusal(&self, error: &Error) -> CommandRefusal {
        let reason = error.reason().name();
        if *self.commands.writer.phases().borrow() != Phase::Active {
            tracing::debug!(reason, "a command of an oidc node is left to another writer");
            return CommandRefusal::Untaken;
        }
        tracing::warn!(reason, "a command of an oidc node was not executed");
        CommandRefusal::Refused
    }
}

/// A command that an oidc node sends.
trait Ask: Decide<Outcome = InternalOutcome> {
    /// The name of the command in metrics.
    const NAME: &'static str;

    /// Returns in whose name the command is executed.
    fn by(&self) -> &CommandActor;

    /// Whether the command is about something that can exist.
    fn is_sound(&self) -> bool;
}

/// In whose name a command is executed, and in which instance.
#[derive(Clone)]
struct CommandActor {
    instance_id: String,
    keys: ClaimKeys,
    cause: Cause,
}

impl CommandActor {
    /// Returns the trial of a password that a command contains.
    fn trial(&self, command: &'static str) -> Trial {
        Trial { instance_id: self.instance_id.clone(), operation: command, cause: self.cause.clone() }
    }
}

/// Returns the answer to a person who is not let in.
fn faulty(fault: Fault) -> Checked {
    Checked { fault: fault.into(), ..Checked::default() }
}

/// Returns what is wrong with a new password.
fn fault_of_new(faults: &Faults) -> Fault {
    if faults.rules == [GUESSABLE] { Fault::Guessable } else { Fault::Rules }
}

/// Whether something may be an id.
fn is_id(id: &str) -> bool {
    (1..=LONGEST_ID).contains(&id.len())
}

/// A place of an instance, until it is dropped.
struct CommandPermit {
    room: Arc<Mutex<Room<Arc<str>>>>,
    instance_id: Arc<str>,
}

impl CommandPermit {
    fn of(room: &Arc<Mutex<Room<Arc<str>>>>, instance_id: Arc<str>) -> Option<Self> {
        room.lock().unwrap_or_else(PoisonError::into_inner).take(&instance_id, 1).ok()?;
        Some(Self { room: room.clone(), instance_id })
    }
}

impl Drop for CommandPermit {
    fn drop(&mut self) {
        self.room.lock().unwrap_or_else(PoisonError::into_inner).give_back(&self.instance_id, 1);
    }
}

/// Why a command was not done, as reported to its sender.
enum CommandRefusal {
    /// The command can be sent again.
    Untaken,
    Refused,
}
