//! Only the servers of a data directory, for maintenance and for tests.

use base::secret;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{
    Failure, binaries::Binaries, cli::DataDirectory, data_dir::DataDir, nats::Nats, output, postgres::Postgres,
};

/// Starts them, prints where they are as one line of JSON, and stops them at `shutdown`.
pub(crate) async fn run(options: &DataDirectory, shutdown: CancellationToken) -> Result<(), Failure> {
    let data = DataDir::open(&options.data_dir, None, secret::random)?;
    let binaries = Binaries::new();
    let progress = |line: &str| tracing::info!("{line}");
    let start = async {
        let nats = Nats::start(&data, &binaries, &progress).await?;
        let postgres = Postgres::start(&data, &binaries, &progress).await?;
        Ok::<_, Failure>((nats, postgres))
    };
    let (nats, postgres) = tokio::select! {
        started = start => started?,
        () = shutdown.cancelled() => return Ok(()),
    };
    let places = json!({
        "natsUrl": nats.url, "natsToken": nats.token, "natsMonitorUrl": nats.monitor_url, "postgresUrl": postgres.url,
    });
    output::print(places);
    shutdown.cancelled().await;
    tokio::join!(nats.stop(), postgres.stop());
    Ok(())
}
