//! One round of the scrubber over all read models.

mod documents;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::Duration,
};

use ::index::Indexes;
use base::{
    explain::explain,
    fault::{self, shortened},
    metric::catalog::PROJECTION_REPAIRED,
};
use domain::log_class::LogClass;
use eventlog::{
    lease::Lease,
    log::LogFailure,
    record::{AggregateKey, Position},
};
use tokio::time::{Instant, sleep, timeout};
use view::{
    database::DatabaseFailure,
    history::aggregates_after,
    projection::{PROJECTIONS, Projection, history_of},
    read_model::ReadModel,
    scrub::{
        Discarded, Page, Place, Wrong, delete_strangers, deviating_events, discarded, indexes, note_checked, pages,
        parts_of, places, rewrite, rows_from,
    },
    table::Change,
};

use self::documents::IndexContents;
use crate::{
    Projector,
    batch::{self, MOST_EVENTS},
    expected::{expected, without_erased},
    unit::{OtherLog, recognise},
};

/// How many aggregates are checked at once.
const AGGREGATES: u32 = 100;
/// How many aggregates are repaired in a round at most; the others are left to the next one.
const MOST: usize = 100_000;
/// How many times as long as it worked the scrubber rests, except after a page that took very long.
const REST: u32 = 19;
/// How long to wait for a record that the log has.
const SILENCE: Duration = Duration::from_secs(5);
/// How often a page is read that cannot be read, and the pause before the next time.
const ATTEMPTS: usize = 5;
const PAUSE: Duration = Duration::from_secs(1);
/// How many of the repaired rows are named in the log of the node.
const NAMED: usize = 10;

