//! The index unit: keeps the search index of a table in a folder, and shows every commit to the readers of the process.
//!
//! An index is no more than a cache of the log: it is written without a replica, and what is broken is built again.

use std::{path::Path, sync::Arc, time::Duration};

use futures::{Stream, StreamExt};
use store::{
    fault,
    index::{self, Layout, Snapshot},
    log::{Failure as LogFailure, Log},
    record::{Record, Undecodable},
    table::Table,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;

use crate::{
    batch::{self, Batch},
    unit::{OtherLog, recognise},
};

/// The first event commits at once; what follows gathers for so long.
const COMMIT_EVERY: Duration = Duration::from_millis(100);
/// The pause after a failure.
const PAUSE: Duration = Duration::from_secs(1);

/// Where the newest snapshot of an index appears.
pub type Published = watch::Receiver<Option<Arc<Snapshot>>>;

/// Why the index does not go on.
#[derive(Debug, thiserror::Error)]
enum Stall {
    #[error(transparent)]
    Log(#[from] LogFailure),
    #[error(transparent)]
    Index(#[from] index::Failure),
    #[error(transparent)]
    Event(#[from] Undecodable),
    #[error(transparent)]
    OtherLog(#[from] OtherLog),
    #[error("the log ended")]
    LogEnded,
    #[error("a task of the index was cancelled")]
    Cancelled(#[from] tokio::task::JoinError),
}

/// Keeps the index until `shutdown`.
pub(crate) async fn work(
    log: Log,
    table: &'static Table,
    folder: Arc<Path>,
    published: watch::Sender<Option<Arc<Snapshot>>>,
    shutdown: CancellationToken,
) {
    while !shutdown.is_cancelled() {
        let stall = tokio::select! {
            stall = follow(&log, table, &folder, &published) => stall.err(),
            () = shutdown.cancelled() => return,
        };
        if let Some(stall) = stall {
            tracing::error!(table = table.aggregate_type, error = %stall, "the search index stands still");
            if matches!(stall, Stall::OtherLog(OtherLog::Differs(_))) {
                // Whatever it holds is of no use here; the log has all that belongs into it.
                let _ = std::fs::remove_dir_all(&folder);
            }
        }
        tokio::select! {
            () = sleep(PAUSE) => {}
            () = shutdown.cancelled() => {}
        }
    }
}

async fn follow(
    log: &Log,
    table: &'static Table,
    folder: &Arc<Path>,
    published: &watch::Sender<Option<Arc<Snapshot>>>,
) -> Result<(), Stall> {
    let place = folder.clone();
    let (mut writer, snapshot) = tokio::task::spawn_blocking(move || {
        let writer = index::Writer::open(&place, Layout::of(table))?;
        let snapshot = writer.snapshot()?;
        Ok::<_, index::Failure>((writer, snapshot))
    })
    .await??;
    let position = snapshot.position;
    recognise(log, position).await?;
    published.send_replace(Some(Arc::new(snapshot)));
    let mut records = log.follow(position).await?;
    loop {
        let batch = gather(&mut records).await?;
        let due = Instant::now() + COMMIT_EVERY;
        fault::point("index.fetched");
        let (kept, snapshot) = tokio::task::spawn_blocking(move || {
            writer.apply(&table.fold(&batch.events)?)?;
            fault::point("index.applied");
            let committed_at = batch.records.last().map(Record::committed_at).unwrap_or_default();
            let snapshot = writer.commit(batch.end, committed_at)?;
            Ok::<_, Stall>((writer, snapshot))
        })
        .await??;
        fault::point("index.committed");
        writer = kept;
        published.send_replace(Some(Arc::new(snapshot)));
        sleep_until(due).await;
    }
}

async fn gather(records: &mut (impl Stream<Item = Result<Record, LogFailure>> + Unpin)) -> Result<Batch, Stall> {
    Ok(batch::next(&mut records.by_ref()).await.ok_or(Stall::LogEnded)??)
}
