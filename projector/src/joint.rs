//! What the units of a process do together.

use std::{num::NonZero, sync::Arc, thread::available_parallelism, time::Duration};

use base::explain::explain;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use view::{
    checkpoint::{Expected, Move, move_all},
    database::{Database, DatabaseFailure},
    schema::are_intact,
};

use crate::together::Together;

/// How long units that are idle wait for others, before it is checked that their tables are still there. They follow
/// nothing meanwhile.
const GATHERED_FOR: Duration = Duration::from_millis(5);
/// The smallest and the largest number of search indexes that are written at the same time.
const SEATS: (usize, usize) = (2, 8);

/// What the units on one database do together.
#[derive(Clone)]
pub struct Joint(Arc<Parts>);

struct Parts {
    moves: Together<Move>,
    confirmations: Together<Expected>,
    seats: Arc<Semaphore>,
}

/// The permission to write a search index until the next commit. What is not committed yet occupies memory and a
/// processor, however many indexes there are.
pub(crate) type Seat = OwnedSemaphorePermit;

impl Default for Joint {
    fn default() -> Self {
        let seats = available_parallelism().map_or(1, NonZero::get).clamp(SEATS.0, SEATS.1);
        let (moves, confirmations) = (Together::new(Duration::ZERO), Together::new(GATHERED_FOR));
        Self(Arc::new(Parts { moves, confirmations, seats: Arc::new(Semaphore::new(seats)) }))
    }
}

impl Joint {
    /// Moves a checkpoint whose rows stay as they are. Returns `false` if it may not have moved: the caller then finds
    /// out why by moving it alone.
    pub(crate) async fn advance(&self, database: &Database, shard: u16, advance: Move) -> bool {
        let moves = &self.0.moves;
        moves.ask(advance, async |all| outcome(moved(database, shard, &all).await).unwrap_or_default()).await
    }

    /// Waits for a seat, first come, first served.
    pub(crate) async fn seat(&self) -> Option<Seat> {
        // They are never closed.
        self.0.seats.clone().acquire_owned().await.ok()
    }

    /// Whether the tables and the checkpoint of an idle unit are there; `false` if that is not certain.
    pub(crate) async fn confirm(&self, database: &Database, shard: u16, expected: Expected) -> bool {
        let confirmations = &self.0.confirmations;
        let ask = async |all: Vec<Expected>| {
            let intact = outcome(database.within(are_intact(database, shard, &all)).await);
            vec![intact.unwrap_or_default(); all.len()]
        };
        confirmations.ask(expected, ask).await
    }
}

async fn moved(database: &Database, shard: u16, moves: &[Move]) -> Result<Vec<bool>, DatabaseFailure> {
    database.within(async { move_all(&*database.connection().await?, shard, moves).await }).await
}

fn outcome<T>(answer: Result<T, DatabaseFailure>) -> Option<T> {
    answer.inspect_err(|error| tracing::debug!(error = explain(error), "checkpoints cannot be asked for together")).ok()
}
