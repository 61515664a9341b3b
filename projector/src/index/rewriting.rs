//! Writing documents of the index anew that are not what the log says, or all of it, on request of the scrubber.

use std::{collections::HashSet, sync::Arc, time::Duration};

use base::explain::explain;
use eventlog::record::AggregateKey;
use index::{
    Follower, IndexFailure, Publisher, Snapshot,
    rewrite::{Request, Rewrite, Suspect},
};
use tokio::time::sleep;
use view::{
    scrub::{Documents, Page, Place, discarded, pages},
    table::Change,
};

use super::{
    Stall, Unit,
    writing::{Current, Writing},
};
use crate::{
    Projector,
    expected::{expected, without_erased},
    parked::Parked,
};

/// How often it is checked whether history is as far as the index, and the pause before the next check.
const LOOKS: usize = 50;
const GLANCE: Duration = Duration::from_millis(20);

impl Unit {
    /// Does what the scrubber requests, and answers. Nothing may have changed since the last commit.
    pub(super) async fn serve(&self, current: Current, parked: &Parked, request: Request) -> Result<Current, Stall> {
        let Current { writer, snapshot, mut erasing } = current;
        let suspects = match &request.rewrite {
            Rewrite::Documents(suspects) => suspects.clone(),
            Rewrite::Whole => {
                let read = self.read(&snapshot).await;
                if read.is_err() {
                    Box::pin(self.withdraw()).await?;
                }
                request.answer(&read.as_ref().err().map(|_| vec![])).await;
                return read.map(|()| Current { writer, snapshot, erasing }).map_err(Stall::from);
            }
        };
        let changes = match Box::pin(self.changes(&snapshot, parked, &suspects)).await {
            Ok(changes) => changes,
            Err(error) => {
                tracing::debug!(index = self.follower.name, error, "documents cannot be written anew");
                None
            }
        };
        let (writer, snapshot, written) =
            self.rewrite(writer, snapshot, changes.as_deref().unwrap_or_default()).await?;
        let is_written = |suspect: &Suspect| written.iter().any(|change| suspect.is_of(change));
        let answer = changes.map(|_| suspects.into_iter().filter(is_written).collect());
        request.answer(&answer).await;
        erasing.note_deleted(self.table, !written.is_empty());
        Ok(Current { writer, snapshot, erasing })
    }

    async fn read(&self, snapshot: &Arc<Snapshot>) -> Result<(), IndexFailure> {
        let snapshot = snapshot.clone();
        self.follower.folder.work(move || snapshot.contents().map(drop)).await
    }

    /// Has the index built again, whichever process writes it then.
    async fn withdraw(&self) -> Result<(), IndexFailure> {
        let Follower { remote, name, folder, .. } = &self.follower;
        let grace = self.projector.indexing.grace;
        Publisher::take_over(remote.clone(), name, folder.clone(), grace).await?.withdraw().await
    }

    /// Writes documents at the position of the last commit, and returns which were not refused.
    async fn rewrite(
        &self,
        writer: Writing,
        snapshot: Arc<Snapshot>,
        changes: &[Change],
    ) -> Result<(Writing, Arc<Snapshot>, Vec<Change>), Stall> {
        if changes.is_empty() {
            return Ok((writer, snapshot, vec![]));
        }
        let writer = self.seated(writer).await;
        let (writer, refused) = self.apply(writer, changes.to_vec()).await?;
        let (writer, snapshot) = self.committed(writer, snapshot.position, snapshot.committed_at).await?;
        let is_refused = |change: &&Change| refused.iter().any(|refused| refused.is_of(change));
        let written = changes.iter().filter(|change| !is_refused(change)).cloned().collect();
        Ok((writer, snapshot, written))
    }

    /// What the documents should be, as far as their events in history are those of the log; `None` while history lags.
    async fn changes(
        &self,
        at: &Snapshot,
        parked: &Parked,
        suspects: &[Suspect],
    ) -> Result<Option<Vec<Change>>, String> {
        let Projector { database, persons, .. } = &self.projector;
        let Some(page) = self.page(at, parked, suspects).await? else { return Ok(None) };
        let discarded = discarded(database, self.projection).await.map_err(|failure| explain(&failure))?;
        let expected = page.documents(expected(persons, &page, &discarded).await?);
        let mut changes = without_erased(persons, &page, &discarded, expected).await?;
        changes.retain(|change| {
            let suspect = suspects.iter().find(|suspect| suspect.is_of(change));
            suspect.is_some_and(|suspect| page.has(&page.place.key_of(change), suspect.newest))
        });
        Ok(Some(changes))
    }

    /// Reads the events of the documents as soon as history has all that are in the index; `None` if that takes long.
    async fn page(&self, at: &Snapshot, parked: &Parked, suspects: &[Suspect]) -> Result<Option<Page>, String> {
        let (place, Projector { database, shard, .. }) =
            (Place { projection: self.projection, table: self.table }, &self.projector);
        let key = |Suspect { instance_id, id, .. }: &Suspect| AggregateKey {
            instance_id: instance_id.clone(),
            aggregate_type: self.table.aggregate_type.to_owned(),
            id: id.clone(),
        };
        let keys: Vec<AggregateKey> = suspects.iter().map(key).collect();
        let omitted: HashSet<AggregateKey> = keys.iter().filter(|key| parked.omits(key)).cloned().collect();
        let (position, committed_at) = (at.position, at.committed_at);
        let documents = [Documents { place, position, committed_at, omitted }];
        for _ in 0..LOOKS {
            let read = pages(database, *shard, self.projection.class, &keys, &documents).await;
            let page = read.map_err(|failure| explain(&failure))?.pop().filter(Page::history_has_all);
            if page.is_some() {
                return Ok(page);
            }
            sleep(GLANCE).await;
        }
        Ok(None)
    }
}
