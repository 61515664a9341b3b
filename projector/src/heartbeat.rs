//! Notes in Postgres, once a second, when the read models of what has ended have everything in each log.

use std::time::Duration;

use base::{clock::since_start, explain::explain};
use domain::log_class::LogClass;
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;
use view::{database::DatabaseFailure, heartbeat};

use crate::Projector;

const EVERY: Duration = Duration::from_secs(1);

/// Notes heartbeats until `shutdown`. Any number of processes may do so.
pub(crate) async fn work(projector: Projector, shutdown: CancellationToken) {
    let mut beats = interval(EVERY);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = beats.tick() => {}
            () = shutdown.cancelled() => return,
        }
        for class in LogClass::ALL {
            let asked = since_start();
            // If NATS is silent there is nothing to note, which is what readers have to know.
            let Ok(Ok(end)) = timeout(EVERY, projector.logs[class].end()).await else { continue };
            if let Err(failure) = projector.database.within(beat(&projector, class, end, asked)).await {
                tracing::debug!(error = explain(&failure), "a heartbeat cannot be stored");
            }
        }
    }
}

async fn beat(projector: &Projector, class: LogClass, end: u64, asked: Duration) -> Result<(), DatabaseFailure> {
    let connection = projector.database.connection().await?;
    heartbeat::beat(&*connection, class, projector.shard, end, asked).await
}
