//! Internal commands, a closed list, which oidc nodes send over the bus for the writer to decide. Only clients that
//! may publish to their subject can send them, and only nodes can sign them.

mod metadata;

use std::time::Duration;

use async_nats::{Client, RequestErrorKind};
use base::{
    clock,
    secret::{self, SymmetricKey},
};
use prost::Message;
use proto::bus::{InternalAnswer, InternalCommand, InternalOutcome, InternalRequest, internal_command::Command};
use tokio::time::{Instant, sleep, timeout_at};
use view::keyring::{Keyring, KeyringFailure, Purpose, SYSTEM};

pub use self::metadata::metadata_fault;

/// How long a command is sent again while no node writes: longer than a take-over takes.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long an answer is waited for before a command is sent again: the node may have ended.
const ANSWERED: Duration = Duration::from_secs(4);
/// The pause before a command is sent again.
const PAUSE: Duration = Duration::from_millis(100);
/// How old an executed command may be, in microseconds: as long as it is sent again, with a minute for clocks.
const OLDEST: i64 = 70_000_000;
/// The prefixes that tell signatures of commands and outcomes apart.
const OF_COMMAND: &[u8] = b"internal command";
const OF_OUTCOME: &[u8] = b"internal outcome";

/// Sends internal commands to the writer.
#[derive(Clone)]
pub struct Internal {
    client: Client,
    shard: u16,
    keyring: Keyring,
}

/// Why a command was not done, or may not have been.
#[derive(Debug, thiserror::Error)]
pub enum CommandFailure {
    /// No key is available to sign it with.
    #[error(transparent)]
    Keyring(#[from] KeyringFailure),
    /// No node writes.
    #[error("no node writes to the log")]
    NoWriter,
    /// The command was refused, or its outcome is unknown.
    #[error("the writer did not execute the command, or did not confirm it")]
    Unknown,
}

/// The subject that commands are sent to.
pub fn subject(shard: u16) -> String {
    format!("internal.{shard}")
}

/// The key that nodes sign with: that of consistency tokens, which are signed as one part, and commands as two.
///
/// # Errors
/// When it is unavailable.
pub async fn key(keyring: &Keyring) -> Result<std::sync::Arc<SymmetricKey>, KeyringFailure> {
    keyring.key(SYSTEM, Purpose::Consistency).await
}

/// Opens the command of a request, if a node has signed it a moment ago.
pub fn opened(key: &SymmetricKey, request: &InternalRequest) -> Option<InternalCommand> {
    let is_ours = secret::constant_time_eq(&key.mac(&[OF_COMMAND, &request.command]), &request.mac);
    let command = is_ours.then(|| InternalCommand::decode(&*request.command).ok())??;
    let age = clock::now().as_microsecond().abs_diff(command.sent_at);
    (age <= OLDEST.unsigned_abs()).then_some(command)
}

/// Signs the answer with the outcome of a command.
pub fn answer(key: &SymmetricKey, outcome: &InternalOutcome) -> InternalAnswer {
    let outcome = outcome.encode_to_vec();
    let mac = key.mac(&[OF_OUTCOME, &outcome]).to_vec();
    InternalAnswer { outcome: outcome.into(), mac: mac.into() }
}

fn request(key: &SymmetricKey, command: &InternalCommand) -> InternalRequest {
    let command = command.encode_to_vec();
    let mac = key.mac(&[OF_COMMAND, &command]).to_vec();
    InternalRequest { command: command.into(), mac: mac.into() }
}

/// Opens the outcome of a command, if a node with the key has signed it.
fn open_outcome(key: &SymmetricKey, nonce: &[u8], answer: &InternalAnswer) -> Option<InternalOutcome> {
    let is_ours = secret::constant_time_eq(&key.mac(&[OF_OUTCOME, &answer.outcome]), &answer.mac);
    let outcome = is_ours.then(|| InternalOutcome::decode(&*answer.outcome).ok())??;
    (outcome.nonce == nonce).then_some(outcome)
}

impl std::fmt::Debug for Internal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Internal").field("shard", &self.shard).finish_non_exhaustive()
    }
}

impl Internal {
    /// A sender of commands to the writer of this shard.
    pub const fn new(client: Client, shard: u16, keyring: Keyring) -> Self {
        Self { client, shard, keyring }
    }

