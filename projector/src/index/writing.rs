//! Writing to the index, on threads of its own, and rewriting segments after an erasure.

use std::{sync::Arc, time::Duration};

use base::{fault, metric::catalog::INDEX_COMMITS};
use domain::{resource::user::User, standard::Resource};
use eventlog::record::Position;
use index::{IndexFailure, Omitted, Refused, Snapshot, Writer, rewrite::Requests};
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
    joint::Seat,
    parked::{IndexBatch, Parked},
    unit::span,
};

/// How long after its last commit a writer still has its threads.
const IDLE: Duration = Duration::from_secs(5);

/// The index between two commits.
pub(super) struct Current {
    pub(super) writer: Writing,
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) erasing: Erasing,
}

/// A writer, with its seat from the first document to the commit.
pub(super) struct Writing {
    writer: Writer,
    seat: Option<Seat>,
    used_at: Instant,
    /// Whether it catches up with what the log had when the unit began. It needs no seat then: those who search now do
    /// not wait for it.
    is_behind: bool,
}

impl Writing {
    pub(super) fn new(writer: Writer) -> Self {
        Self { writer, seat: None, used_at: Instant::now(), is_behind: false }
    }

    pub(super) fn catches_up(&mut self, is_behind: bool) {
        self.is_behind = is_behind;
    }

    /// Sets what the next commit omits, and returns whether that differs from before.
    pub(super) fn omit(&mut self, omitted: Vec<Omitted>) -> bool {
        self.writer.omit(omitted)
    }

    /// Whether it can rest at once. While segments are merged, its unit would have to wait for that.
    fn is_idle(&self) -> Result<bool, IndexFailure> {
        Ok(!self.writer.is_resting() && self.used_at.elapsed() > IDLE && !self.writer.is_merging()?)
    }
}

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
        writing: Writing,
        parked: &mut Parked,
        erasing: &mut Erasing,
        IndexBatch { batch, changes, tried }: IndexBatch<'_>,
    ) -> Result<(Writing, bool), Stall> {
        let forgets = writing.writer.forgets(batch.committed_at);
        erasing.note_deleted(self.table, forgets);
        if changes.is_empty() {
            return Ok((writing, forgets));
        }
        erasing.note(self.table, &changes);
        let writing = self.seated(writing).await;
        let (writing, refused) = self.apply(writing, changes).instrument(span(self.projection, batch)).await?;
        parked.refuse(self.table, &refused, &tried, batch)?;
        Ok((writing, true))
    }

    /// Waits for a seat, unless the writer has one or needs none.
    pub(super) async fn seated(&self, writing: Writing) -> Writing {
        if writing.seat.is_some() || writing.is_behind {
            return writing;
        }
        Writing { seat: self.projector.joint.seat().await, ..writing }
    }

    pub(super) async fn apply(
        &self,
        mut writing: Writing,
        changes: Vec<Change>,
    ) -> Result<(Writing, Vec<Refused>), Stall> {
        fault::point("index.fetched");
        let work = move || {
            let refused = writing.writer.apply(&changes)?;
            fault::point("index.applied");
            Ok((writing, refused))
        };
        Ok(self.follower.folder.work(work).await?)
    }

    pub(super) async fn committed(
        &self,
        writing: Writing,
        end: Position,
        committed_at: Timestamp,
    ) -> Result<(Writing, Arc<Snapshot>), Stall> {
        let Writing { mut writer, seat, .. } = writing;
        let work = move || {
            fault::point("index.committing");
            let snapshot = writer.commit(end, committed_at)?;
            drop(seat);
            Ok((Writing::new(writer), Arc::new(snapshot)))
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

    /// Does what is done between two commits: segments are rewritten after an erasure, documents on request, and a writer
    /// that has nothing to write rests.
    pub(super) async fn tend(
        &self,
        mut current: Current,
        parked: &Parked,
        requests: &mut Requests,
    ) -> Result<Current, Stall> {
        if current.erasing.is_due() {
            current = self.purge(current).await?;
        }
        if let Some(request) = requests.take().await {
            current = self.serve(current, parked, request).await?;
        }
        if current.writer.is_idle()? {
            current.writer = self.rested(current.writer).await?;
        }
        Ok(current)
    }

    async fn rested(&self, mut writing: Writing) -> Result<Writing, Stall> {
        let work = move || writing.writer.rest().map(|()| writing);
        Ok(self.follower.folder.work(work).await?)
    }

    /// Rewrites the segments that contain deleted documents, at the position of the snapshot.
    async fn purge(&self, Current { writer: mut writing, snapshot: at, .. }: Current) -> Result<Current, Stall> {
        let table = self.table;
        let work = move || {
            let snapshot = writing.writer.purge()?.at(at.position, at.committed_at)?;
            let erasing = Erasing::begin(table, &writing.writer)?;
            Ok(Current { writer: Writing::new(writing.writer), snapshot: Arc::new(snapshot), erasing })
        };
        Ok(self.follower.folder.work(work).await?)
    }
}
