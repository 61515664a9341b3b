//! Generating keys takes a core for up to some seconds: outside of the turn, and off the threads that serve others.

use std::time::Duration;

use edge::{
    call::Call,
    error::{Error, Reason},
};
use tokio::{task::spawn_blocking, time::timeout};

use crate::execute::Commands;

/// How long a caller waits for its turn.
const SEAT_WAIT: Duration = Duration::from_secs(5);

impl Commands {
    /// What is generated for a caller; instances take turns.
    ///
    /// # Errors
    /// Where too many others wait.
    pub(crate) async fn generated<T: Send + 'static>(
        &self,
        call: &Call,
        generate: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        let seat = timeout(SEAT_WAIT, self.pairs.take(&call.tenant.id)).await.ok().flatten().ok_or_else(busy)?;
        let generating = spawn_blocking(move || {
            let _seat = seat;
            generate()
        });
        generating.await.map_err(|failure| Error::internal(&failure))
    }
}

fn busy() -> Error {
    let message = "too many keys are made at the moment";
    Error::new(Reason::WriterUnavailable, message).retry_after(Duration::from_secs(1))
}
