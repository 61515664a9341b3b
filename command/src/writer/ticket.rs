//! What a caller and the writer share about a command: as long as it is in no record, the caller may withdraw it.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use base::fair::{Full, Room};
use bytes::Bytes;
use edge::error::{Error, Reason};

use super::unavailable::writer_unavailable;

/// How many commands may be with the writer, until they are answered.
pub(super) const PLACES: usize = 4096;
/// How many bytes these commands may have.
const BYTES: u64 = 64 << 20;
/// About how many bytes a command has besides its request.
const BESIDE: u64 = 2048;

/// Where a command comes from.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    /// The operation, as the log of the node names it.
    pub(crate) operation: &'static str,
    /// The instance that has a turn with it; empty if it is about the system.
    pub(crate) instance_id: Arc<str>,
    /// The size of the request in bytes.
    pub(crate) bytes: usize,
}

/// What the commands of a node share until they are answered.
#[derive(Debug, Clone)]
pub(super) struct Shared(Arc<Mutex<Rooms>>);

#[derive(Debug)]
struct Rooms {
    places: Room<Arc<str>>,
    bytes: Room<Arc<str>>,
    /// The ids of idempotent commands.
    ids: HashSet<Bytes>,
}

/// The share of a command in the room, until it is dropped.
struct Portion {
    shared: Shared,
    instance_id: Arc<str>,
    bytes: u64,
}

/// The id of a command that is in progress. No other command may use it meanwhile.
struct InProgress {
    shared: Shared,
    command_id: Bytes,
}

struct State {
    stage: Stage,
    in_progress: Option<InProgress>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Waiting,
    /// The command is in a record, which will be committed or not.
    Taken,
    /// No caller waits for the command any more, and it will never be done.
    Withdrawn,
}

type Ticket = Arc<Mutex<State>>;

/// The caller's end: withdraws the command when it is dropped.
pub(super) struct Stub(Ticket);

/// The writer's end. When it is dropped, the id of the command is free.
pub(super) struct WriterTicket {
    ticket: Ticket,
    _portion: Portion,
}

impl Shared {
    pub(super) fn new() -> Self {
        let (places, bytes) = (Room::new(PLACES as u64), Room::new(BYTES));
        Self(Arc::new(Mutex::new(Rooms { places, bytes, ids: HashSet::new() })))
    }

    /// Admits a command, if there is room for it and its id is not in use.
    pub(super) fn enter(&self, origin: &Origin, command_id: Option<&Bytes>) -> Result<(Stub, WriterTicket), Error> {
        let in_progress = command_id.map(|id| self.begin(id)).transpose()?;
        let portion = self.portion(origin)?;
        let ticket = Arc::new(Mutex::new(State { stage: Stage::Waiting, in_progress }));
        Ok((Stub(ticket.clone()), WriterTicket { ticket, _portion: portion }))
    }

    fn begin(&self, command_id: &Bytes) -> Result<InProgress, Error> {
        if !lock(&self.0).ids.insert(command_id.clone()) {
            let message = "a request with this Idempotency-Key is still in progress";
            return Err(Error::new(Reason::IdempotencyInProgress, message));
        }
        Ok(InProgress { shared: self.clone(), command_id: command_id.clone() })
    }

    fn portion(&self, origin: &Origin) -> Result<Portion, Error> {
        let (instance_id, bytes) = (&origin.instance_id, origin.bytes as u64 + BESIDE);
        let mut rooms = lock(&self.0);
        rooms.places.take(instance_id, 1).map_err(|full| refused(full, "commands"))?;
        if let Err(full) = rooms.bytes.take(instance_id, bytes) {
            rooms.places.give_back(instance_id, 1);
            return Err(refused(full, "bytes of commands"));
        }
        drop(rooms);
        Ok(Portion { shared: self.clone(), instance_id: instance_id.clone(), bytes })
    }
}

fn refused(full: Full, what: &str) -> Error {
    match full {
        Full::Share(has) => {
            let message = format!(
                "too many {what} of this instance wait: {has}; an instance may use no more than what the others leave free"
            );
            writer_unavailable(&message).with("waiting", has.to_string())
        }
        Full::All => writer_unavailable(&format!("too many {what} wait for their turn")),
    }
}

impl Stub {
    /// Withdraws the command. If that succeeds, it is not done and never will be; otherwise it is in a record.
    pub(super) fn withdraw(&self) -> bool {
        let mut state = lock(&self.0);
        if state.stage == Stage::Taken {
            return false;
        }
        state.stage = Stage::Withdrawn;
        let in_progress = state.in_progress.take();
        drop(state);
        drop(in_progress);
        true
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.withdraw();
    }
}

impl WriterTicket {
    /// Whether the command was withdrawn.
    pub(super) fn is_withdrawn(&self) -> bool {
        lock(&self.ticket).stage == Stage::Withdrawn
    }

    /// Returns a function that looks whether the command was withdrawn, for another task.
    pub(super) fn withdrawal(&self) -> impl Fn() -> bool + Send + use<> {
        let ticket = self.ticket.clone();
        move || lock(&ticket).stage == Stage::Withdrawn
    }

    /// Takes the command into a record, unless it was withdrawn.
    pub(super) fn take(&self) -> bool {
        let mut state = lock(&self.ticket);
        if state.stage == Stage::Waiting {
            state.stage = Stage::Taken;
        }
        state.stage == Stage::Taken
    }
}

impl Drop for WriterTicket {
    fn drop(&mut self) {
        let in_progress = lock(&self.ticket).in_progress.take();
        drop(in_progress);
    }
}

impl Drop for Portion {
    fn drop(&mut self) {
        let mut rooms = lock(&self.shared.0);
        rooms.places.give_back(&self.instance_id, 1);
        rooms.bytes.give_back(&self.instance_id, self.bytes);
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        lock(&self.shared.0).ids.remove(&self.command_id);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