    /// Sends a command of an instance, and returns its outcome. It may be sent more than once, so it must be
    /// idempotent; commands that are not are not sent again once they were accepted.
    ///
    /// # Errors
    /// When it is not certain that it was executed.
    pub async fn send(
        &self,
        instance_id: &str,
        trace_context: &str,
        command: Command,
    ) -> Result<InternalOutcome, CommandFailure> {
        let key = key(&self.keyring).await?;
        let may_be_repeated = may_be_repeated(&command);
        let nonce = secret::random::<16>().to_vec();
        let command = InternalCommand {
            instance_id: instance_id.to_owned(),
            sent_at: clock::now().as_microsecond(),
            nonce: nonce.clone().into(),
            trace_context: trace_context.to_owned(),
            command: Some(command),
        };
        let payload = bytes::Bytes::from(request(&key, &command).encode_to_vec());
        let deadline = Instant::now() + PATIENCE;
        let answered_within = if may_be_repeated { ANSWERED } else { PATIENCE };
        loop {
            let asking = async_nats::Request::new().payload(payload.clone()).timeout(None);
            let answered_by = deadline.min(Instant::now() + answered_within);
            match timeout_at(answered_by, self.client.send_request(subject(self.shard), asking)).await {
                Ok(Ok(message)) => match InternalAnswer::decode(message.payload) {
                    // The node is not the writer.
                    Ok(answer) if answer.outcome.is_empty() => {}
                    Ok(answer) => {
                        let outcome = open_outcome(&key, &nonce, &answer).filter(|outcome| !outcome.refused);
                        return outcome.ok_or(CommandFailure::Unknown);
                    }
                    Err(_) => return Err(CommandFailure::Unknown),
                },
                Ok(Err(error)) if error.kind() == RequestErrorKind::NoResponders => {}
                Err(_) if Instant::now() < deadline => {}
                Ok(Err(_)) | Err(_) => return Err(CommandFailure::Unknown),
            }
            if Instant::now() + PAUSE >= deadline {
                return Err(CommandFailure::NoWriter);
            }
            sleep(PAUSE).await;
        }
    }
}

/// Whether a command may be executed twice. A password counts as a try each time that it is sent, and may wait for its
/// turn; metadata would be reset if somebody else had set it meanwhile.
const fn may_be_repeated(command: &Command) -> bool {
    !has_password(command) && !is_metadata(command)
}

/// Whether a command sets metadata, which targets of functions may have done at each use of a token.
pub const fn is_metadata(command: &Command) -> bool {
    matches!(command, Command::PutMetadata(_))
}

/// Whether a command contains a password, which takes a seat to be hashed or compared.
pub const fn has_password(command: &Command) -> bool {
    matches!(command, Command::CheckPassword(_) | Command::ChangePassword(_) | Command::Register(_))
}

#[cfg(test)]
mod tests {
    use proto::bus::RevokeTokens;

    use super::*;

    fn command(sent_at: i64) -> InternalCommand {
        let revoke = RevokeTokens { token_id: "a".into(), ..RevokeTokens::default() };
        let command = Some(Command::RevokeTokens(revoke));
        InternalCommand { sent_at, command, ..InternalCommand::default() }
    }

    #[test]
    fn only_what_a_node_has_signed_a_moment_ago_is_done() {
        let (key, now) = (SymmetricKey::random(), clock::now().as_microsecond());
        let sent = request(&key, &command(now));
        assert_eq!(opened(&key, &sent), Some(command(now)));
        assert_eq!(opened(&SymmetricKey::random(), &sent), None, "another key");
        let changed = InternalRequest { command: command(now + 1).encode_to_vec().into(), ..sent };
        assert_eq!(opened(&key, &changed), None, "changed on its way");
        for at in [now - 2 * OLDEST, now + 2 * OLDEST, i64::MIN, i64::MAX] {
            assert_eq!(opened(&key, &request(&key, &command(at))), None, "{at}");
        }
        let token = key.mac(&[&sent.command]);
        let of_another_kind = InternalRequest { mac: token.to_vec().into(), ..request(&key, &command(now)) };
        assert_eq!(opened(&key, &of_another_kind), None, "signed as something else");
    }

    #[test]
    fn an_outcome_is_that_of_its_command() {
        let key = SymmetricKey::random();
        let told = InternalOutcome { nonce: "n".into(), sequence: 7, ..InternalOutcome::default() };
        assert_eq!(open_outcome(&key, b"n", &answer(&key, &told)), Some(told.clone()));
        assert_eq!(open_outcome(&key, b"m", &answer(&key, &told)), None);
        assert_eq!(open_outcome(&key, b"n", &answer(&SymmetricKey::random(), &told)), None);
    }
}
