//! Opening an index for writing: as it was published last, or anew.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use base::explain::explain;
use index::{Follower, IndexFailure, Manifest, Replica, Snapshot, Writer};

use super::{Stall, Unit};

/// How many times published files may arrive incomplete before they count as lost.
const MOST_INCOMPLETE: u32 = 10;

/// An index that is open for writing.
pub(super) struct Opened {
    pub(super) writer: Writer,
    pub(super) snapshot: Arc<Snapshot>,
    /// The stream sequence from which on it may be shown: an index that was begun anew is useless before.
    pub(super) complete_from: u64,
}

impl Unit {
    /// Opens the index as it was published last, whatever this machine has, or a new one if that is unusable.
    pub(super) async fn open(&self, published: &Manifest) -> Result<Opened, Stall> {
        let Follower { log, remote, name, folder, layout, .. } = &self.follower;
        let (place, layout) = (folder.clone(), layout.clone());
        if published.meta.is_empty() {
            return self.begin_anew().await;
        }
        let installed = Replica::new(folder.clone(), layout.clone()).install(published, remote).await;
        let failure = match installed {
            Ok(snapshot) if log.has(snapshot.position).await? => {
                self.incomplete.store(0, Relaxed);
                let writer = folder.work(move || Writer::open(&place, layout)).await?;
                let snapshot = Arc::new(writer.snapshot()?);
                // The folder is broken in a part that was not checked before.
                let is_anew = snapshot.position != published.position();
                let complete_from = if is_anew { self.complete_from().await? } else { 0 };
                return Ok(Opened { writer, snapshot, complete_from });
            }
            Ok(_) => IndexFailure::OtherLog,
            Err(failure) => failure,
        };
        let is_incomplete = matches!(failure, IndexFailure::Incomplete(_));
        let is_given_up = is_incomplete && self.incomplete.fetch_add(1, Relaxed) >= MOST_INCOMPLETE;
        if failure.is_lasting() || is_given_up {
            tracing::warn!(index = name, error = %explain(&failure), "the published index is unusable and is rebuilt");
            return self.begin_anew().await;
        }
        Err(failure.into())
    }

    async fn begin_anew(&self) -> Result<Opened, Stall> {
        let Follower { folder, layout, .. } = &self.follower;
        let complete_from = self.complete_from().await?;
        let (place, layout) = (folder.clone(), layout.clone());
        let writer = folder.work(move || Writer::create(&place, layout)).await?;
        let snapshot = Arc::new(writer.snapshot()?);
        Ok(Opened { writer, snapshot, complete_from })
    }

    /// The stream sequence from which on an index that is begun anew is shown. A generation that nobody searches is
    /// published from the beginning, so that it goes on there after a failure.
    async fn complete_from(&self) -> Result<u64, Stall> {
        Ok(if self.since.is_some() { 0 } else { self.follower.log.end().await? })
    }
}