/// Why a round ended early.
#[derive(Debug, thiserror::Error)]
pub(super) enum RoundFailure {
    #[error(transparent)]
    Log(#[from] LogFailure),
    #[error(transparent)]
    Database(#[from] DatabaseFailure),
    #[error(transparent)]
    OtherLog(#[from] OtherLog),
    #[error("the log has not sent a record for {} s", SILENCE.as_secs())]
    Silent,
}

/// A round.
pub(super) struct Round<'a> {
    projector: &'a Projector,
    lease: &'a Lease,
    /// How many rows or events were checked, by projection.
    checked: HashMap<&'static str, u64>,
    /// The projections of which something could not be checked.
    skipped: HashSet<&'static str>,
    /// The aggregates of which a row or a document deviates, or seems to, with their newest events in the log; 0 before
    /// these are looked up.
    suspects: BTreeMap<AggregateKey, u64>,
    indexes: &'a Indexes,
    /// What the search indexes had when they were read.
    indexed: IndexContents,
}

impl<'a> Round<'a> {
    pub(super) fn new(projector: &'a Projector, indexes: &'a Indexes, lease: &'a Lease) -> Self {
        let (checked, skipped, suspects) = (HashMap::new(), HashSet::new(), BTreeMap::new());
        Self { projector, lease, checked, skipped, suspects, indexes, indexed: IndexContents::default() }
    }

    /// Checks everything once, and repairs what deviates.
    pub(super) async fn run(mut self) -> Result<(), RoundFailure> {
        for class in LogClass::ALL {
            self.check_events(class).await?;
        }
        fault::point("scrub.events-checked");
        for class in LogClass::ALL {
            self.check_aggregates(class).await?;
            self.check_keys(class).await?;
            self.check_documents(class).await?;
            if self.suspects.is_empty() {
                continue;
            }
            // Somebody may have changed events since these were checked: no row is repaired after such events. Those of
            // `EVENTS` say who was removed, and what was discarded.
            let mut are_right = self.check_events(class).await?;
            if class != LogClass::Events {
                are_right &= self.check_events(LogClass::Events).await?;
            }
            self.repair(class, are_right).await?;
        }
        let Projector { database, shard, .. } = self.projector;
        for projection in PROJECTIONS.iter().filter(|projection| !self.skipped.contains(projection.name)) {
            if let Some(checked) = self.checked.get(projection.name) {
                note_checked(&*database.connection().await?, *shard, projection, *checked).await?;
            }
        }
        let (checked, skipped) = (self.checked.values().sum::<u64>(), self.skipped.len());
        tracing::info!(checked, skipped, "the read models were checked against the log");
        Ok(())
    }

    /// Checks the events of a history against its log, and repairs them; `false` if it is not right then.
    async fn check_events(&mut self, class: LogClass) -> Result<bool, RoundFailure> {
        let Projector { logs, database, shard, .. } = self.projector;
        let (log, history) = (&logs[class], history_of(class));
        let at = ReadModel::new(history, *shard).checkpoint(&*database.connection().await?).await?;
        recognise(log, at.map(|at| at.position).unwrap_or_default()).await?;
        self.checked.insert(history.name, 0);
        let Some(end) = log.last().await? else { return Ok(true) };
        let mut batches = batch::follow(log, Position::default(), MOST_EVENTS).await?;
        let (mut reached, mut is_right) = (0, true);
        while reached < end.stream_sequence {
            let next = timeout(SILENCE, batches.next());
            let Ok(Some(batch)) = self.lease.during(next).await else { return Err(RoundFailure::Silent) };
            let begun = Instant::now();
            let batch = batch?;
            let records = &batch.records;
            if reached == 0 {
                let first = records.first().map_or(0, |record| record.before().sequence + 1);
                let deleted = self.lease.during(delete_strangers(database, *shard, class, first)).await;
                is_right &= report(history, deleted);
            }
            for recorded in &batch.events {
                if let Some(newest) = self.suspects.get_mut(&recorded.key()) {
                    *newest = recorded.sequence;
                }
            }
            let compared = move || async move {
                Ok(match deviating_events(database, *shard, class, records).await? {
                    Wrong::Lagging => None,
                    Wrong::Events(wrong) => Some(wrong),
                })
            };
            let mut wrong = self.patiently(compared).await?;
            if wrong.as_ref().is_some_and(|wrong| !wrong.is_empty()) {
                report(history, self.lease.during(rewrite(database, *shard, class, records)).await);
                wrong = self.patiently(compared).await?;
            }
            let Some(wrong) = wrong else {
                // History lags, and so it does behind all that follows.
                is_right = false;
                break;
            };
            is_right &= wrong.is_empty();
            *self.checked.entry(history.name).or_default() += batch.events.len() as u64;
            reached = batch.end.stream_sequence;
            self.rest(begun).await;
        }
        if !is_right {
            self.skipped.insert(history.name);
        }
        Ok(is_right)
    }

    /// Finds the rows and documents that are not what the events of their aggregates say.
    async fn check_aggregates(&mut self, class: LogClass) -> Result<(), RoundFailure> {
        let Projector { database, shard, .. } = self.projector;
        let begun = Instant::now();
        self.read_indexes(class, |_| true).await;
        self.checked.extend(self.indexed.counts());
        self.rest(begun).await;
        let discarded = self.discarded(places(class).chain(indexes(class))).await?;
        let mut last = AggregateKey { instance_id: String::new(), aggregate_type: String::new(), id: String::new() };
        loop {
            let begun = Instant::now();
            let (after, documents) = (&last, &self.indexed.documents);
            let read = move || async move {
                let found = aggregates_after(&*database.connection().await?, class, after, AGGREGATES).await?;
                Ok(Some((pages(database, *shard, class, &found, documents).await?, found)))
            };
            let Some((pages, found)) = self.patiently(read).await? else { return Ok(()) };
            let Some(newest) = found.last().cloned() else { return Ok(()) };
            for page in pages {
                for change in self.deviations(&page, &discarded).await {
                    self.suspect(page.place.key_of(&change), page.place.projection);
                }
            }
            last = newest;
            self.rest(begun).await;
        }
    }

    /// Finds the rows of whose aggregates there are no events.
    async fn check_keys(&mut self, class: LogClass) -> Result<(), RoundFailure> {
        let Projector { database, shard, .. } = self.projector;
        for place in places(class) {
            let mut last = None;
            loop {
                let begun = Instant::now();
                let from = last.as_ref();
                let read = move || async move { Ok(Some(rows_from(database, *shard, place, from).await?)) };
                let Some(rows) = self.patiently(read).await? else { break };
                *self.checked.entry(place.projection.name).or_default() += rows.count;
                rows.unknown.into_iter().for_each(|key| self.suspect(key, place.projection));
                if rows.last.is_none() {
                    break;
                }
                last = rows.last;
                self.rest(begun).await;
            }
        }
        Ok(())
    }

    /// Checks the suspects once more, and repairs their rows where their events are right.
    async fn repair(&mut self, class: LogClass, are_right: bool) -> Result<(), RoundFailure> {
        let Projector { logs, database, shard, .. } = self.projector;
        let newest = std::mem::take(&mut self.suspects);
        let suspects: Vec<AggregateKey> = newest.keys().cloned().collect();
        let is_suspect = |aggregate_type: &str| suspects.iter().any(|key| key.aggregate_type == aggregate_type);
        self.read_indexes(class, is_suspect).await;
        for keys in suspects.chunks(AGGREGATES as usize) {
            let begun = Instant::now();
            let mut settled = HashSet::new();
            for attempt in 1..=ATTEMPTS {
                let documents = &self.indexed.documents;
                let read = move || async move { Ok(Some(pages(database, *shard, class, keys, documents).await?)) };
                let mut found = self.patiently(read).await?.unwrap_or_default();
                found.retain(|page| !settled.contains(page.place.projection.name));
                // What is discarded later than this is noticed by the repair.
                let discarded = self.discarded(found.iter().map(|page| page.place)).await?;
                let mut undecided = vec![];
                for page in found {
                    if page.is_of_index() && !page.history_has_all() {
                        undecided.push(page.place.projection.name);
                        continue;
                    }
                    let (place, mut deviations) = (page.place, self.deviations(&page, &discarded).await);
                    let all = deviations.len();
                    let has_newest = |key: AggregateKey| newest.get(&key).is_none_or(|newest| page.has(&key, *newest));
                    deviations.retain(|change| are_right && has_newest(place.key_of(change)));
                    let mut is_settled = deviations.len() == all;
                    if !deviations.is_empty() {
                        recognise(&logs[class], page.position()).await?;
                        let lease = self.lease;
                        let repaired = lease.during(self.correct(&page, &deviations, &newest)).await;
                        is_settled &= matches!(repaired, Ok(Some(_)));
                        report(place.projection, repaired.map(Option::unwrap_or_default));
                    }
                    if is_settled {
                        settled.insert(place.projection.name);
                    } else {
                        undecided.push(place.projection.name);
                    }
                }
                if undecided.is_empty() {
                    break;
                }
                if attempt == ATTEMPTS {
                    let projections = undecided.join(", ");
                    tracing::warn!(projections, "what seems not to be what the log says cannot be repaired now");
                    self.skipped.extend(undecided);
                }
                self.lease.during(sleep(PAUSE)).await;
            }
            self.rest(begun).await;
        }
        Ok(())
    }

    /// Returns what rows or documents should be that are not what their events are folded to. Where that cannot be said,
    /// the projection counts as not checked.
    async fn deviations(&mut self, page: &Page, discarded: &HashMap<&'static str, Discarded>) -> Vec<Change> {
        let place = page.place;
        let name = place.projection.name;
        let Some(left_out) = discarded.get(name) else { return vec![] };
        if page.is_of_index() && !page.history_has_all() {
            self.skip(place, "history lags");
            return vec![];
        }
        match self.lease.during(self.compared(page, left_out)).await {
            Ok(deviations) => deviations,
            Err(error) => {
                self.skip(place, &error);
                vec![]
            }
        }
    }

    async fn compared(&self, page: &Page, discarded: &Discarded) -> Result<Vec<Change>, String> {
        let persons = &self.projector.persons;
        let folded = expected(persons, page, discarded).await?;
        let deviations = match self.indexed.deviations(page, &folded).await {
            Some(deviations) => deviations?,
            None => page.deviations(folded),
        };
        without_erased(persons, page, discarded, deviations).await
    }

    async fn discarded(
        &self,
        places: impl Iterator<Item = Place>,
    ) -> Result<HashMap<&'static str, Discarded>, RoundFailure> {
        let mut found = HashMap::new();
        for Place { projection, .. } in places {
            if !found.contains_key(projection.name) {
                let database = &self.projector.database;
                let read = move || async move { Ok(Some(discarded(database, projection).await?)) };
                found.extend(self.patiently(read).await?.map(|discarded| (projection.name, discarded)));
            }
        }
        Ok(found)
    }

    /// Notes that something in a projection cannot be checked.
    fn skip(&mut self, Place { projection, .. }: Place, error: &str) {
        tracing::debug!(projection = projection.name, error, "what it has cannot be checked");
        self.skipped.insert(projection.name);
    }

    /// Notes an aggregate, unless there are too many: then the projection counts as not checked.
    fn suspect(&mut self, key: AggregateKey, projection: &'static Projection) {
        if self.suspects.len() < MOST {
            self.suspects.insert(key, 0);
        } else {
            self.skipped.insert(projection.name);
        }
    }

    /// Reads something, and reads it again where that fails or it is not there yet; `None` if it never is.
    async fn patiently<T, F: Future<Output = Result<Option<T>, DatabaseFailure>>>(
        &self,
        read: impl Fn() -> F,
    ) -> Result<Option<T>, DatabaseFailure> {
        let mut tried = 1;
        loop {
            match self.lease.during(read()).await {
                Ok(Some(found)) => return Ok(Some(found)),
                unread if tried == ATTEMPTS => return unread,
                _ => self.lease.during(sleep(PAUSE)).await,
            }
            tried += 1;
        }
    }

    async fn rest(&self, begun: Instant) {
        self.lease.during(sleep((begun.elapsed() * REST).min(longest_rest()))).await;
    }
}

fn longest_rest() -> Duration {
    shortened(Duration::from_secs(10), Duration::from_millis(20))
}

/// Reports a repair, and returns whether it worked. One that fails is tried again in the next round.
fn report(projection: &Projection, repaired: Result<Vec<String>, DatabaseFailure>) -> bool {
    let (is_done, name, parts) = (repaired.is_ok(), projection.name, parts_of(projection.view));
    match repaired {
        Ok(names) if names.is_empty() => {}
        Ok(names) => {
            PROJECTION_REPAIRED.with(&[name]).add(names.len() as u64);
            let (repaired, rows) = (names.len(), names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", "));
            tracing::error!(projection = name, repaired, rows, "{parts} were not what the log says, and were repaired");
        }
        Err(failure) => {
            let error = explain(&failure);
            tracing::warn!(projection = name, error, "{parts} are not what the log says, and cannot be repaired now");
        }
    }
    is_done
}
