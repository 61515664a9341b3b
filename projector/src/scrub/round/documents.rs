//! What the search indexes of this process have, which is checked as the rows are.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use ::index::{
    Contents, IndexFailure, Indexes, Omitted, Snapshot,
    rewrite::{Answer, Rewrite, Suspect, request},
};
use base::explain::explain;
use domain::log_class::LogClass;
use eventlog::{lease::Lease, record::AggregateKey};
use tokio::{task::spawn_blocking, time::Instant};
use view::{
    database::DatabaseFailure,
    scrub::{Documents, Page, Place, indexes, note_written, repair, without_events},
    table::Change,
};

use super::{Round, RoundFailure, report};
use crate::{Projector, index, unit::recognise};

/// How many keys of an index are read at once.
const KEYS: usize = 1000;

/// What indexes had at one moment.
#[derive(Default)]
pub(super) struct IndexContents {
    /// How far they were.
    pub(super) documents: Vec<Documents>,
    contents: HashMap<&'static str, Arc<Contents>>,
}

impl IndexContents {
    fn add(&mut self, place: Place, contents: Contents) {
        let aggregate_type = place.table.aggregate_type;
        let omitted = |Omitted { instance_id, id, .. }: &Omitted| AggregateKey {
            instance_id: instance_id.clone(),
            aggregate_type: aggregate_type.to_owned(),
            id: id.clone(),
        };
        let omitted = contents.omitted.iter().map(omitted).collect();
        let (position, committed_at) = (contents.position, contents.committed_at);
        self.documents.push(Documents { place, position, committed_at, omitted });
        self.contents.insert(place.projection.name, Arc::new(contents));
    }

    /// How many documents each had.
    pub(super) fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.contents.iter().map(|(name, contents)| (*name, contents.count() as u64))
    }

    /// Returns what documents should be that are not what their events were folded to; `None` for a page of rows.
    pub(super) async fn deviations(&self, page: &Page, folded: &[Change]) -> Option<Result<Vec<Change>, String>> {
        let contents = self.contents.get(page.place.projection.name)?.clone();
        let expected = page.documents(folded.to_vec());
        Some(blocking(move || contents.deviations(expected)).await.map_err(|failure| explain(&failure)))
    }
}

/// The keys of the documents of an index, page by page.
pub(super) struct Keys<'a> {
    all: &'a Indexes,
    place: Place,
    last: String,
}

impl<'a> Keys<'a> {
    /// Of every index of a log whose documents do not age out: history forgets their events earlier or later than the
    /// index.
    pub(super) fn of(all: &'a Indexes, class: LogClass) -> impl Iterator<Item = Self> {
        let stays = |place: &Place| (place.table.ends_at)().is_none();
        indexes(class).filter(stays).map(move |place| Self { all, place, last: String::new() })
    }

    pub(super) fn place(&self) -> Place {
        self.place
    }

    /// Returns the next page of keys, and the sequence that the index has reached; `None` after the last one.
    pub(super) async fn next(&mut self, lease: &Lease) -> Result<Option<(Vec<AggregateKey>, u64)>, String> {
        let Some(snapshot) = newest(self.all, self.place) else { return Ok(None) };
        let (last, at) = (self.last.clone(), snapshot.position.sequence);
        let found = lease.during(blocking(move || snapshot.keys_after(&last, KEYS))).await;
        let found = found.map_err(|failure| explain(&failure))?;
        let Some((instance_id, id)) = found.last() else { return Ok(None) };
        self.last = format!("{instance_id}/{id}");
        let aggregate_type = self.place.table.aggregate_type;
        let key = |(instance_id, id)| AggregateKey { instance_id, aggregate_type: aggregate_type.to_owned(), id };
        Ok(Some((found.into_iter().map(key).collect(), at)))
    }
}

