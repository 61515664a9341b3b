//! Runs work that takes a processor for some time: outside of the turn, off the threads that serve others, and with a
//! seat, for which instances take turns.

use std::time::Duration;

use edge::{
    error::{Error, Reason},
    seats::Seats,
};
use tokio::task::spawn_blocking;

use crate::execute::Commands;

/// Generates something for an instance, such as a key, which takes up to some seconds.
///
/// # Errors
/// When too many others wait.
pub(crate) async fn generate<T: Send + 'static>(
    commands: &Commands,
    instance_id: &str,
    generate: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    run_seated(&commands.pairs, instance_id, "too many keys are being generated at the moment", generate).await
}

/// Hashes a password for an instance, or compares it with a hash.
///
/// # Errors
/// When too many others wait.
pub(crate) async fn hash<T: Send + 'static>(
    commands: &Commands,
    instance_id: &str,
    hash: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    run_seated(&commands.passwords, instance_id, "too many passwords are being hashed at the moment", hash).await
}

async fn run_seated<T: Send + 'static>(
    seats: &Seats,
    instance_id: &str,
    refusal: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    let busy = || Error::new(Reason::WriterUnavailable, refusal).retry_after(Duration::from_secs(1));
    let seat = seats.take(instance_id).await.ok_or_else(busy)?;
    let working = spawn_blocking(move || {
        let _seat = seat;
        work()
    });
    working.await.map_err(|failure| Error::internal(&failure))
}
