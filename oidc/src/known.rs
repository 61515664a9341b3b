//! What a node has to know before it answers: read models are waited for that lag.

use std::time::Duration;

use crate::{Oidc, error::Error};

/// How long a read model is waited for that lags.
pub(crate) const WAIT: Duration = Duration::from_secs(2);

/// Waits until users are known as of a sequence: what was decided a moment ago may rest on more than the read model has. While Postgres
/// is away they are as old as they are.
///
/// # Errors
/// Where the read model lags for long.
pub(crate) async fn as_of(oidc: &Oidc, sequence: u64) -> Result<(), Error> {
    let processed = oidc.edge.directory.processed_by(sequence, WAIT).await;
    let lags = processed.is_ok_and(|processed| processed < sequence);
    if lags { Err(Error::Unavailable) } else { Ok(()) }
}