impl Round<'_> {
    /// Reads those indexes of a log that this process has, of certain resources. One that cannot be read to its end is
    /// built again.
    pub(super) async fn read_indexes(&mut self, class: LogClass, is_wanted: impl Fn(&str) -> bool) {
        // They take memory, and are not needed beside the next ones.
        self.indexed = IndexContents::default();
        for place in indexes(class).filter(|place| is_wanted(place.table.aggregate_type)) {
            let Some(snapshot) = newest(self.indexes, place) else { continue };
            // Somebody may have published what follows from another log.
            if let Err(failure) = recognise(&self.projector.logs[class], snapshot.position).await {
                self.cannot_read(place, &explain(&failure));
                continue;
            }
            match self.lease.during(blocking(move || snapshot.contents())).await {
                Ok(contents) => self.indexed.add(place, contents),
                Err(failure) => {
                    self.cannot_read(place, &explain(&failure));
                    report(place.projection, self.build_again(place).await);
                }
            }
        }
    }

    fn cannot_read(&mut self, place: Place, error: &str) {
        tracing::warn!(projection = place.projection.name, error, "the search index cannot be checked");
        self.skipped.insert(place.projection.name);
    }

    /// Has an index built again by whoever writes it, if that one cannot read it to its end, either.
    async fn build_again(&self, place: Place) -> Result<Vec<String>, DatabaseFailure> {
        let answer = self.lease.during(self.ask(place, &Rewrite::Whole)).await;
        if answer.is_none() {
            return Ok(vec![]);
        }
        let names = vec![format!("all {}", (place.table.name)())];
        note_written(&self.projector.database, self.projector.shard, place.projection, &names).await?;
        Ok(names)
    }

    async fn ask(&self, place: Place, rewrite: &Rewrite) -> Answer {
        let index = index::name_of(self.projector, place.projection)?;
        request(&self.projector.log_of(place.projection).client(), self.projector.shard, &index, rewrite).await
    }

    /// Finds the documents of whose aggregates there are no events.
    pub(super) async fn check_documents(&mut self, class: LogClass) -> Result<(), RoundFailure> {
        let Projector { database, shard, .. } = self.projector;
        for mut keys in Keys::of(self.indexes, class) {
            loop {
                let begun = Instant::now();
                let (found, at) = match keys.next(self.lease).await {
                    Ok(Some(found)) => found,
                    Ok(None) => break,
                    Err(error) => {
                        self.skip(keys.place(), &error);
                        break;
                    }
                };
                let found = &found;
                let read = move || async move { without_events(database, *shard, class, found, at).await };
                match self.patiently(read).await? {
                    Some(unknown) => unknown.into_iter().for_each(|key| self.suspect(key, keys.place().projection)),
                    None => self.skip(keys.place(), "history lags"),
                }
                self.rest(begun).await;
            }
        }
        Ok(())
    }

    /// Repairs rows, or has documents written anew, and returns their names; `None` if that cannot be done now.
    pub(super) async fn correct(
        &mut self,
        page: &Page,
        deviations: &[Change],
        newest: &BTreeMap<AggregateKey, u64>,
    ) -> Result<Option<Vec<String>>, DatabaseFailure> {
        let (Projector { database, shard, .. }, place) = (self.projector, page.place);
        if !page.is_of_index() {
            return repair(database, *shard, page, deviations).await;
        }
        let suspect = |change: &Change| Suspect {
            instance_id: change.instance_id.clone(),
            id: change.id.clone(),
            newest: newest.get(&place.key_of(change)).copied().unwrap_or_default(),
        };
        self.write_anew(place, deviations.iter().map(suspect).collect()).await
    }

    /// Has documents written anew by whoever writes their index, and returns their names; `None` if that was not done.
    async fn write_anew(
        &mut self,
        place: Place,
        suspects: Vec<Suspect>,
    ) -> Result<Option<Vec<String>>, DatabaseFailure> {
        let (Projector { database, shard, .. }, all) = (self.projector, suspects.len());
        let Some(written) = self.ask(place, &Rewrite::Documents(suspects)).await else { return Ok(None) };
        if written.len() < all {
            // What is newer in the log than in history, or failed, is left to the next round.
            self.skip(place, "not all documents were written anew");
        }
        let names: Vec<String> = written.iter().map(|written| place.name(&written.instance_id, &written.id)).collect();
        if !names.is_empty() {
            note_written(database, *shard, place.projection, &names).await?;
        }
        Ok(Some(names))
    }
}

fn newest(all: &Indexes, place: Place) -> Option<Arc<Snapshot>> {
    all.of(place.projection)?.borrow().clone()
}

/// Reads files of an index on a thread that may block.
async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, IndexFailure> + Send + 'static,
) -> Result<T, IndexFailure> {
    spawn_blocking(read).await?
}
