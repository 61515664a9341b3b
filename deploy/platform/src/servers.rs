//! Runs only the servers of a data directory, for maintenance and for tests.

use base::secret;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{Failure, binaries::Binaries, cli::RunServers, data_dir::DataDir, nats::Nats, output, postgres::Postgres};

/// Starts the servers, prints their addresses as one line of JSON, and stops them at `shutdown`.
pub(crate) async fn run(options: &RunServers, shutdown: CancellationToken) -> Result<(), Failure> {
    let data = DataDir::for_servers(&options.data.data_dir, secret::random)?;
    let binaries = Binaries::new();
    let progress = |line: &str| tracing::info!("{line}");
    let start = async {
        let nats = Nats::start(&data, &binaries, &progress).await?;
        let postgres = Postgres::start(&data, &binaries, &progress).await?;
        Ok::<_, Failure>((nats, postgres))
    };
    let (mut nats, mut postgres) = tokio::select! {
        started = start => started?,
        () = shutdown.cancelled() => return Ok(()),
    };
    let places = json!({
        "natsUrl": nats.url, "natsToken": nats.token, "natsMonitorUrl": nats.monitor_url, "postgresUrl": postgres.url,
    });
    output::print(places);
    // One server without the other is of no use: the caller learns of it, and can start both again.
    let ended = tokio::select! {
        () = shutdown.cancelled() => Ok(()),
        death = nats.died(), if !options.stay => Err(death.into()),
        death = postgres.died(), if !options.stay => Err(death.into()),
    };
    tokio::join!(nats.stop(), postgres.stop());
    ended
}
