//! Writes metadata of a user for targets of functions, as the API does, all entries in one command. What changes is
//! decided in the turn, on the state at that time, and not on what an oidc node has read.

use domain::{
    aggregate::Aggregate,
    resource::{
        user::{Human, User},
        user_metadata::UserMetadata,
    },
    standard::{Command, Resource, Standard},
};
use edge::{error::Error, internal::metadata_fault};
use eventlog::record::AggregateKey;
use proto::bus::{InternalOutcome, MetadataEntry, PutMetadata};

use super::{CommandActor, log_in::decided};
use crate::{
    execute::Commands,
    existence, person_key,
    reaction::delivery,
    turn::{Decided, Refusal, Turn},
    writer::{Decide, Origin, writer_unavailable},
};

/// The name of the command in metrics.
const NAME: &str = "PutMetadata";
/// How often the state is read, if it changes before the turn.
const LOOKS: usize = 4;

/// Writes entries, and returns the sequence as of which the user has them, or that the instance has no such user. The
/// request has `bytes` bytes.
pub(super) async fn put(
    commands: &Commands,
    mut by: CommandActor,
    asked: PutMetadata,
    bytes: usize,
) -> Result<InternalOutcome, Error> {
    if metadata_fault(&asked).is_some() || by.instance_id.is_empty() {
        return Ok(InternalOutcome { refused: true, ..InternalOutcome::default() });
    }
    // Events carry the nesting depth of the executions that led to them, so that these do not call each other for ever.
    by.cause.causation_id = delivery::causation(asked.depth);
    let origin = || Origin { operation: NAME, instance_id: by.instance_id.as_str().into(), bytes };
    for _ in 0..LOOKS {
        let look = ReadMetadata { by: by.clone(), asked: asked.clone() };
        let Some(there) = decided(commands, origin(), look).await? else {
            return Ok(InternalOutcome { denied: true, ..InternalOutcome::default() });
        };
        let entries = entries(commands, &by, &asked, &there).await?;
        let put = Put { by: by.clone(), asked: asked.clone(), there, entries };
        if let Some(sequence) = decided(commands, origin(), put).await? {
            return Ok(InternalOutcome { sequence, ..InternalOutcome::default() });
        }
    }
    Err(writer_unavailable("the metadata of the user changes too often: send the request again"))
}

/// Returns the key of a user.
fn user_key(by: &CommandActor, asked: &PutMetadata) -> AggregateKey {
    AggregateKey::of::<Standard<User>>(by.instance_id.as_str(), asked.user_id.as_str())
}

/// Returns the key of an entry.
fn entry_key(by: &CommandActor, asked: &PutMetadata, entry: &MetadataEntry) -> AggregateKey {
    let id = UserMetadata::id_below(&asked.user_id, &entry.key);
    AggregateKey::of::<Standard<UserMetadata>>(by.instance_id.as_str(), id)
}

/// The state of a user and of the entries.
#[derive(PartialEq, Eq)]
struct MetadataState {
    /// The person, where the user is one.
    human: Option<Human>,
    /// The entries in the order of the request.
    entries: Vec<Option<UserMetadata>>,
}

impl MetadataState {
    /// Reads the state; `None` if there is no such user.
    fn of(turn: &mut Turn<'_>, by: &CommandActor, asked: &PutMetadata) -> Option<Self> {
        let key = user_key(by, asked);
        let user = turn.get::<Standard<User>>(&key);
        let entry = |entry| turn.get::<Standard<UserMetadata>>(&entry_key(by, asked, entry)).resource().cloned();
        let entries = asked.entries.iter().map(entry).collect();
        let is_there = existence::is_there::<User>(turn, &key);
        let found = user.resource().filter(|_| is_there)?;
        Some(Self { human: found.human.clone(), entries })
    }
}

/// Reads the state.
struct ReadMetadata {
    by: CommandActor,
    asked: PutMetadata,
}

impl Decide for ReadMetadata {
    type Outcome = Option<MetadataState>;

    fn decide(&self, turn: &mut Turn<'_>) -> Result<(Decided, Option<MetadataState>), Refusal> {
        let there = MetadataState::of(turn, &self.by, &self.asked);
        Ok((turn.nothing_decided(User::NAME), there))
    }
}

/// Returns the entries as events store them: those of a person sealed with its key, with an existing ciphertext of
/// the same value.
async fn entries(
    commands: &Commands,
    by: &CommandActor,
    asked: &PutMetadata,
    there: &MetadataState,
) -> Result<Vec<UserMetadata>, Error> {
    let PutMetadata { user_id, entries, .. } = asked;
    let sealing = match &there.human {
        Some(human) => Some(person_key::key_of_person(commands, &by.instance_id, user_id, human).await?.0),
        None => None,
    };
    let entry = |(MetadataEntry { key, value }, before): (&MetadataEntry, &Option<UserMetadata>)| {
        let before = before.as_ref().and_then(|before| before.sealed.clone());
        let sealed = sealing.as_ref().map(|sealing| sealing.resealed_metadata(key, value, before));
        let value = sealed.is_none().then(|| value.clone());
        UserMetadata { user_id: user_id.clone(), key: key.clone(), value, sealed }
    };
    Ok(entries.iter().zip(&there.entries).map(entry).collect())
}

/// Writes the entries, if the state still is the one that was read.
struct Put {
    by: CommandActor,
    asked: PutMetadata,
    there: MetadataState,
    entries: Vec<UserMetadata>,
}

impl Decide for Put {
    /// The sequence of the newest entry; `None` if the state must be read again.
    type Outcome = Option<u64>;

    fn decide(&self, turn: &mut Turn<'_>) -> Result<(Decided, Option<u64>), Refusal> {
        let Self { by, asked, there, entries } = self;
        let user = turn.get::<Standard<User>>(&user_key(by, asked));
        if MetadataState::of(turn, by, asked).as_ref() != Some(there) {
            return Ok((turn.nothing_decided(User::NAME), None));
        }
        let owner = user.owner()?;
        let mut newest = 0;
        for (entry, new) in asked.entries.iter().zip(entries) {
            let current = turn.get::<Standard<UserMetadata>>(&entry_key(by, asked, entry)).owned_by(owner);
            let events = Standard::<UserMetadata>::decide(&current.state, Command::Put(new.clone()))?;
            newest = turn.append(current, &events, &by.keys, &by.cause)?.sequence.max(newest);
        }
        Ok((turn.nothing_decided(User::NAME), Some(newest)))
    }
}
