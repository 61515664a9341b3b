//! Writing to the index, on threads of its own, and rewriting segments after an erasure.

use std::{sync::Arc, time::Duration};

use base::{fault, metric::catalog::INDEX_COMMITS};
use domain::{resource::user::User, standard::Resource};
use eventlog::record::Position;
use index::{IndexFailure, Refused, Snapshot, Writer};
use jiff::Timestamp;
use tokio::time::Instant;
use tracing::Instrument;
use view::{
    persons::is_of_people,
    table::{Change, Table},
};

use super::{Stall, Unit};
use crate::{
    batch::Batch,
    failure::BatchFailure,
    parked::{IndexBatch, Parked},
    unit::span,
};

/// How long erased data may stay in segments, which are rewritten seldom, since they may be large. Apps delete metadata
/// every day, and personal metadata looks like any other; and sessions end all the time.
fn erased_within(table: &Table) -> Duration {
    let long = if table.aggregate_type == User::NAME { Duration::from_mins(10) } else { Duration::from_hours(1) };
    fault::shortened(long, Duration::from_secs(1))
}

/// When segments are rewritten because people were erased.
pub(super) struct Erasing(Option<Instant>);

impl Erasing {
    /// Segments may contain somebody who was erased while another process wrote the index.
    pub(super) fn begin(table: &Table, writer: &Writer) -> Result<Self, IndexFailure> {
        let has_erased = is_of_people(table.aggregate_type) && writer.has_deleted()?;
        Ok(Self(has_erased.then(|| Instant::now() + erased_within(table))))
    }

    /// Notes that somebody is erased.
    pub(super) fn note(&mut self, table: &Table, changes: &[Change]) {
        if is_of_people(table.aggregate_type) && changes.iter().any(|change| change.row.is_none()) {
            self.set_due(table);
        }
    }

    /// Notes whether a commit deletes documents which may belong to somebody who is erased before segments are rewritten,
    /// as old sessions.
    pub(super) fn note_deleted(&mut self, table: &Table, deletes: bool) {
        if deletes && is_of_people(table.aggregate_type) {
            self.set_due(table);
        }
    }

    fn set_due(&mut self, table: &Table) {
        self.0.get_or_insert_with(|| Instant::now() + erased_within(table));
    }

    pub(super) fn is_due(&self) -> bool {
        self.0.is_some_and(|due| due <= Instant::now())
    }
}

impl Unit {
    /// Writes the changes of a batch, and parks aggregates that cannot be written. Returns whether a commit has other
    /// documents then: changed ones, or fewer, because it drops what ended long ago.
    pub(super) async fn write(
        &self,
        writer: Writer,
        parked: &mut Parked,
        erasing: &mut Erasing,
        IndexBatch { batch, changes, tried }: IndexBatch<'_>,
    ) -> Result<(Writer, bool), Stall> {
        let forgets = writer.forgets(batch.committed_at);
        erasing.note_deleted(self.table, forgets);
        if changes.is_empty() {
            return Ok((writer, forgets));
        }
        erasing.note(self.table, &changes);
        let (writer, refused) = self.apply(writer, changes).instrument(span(self.projection, batch)).await?;
        parked.refuse(self.table, &refused, &tried, batch)?;
        Ok((writer, true))
    }

    pub(super) async fn apply(
        &self,
        mut writer: Writer,
        changes: Vec<Change>,
    ) -> Result<(Writer, Vec<Refused>), Stall> {
        fault::point("index.fetched");
        let work = move || {
            let refused = writer.apply(&changes)?;
            fault::point("index.applied");
            Ok((writer, refused))
        };
        Ok(self.follower.folder.work(work).await?)
    }

    pub(super) async fn committed(
        &self,
        mut writer: Writer,
        end: Position,
        committed_at: Timestamp,
    ) -> Result<(Writer, Arc<Snapshot>), Stall> {
        let work = move || {
            fault::point("index.committing");
            let snapshot = writer.commit(end, committed_at)?;
            Ok((writer, Arc::new(snapshot)))
        };
        let committed = self.follower.folder.work(work).await?;
        fault::point("index.committed");
        INDEX_COMMITS.with(&[self.projection.name]).count();
        Ok(committed)
    }

    /// Opens the personal data in a batch, if the index is of people.
    pub(super) async fn opened(&self, batch: Batch) -> Result<Batch, Stall> {
        Ok(batch.opened(&self.projector.persons, self.projection).await.map_err(BatchFailure::from)?)
    }

    /// Rewrites the segments that contain deleted documents, at the position of a snapshot.
    pub(super) async fn purge(
        &self,
        mut writer: Writer,
        at: &Arc<Snapshot>,
    ) -> Result<(Writer, Arc<Snapshot>, Erasing), Stall> {
        let (position, committed_at, table) = (at.position, at.committed_at, self.table);
        let work = move || {
            let snapshot = writer.purge()?.at(position, committed_at)?;
            let erasing = Erasing::begin(table, &writer)?;
            Ok((writer, Arc::new(snapshot), erasing))
        };
        Ok(self.follower.folder.work(work).await?)
    }
}
