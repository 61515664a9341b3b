//! Commands that oidc nodes have the node decide that writes, over the bus: a closed list. Only who may publish to their subject can
//! send them, and only nodes can sign them.

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

/// How long one is sent again while nobody writes: longer than a take-over takes.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long an answer is waited for before it is sent again: the node may have ended.
const ANSWERED: Duration = Duration::from_secs(4);
/// How long it waits before it is sent again.
const PAUSE: Duration = Duration::from_millis(100);
/// How old one may be that is done, in microseconds: as long as it is sent again, with clocks that differ by a minute.
const OLDEST: i64 = 70_000_000;
/// What is signed as such.
const OF_COMMAND: &[u8] = b"internal command";
const OF_OUTCOME: &[u8] = b"internal outcome";

/// Has commands decided.
#[derive(Clone)]
pub struct Internal {
    client: Client,
    shard: u16,
    keyring: Keyring,
}

/// Why a command was not done, or may not have been.
#[derive(Debug, thiserror::Error)]
pub enum Undone {
    /// There is no key to sign it with.
    #[error(transparent)]
    Keyring(#[from] KeyringFailure),
    /// Nobody writes.
    #[error("no node writes")]
    NoWriter,
    /// It was refused, or it is not known what became of it.
    #[error("the node that writes did not do it, or did not say so")]
    Unknown,
}

/// Where they are sent to.
pub fn subject(shard: u16) -> String {
    format!("internal.{shard}")
}

/// What nodes sign with. The key is that of consistency tokens, which are signed as one part; what is signed here has two.
///
/// # Errors
/// When it cannot be had.
pub async fn key(keyring: &Keyring) -> Result<std::sync::Arc<SymmetricKey>, KeyringFailure> {
    keyring.key(SYSTEM, Purpose::Consistency).await
}

/// The command of a request, if a node has signed it a moment ago.
pub fn opened(key: &SymmetricKey, request: &InternalRequest) -> Option<InternalCommand> {
    let is_ours = secret::same(&key.mac(&[OF_COMMAND, &request.command]), &request.mac);
    let command = is_ours.then(|| InternalCommand::decode(&*request.command).ok())??;
    let age = clock::now().as_microsecond().abs_diff(command.sent_at);
    (age <= OLDEST.unsigned_abs()).then_some(command)
}

/// The answer that says what became of a command.
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

/// What became of a command, if that is what a node says that has its key.
fn outcome(key: &SymmetricKey, nonce: &[u8], answer: &InternalAnswer) -> Option<InternalOutcome> {
    let is_ours = secret::same(&key.mac(&[OF_OUTCOME, &answer.outcome]), &answer.mac);
    let outcome = is_ours.then(|| InternalOutcome::decode(&*answer.outcome).ok())??;
    (outcome.nonce == nonce).then_some(outcome)
}

impl std::fmt::Debug for Internal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Internal").field("shard", &self.shard).finish_non_exhaustive()
    }
}

impl Internal {
    /// Sends to whoever writes this shard.
    pub const fn new(client: Client, shard: u16, keyring: Keyring) -> Self {
        Self { client, shard, keyring }
    }

    /// Has a command of an instance decided, and says what became of it. It may be sent more than once, so it must be one that
    /// changes nothing the second time; others are not sent again once they were taken.
    ///
    /// # Errors
    /// Where it is not certain that it was done.
    pub async fn ask(
        &self,
        instance_id: &str,
        trace_context: &str,
        command: Command,
    ) -> Result<InternalOutcome, Undone> {
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
                    // The node writes no longer, or not yet.
                    Ok(answer) if answer.outcome.is_empty() => {}
                    Ok(answer) => {
                        let outcome = outcome(&key, &nonce, &answer).filter(|outcome| !outcome.refused);
                        return outcome.ok_or(Undone::Unknown);
                    }
                    Err(_) => return Err(Undone::Unknown),
                },
                Ok(Err(error)) if error.kind() == RequestErrorKind::NoResponders => {}
                Err(_) if Instant::now() < deadline => {}
                Ok(Err(_)) | Err(_) => return Err(Undone::Unknown),
            }
            if Instant::now() + PAUSE >= deadline {
                return Err(Undone::NoWriter);
            }
            sleep(PAUSE).await;
        }
    }
}

/// Whether a command may be done twice. Each time that a password is sent counts as a try, and it may wait for its turn; metadata that somebody
/// else has set meanwhile would be set back.
const fn may_be_repeated(command: &Command) -> bool {
    !has_password(command) && !is_metadata(command)
}

/// Whether a command sets metadata, which targets of functions may have done at each use of a token.
pub const fn is_metadata(command: &Command) -> bool {
    matches!(command, Command::PutMetadata(_))
}

/// Whether a command has a password in it, which takes a seat to be hashed or compared.
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
        assert_eq!(outcome(&key, b"n", &answer(&key, &told)), Some(told.clone()));
        assert_eq!(outcome(&key, b"m", &answer(&key, &told)), None);
        assert_eq!(outcome(&key, b"n", &answer(&SymmetricKey::random(), &told)), None);
    }
}
