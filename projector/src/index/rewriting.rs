//! Writing documents of the index anew that are not what the log says, on request of the scrubber.

use std::{collections::HashSet, sync::Arc, time::Duration};

use base::explain::explain;
use eventlog::record::AggregateKey;
use index::{
    Snapshot, Writer,
    rewrite::{Request, Suspect},
};
use tokio::time::sleep;
use view::{
    scrub::{Documents, Page, Place, discarded, pages},
    table::Change,
};

use super::{Stall, Unit};
use crate::{
    Projector,
    expected::{expected, without_erased},
    parked::Parked,
};

/// How often it is checked whether history is as far as the index, and the pause before the next check.
const LOOKS: usize = 50;
const GLANCE: Duration = Duration::from_millis(20);

impl Unit {
    /// Writes documents as history says at the position of the last commit, and answers. Nothing may have changed since.
    pub(super) async fn rewrite(
        &self,
        mut writer: Writer,
        mut snapshot: Arc<Snapshot>,
        parked: &Parked,
        request: Request,
    ) -> Result<(Writer, Arc<Snapshot>), Stall> {
        let changes = match self.changes(&snapshot, parked, &request.suspects).await {
            Ok(changes) => changes,
            Err(error) => {
                tracing::debug!(index = self.follower.name, error, "documents cannot be written anew");
                None
            }
        };
        let mut written = changes.as_ref().map(|_| vec![]);
        if let Some(changes) = changes.filter(|changes| !changes.is_empty()) {
            let refused;
            (writer, refused) = self.apply(writer, changes.clone()).await?;
            (writer, snapshot) = self.committed(writer, snapshot.position, snapshot.committed_at).await?;
            let is_written = |suspect: &&Suspect| {
                let is_it = |change: &&Change| change.instance_id == suspect.instance_id && change.id == suspect.id;
                changes.iter().any(|change| is_it(&change) && !refused.iter().any(|refused| refused.is_of(change)))
            };
            written = Some(request.suspects.iter().filter(is_written).cloned().collect());
        }
        request.answer(&written).await;
        Ok((writer, snapshot))
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
            let key = page.place.key_of(change);
            let is_it = |suspect: &&Suspect| suspect.instance_id == key.instance_id && suspect.id == key.id;
            suspects.iter().find(is_it).is_some_and(|suspect| page.has(&key, suspect.newest))
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
