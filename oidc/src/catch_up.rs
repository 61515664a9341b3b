//! Waiting for lagging read models before a request is answered.

use std::time::Duration;

use crate::{Oidc, error::Error};

/// How long a request waits for a lagging read model.
pub(crate) const WAIT: Duration = Duration::from_secs(2);

/// Waits until users are known as of a sequence: a recent decision may rest on events that are not projected yet. While
/// Postgres is unavailable, cached users are used as they are.
///
/// # Errors
/// Where the read model still lags after [`WAIT`].
pub(crate) async fn as_of(oidc: &Oidc, sequence: u64) -> Result<(), Error> {
    let processed = oidc.edge.directory.processed_by(sequence, WAIT).await;
    let lags = processed.is_ok_and(|processed| processed < sequence);
    if lags { Err(Error::Unavailable) } else { Ok(()) }
}
