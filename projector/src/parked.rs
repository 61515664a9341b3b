//! The aggregates that a unit holds back because it could not process an event, each with its later events.

mod careful;
mod due;
mod flood;
mod omitted;
mod retry;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use base::{
    explain::explain,
    metric::catalog::{PROJECTION_FAILURES, PROJECTION_PARKED},
};
use domain::{
    failed_event::{Event, Filter, Retried},
    log_class::{LogClass, OfEach},
};
use eventlog::record::{AggregateKey, Recorded};
use tokio::time::Instant;
use view::{
    database::{Database, DatabaseFailure},
    failed_event::{
        ParkedAt, Parking,
        decided::{Decision, after, all_discarded},
        retrying::Retrying,
    },
    history::{
        past::snapshot_now,
        waiting::{last_before, waiting},
    },
    persons::{PersonFailure, Persons},
    projection::Projection,
    table::{Change, Table},
};

use self::{careful::without_failures, due::Due};
pub(crate) use self::{
    omitted::{IndexBatch, keep_copy},
    retry::{RetriedAggregate, Retry},
};
use crate::{
    Partition, Projector,
    failure::{BatchFailure, Flood},
    fold::fold,
    open::opened,
};

/// How often decisions of operators are read if they are not in the log that is followed.
const LISTENS_EVERY: Duration = Duration::from_secs(1);

/// The parked aggregates of a unit that is at work.
pub(crate) struct Parked {
    projection: &'static Projection,
    persons: Persons,
    parking: Option<Parking>,
    shard: u16,
    all: HashMap<AggregateKey, ParkedAt>,
    /// The sequences of the events that operators have discarded.
    discarded: HashSet<u64>,
    /// Whether those are all: history may have lagged when the unit began.
    has_all_discarded: bool,
    /// The aggregates that are tried again.
    due: Due,
    /// The requested retries, for people to read, by the sequence of the event that failed.
    marks: Vec<(u64, Retrying)>,
    /// The sequence up to which decisions were read, if they are not in the log that is followed.
    heard: u64,
    /// When decisions are read again.
    listens_at: Instant,
    /// Whether the parked aggregates differ from those that a search index knows, or failed once more.
    has_news: bool,
}

/// The changes of events, by table, and the events that failed.
#[derive(Default)]
pub(crate) struct Folded<'a> {
    pub(crate) changes: Vec<(&'a Table, Vec<Change>)>,
    pub(crate) failed: Vec<ParkedAt>,
}

impl Parked {
    /// Begins with what is parked at a sequence of the log. A new worker tries all of it again: its build may be newer.
    fn new(
        Partition { projection, shard }: Partition,
        persons: &Persons,
        all: Vec<ParkedAt>,
        begun: u64,
        discarded: HashSet<u64>,
    ) -> Self {
        let due = Due::new(all.iter().map(|parked| (parked.key.clone(), parked.sequence)).collect(), begun);
        let all = all.into_iter().map(|parked| (parked.key.clone(), parked)).collect();
        let parking = Parking::of(projection, shard);
        let (has_all_discarded, has_news) = (false, true);
        let persons = persons.clone();
        let parked = Self {
            projection,
            persons,
            parking,
            shard,
            all,
            discarded,
            has_all_discarded,
            due,
            marks: vec![],
            heard: 0,
            listens_at: Instant::now(),
            has_news,
        };
        parked.measure(0);
        parked
    }

    /// Loads what a projection in Postgres has parked, which is at a sequence of the log.
    pub(crate) async fn load(
        Projector { database, persons, .. }: &Projector,
        partition: Partition,
        begun: u64,
        discarded: HashSet<u64>,
    ) -> Result<Self, DatabaseFailure> {
        let Some(parking) = Parking::of(partition.projection, partition.shard) else {
            return Ok(Self::new(partition, persons, vec![], begun, discarded));
        };
        let connection = database.connection().await?;
        let mut all = parking.parked(&*connection).await?;
        parking.date(&*connection, &mut all).await?;
        Ok(Self::new(partition, persons, all, begun, discarded))
    }

    /// Reports how many are parked, and how many events have newly failed.
    fn measure(&self, new: u64) {
        if !self.projection.is_beside() {
            PROJECTION_PARKED.with(&[self.projection.name]).set_integer(self.all.len() as u64);
            // The counter exists even without failures, so that the first one is an increase.
            PROJECTION_FAILURES.with(&[self.projection.name]).add(new);
        }
    }

    /// The store of failed events; `None` where the unit stops at one.
    pub(crate) fn parking(&self) -> Option<Parking> {
        self.parking
    }

    fn withholds(&self, key: &AggregateKey) -> bool {
        let table = self.projection.table(&key.aggregate_type);
        self.parking.zip(table).is_some_and(|(parking, table)| parking.withholds(table))
    }

    /// Whether some aggregates are to be tried again now.
    pub(crate) fn are_due(&self) -> bool {
        self.due.is_now()
    }

    /// How soon to check again when nothing arrives: history may have what is to be tried again at any moment.
    pub(crate) fn look_again(&self, otherwise: Duration) -> Duration {
        self.due.within(otherwise)
    }

    /// Notes the events of an applied batch that wait.
    pub(crate) fn note_waiting(&mut self, events: &[Arc<Recorded>]) {
        if !self.all.is_empty() {
            self.due
                .note_waiting(events.iter().map(|event| &**event).filter(|event| self.all.contains_key(&event.key())));
        }
    }

    /// Folds events for tables, except those that wait. A failed one is left out with the later ones of its aggregate.
    pub(crate) fn fold<'a>(&self, tables: &'a [Table], events: &[Arc<Recorded>]) -> Result<Folded<'a>, BatchFailure> {
        if self.all.is_empty() && self.discarded.is_empty() {
            return self.fold_all(tables, events);
        }
        let is_taken = |event: &&Arc<Recorded>| !self.all.contains_key(&event.key()) && !self.leaves_out(event);
        let others: Vec<_> = events.iter().filter(is_taken).cloned().collect();
        self.fold_all(tables, &others)
    }

    /// Whether an operator has discarded an event.
    pub(crate) fn leaves_out(&self, event: &Recorded) -> bool {
        self.discarded.contains(&event.sequence)
    }

    /// Applies decisions of operators: the aggregates that they concern are tried again.
    pub(crate) fn obey(&mut self, decisions: Vec<Decision>) {
        let Some(parking) = self.parking else { return };
        for decision in decisions {
            let left_out = decision.left_out(self.projection.view);
            let retried = self.retried(&decision);
            let is_meant = |parked: &&ParkedAt| {
                let is_retried = |(filters, until): &(Vec<Filter>, u64)| {
                    parked.sequence <= *until && filters.iter().all(|filter| parking.finds(filter, parked))
                };
                left_out == Some(parked.sequence) || retried.as_ref().is_some_and(is_retried)
            };
            let meant: Vec<_> = self.all.values().filter(is_meant).collect();
            if retried.is_some() {
                let retrying = Retrying::of(&decision);
                self.marks.extend(meant.iter().map(|parked| (parked.sequence, retrying.clone())));
            }
            self.due.add(meant.into_iter().map(|parked| (parked.key.clone(), parked.sequence)).collect());
            self.discarded.extend(left_out);
        }
    }

    /// The filters for what is tried again, and up to which sequence of the followed log.
    fn retried(&self, decision: &Decision) -> Option<(Vec<Filter>, u64)> {
        let Event::Retried(Retried { until, until_of_sessions, .. }) = decision.event else { return None };
        let until = OfEach { events: until, sessions: until_of_sessions }[self.projection.class];
        Some((decision.retried()?, until))
    }

    /// Applies recent decisions of operators that are not in the followed log. They are read again and again while
    /// something is parked, so it does not matter if Postgres does not answer.
    pub(crate) async fn listen(&mut self, database: &Database) {
        if self.projection.class == LogClass::Events || self.all.is_empty() || self.listens_at > Instant::now() {
            return;
        }
        match after(database, self.heard).await {
            Ok((decisions, end)) => {
                self.heard = end;
                self.obey(decisions);
            }
            Err(error) => {
                tracing::warn!(error = explain(&error), "decisions of operators cannot be read at the moment");
            }
        }
        self.listens_at = Instant::now() + LISTENS_EVERY;
    }

    fn fold_all<'a>(&self, tables: &'a [Table], events: &[Arc<Recorded>]) -> Result<Folded<'a>, BatchFailure> {
        let mut folded = Folded::default();
        for table in tables {
            let changes = match (fold(table, events), self.parking) {
                (Err(_), Some(parking)) => without_failures(parking, table, events, &mut folded.failed)?,
                (changes, _) => changes?,
            };
            folded.add(table, changes);
        }
        Ok(folded)
    }

    /// Returns the next aggregates that are to be tried again, with what waits of each up to a sequence, as far as
    /// history has it; `None` if history has to proceed first.
    pub(crate) async fn due(
        &mut self,
        database: &Database,
        to: u64,
    ) -> Result<Option<Vec<RetriedAggregate>>, DatabaseFailure> {
        let mut connection = database.connection().await?;
        let marks = std::mem::take(&mut self.marks);
        if let Some(parking) = self.parking
            && let Err(error) = parking.mark(&*connection, &marks).await
        {
            let projection = self.projection.name;
            tracing::warn!(projection, error = explain(&error), "retries cannot be shown as in progress");
        }
        let (transaction, reached) = snapshot_now(&mut connection, self.projection.class, self.shard).await?;
        let reached = reached.min(to);
        let next = self.due.next(reached);
        if next.is_empty() {
            return Ok(None);
        }
        if !self.has_all_discarded {
            self.discarded.extend(all_discarded(&transaction, self.projection).await?);
            self.has_all_discarded = true;
        }
        let mut found = vec![];
        for (key, from) in next {
            let (mut events, is_read) = waiting(&transaction, &key, from, reached).await?;
            let first = events.first().filter(|first| first.sequence == from);
            // The time may have been unknown when the unit began, and failures at once are counted by it.
            if let Some((first, parked)) =
                first.zip(self.all.get_mut(&key)).filter(|(_, parked)| parked.sequence == from)
            {
                parked.committed_at = Some(first.committed_at);
            }
            let is_there = first.is_some();
            let last = events.last().map_or(reached, |last| if is_read { reached } else { last.sequence });
            events.retain(|event| !self.leaves_out(event));
            let is_all = is_read && self.due.has_all(&key, reached);
            // The row was removed, and what waits may have been discarded.
            if is_all && self.withholds(&key) {
                let before = last_before(&transaction, &key, from, self.discarded.iter().copied()).await?;
                events.splice(..0, before);
            }
            found.push(RetriedAggregate { key, from, events, last, is_all, is_there });
        }
        transaction.commit().await?;
        Ok(Some(found))
    }

    /// Opens the personal data in what waits.
    pub(crate) async fn opened(&self, mut due: Vec<RetriedAggregate>) -> Result<Vec<RetriedAggregate>, PersonFailure> {
        for RetriedAggregate { events, .. } in &mut due {
            *events = opened(&self.persons, self.projection, std::mem::take(events)).await?;
        }
        Ok(due)
    }

    /// Folds the waiting events of aggregates that are tried again, each by itself.
    pub(crate) fn fold_waiting<'a>(
        &self,
        tables: &'a [Table],
        due: Vec<RetriedAggregate>,
    ) -> Result<(Folded<'a>, Retry), BatchFailure> {
        let (mut folded, mut retry) = (Folded::default(), Retry { waiting: due, ..Retry::default() });
        for RetriedAggregate { key, from, events, is_all, is_there, .. } in &retry.waiting {
            let is_first = self.all.get(key).is_some_and(|parked| parked.sequence == *from);
            // History has dropped what has aged out, and it is of no use.
            if is_first && !is_there && self.projection.class == LogClass::Events {
                tracing::error!(aggregate_id = key.id, sequence = from, "history does not have the event that failed");
                retry.postponed.insert(key.clone());
                continue;
            }
            match self.fold_all(tables, events) {
                Ok(Folded { changes, failed }) => {
                    // A removed row comes back in its latest state, and not in an intermediate one.
                    let is_told = *is_all || !self.withholds(key);
                    for (table, changes) in changes.into_iter().filter(|_| is_told) {
                        folded.add(table, changes);
                    }
                    folded.failed.extend(failed);
                }
                // A newer build wrote it; this one leaves it parked.
                Err(BatchFailure::Event(event)) if event.is_newer() => {
                    retry.postponed.insert(key.clone());
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok((folded, retry))
    }

    /// Refuses to park too much.
    ///
    /// # Errors
    /// [`Flood`]; nothing is noted then.
    pub(crate) fn insist_on_few(&self, failed: &[ParkedAt]) -> Result<(), Flood> {
        let new: Vec<_> = failed.iter().filter(|failed| !self.all.contains_key(&failed.key)).collect();
        // Those that failed again count with their new failures.
        let again: HashMap<_, _> = failed.iter().map(|failed| (&failed.key, failed)).collect();
        let before: Vec<_> = self.all.iter().map(|(key, parked)| again.get(key).copied().unwrap_or(parked)).collect();
        flood::insist_on_few(&before, &new)
    }

    /// Notes what was parked.
    pub(crate) fn add(&mut self, failed: &[ParkedAt]) {
        let (projection, mut new) = (self.projection.name, 0);
        for parked in failed {
            let ParkedAt { key, sequence, error, .. } = parked;
            let before = self.all.insert(key.clone(), parked.clone());
            if before.is_none_or(|before| before.sequence != *sequence) {
                new += 1;
                tracing::error!(
                    projection,
                    sequence,
                    aggregate_id = key.id,
                    error,
                    "an event failed; its aggregate is parked"
                );
            }
        }
        self.has_news |= !failed.is_empty();
        self.measure(new);
    }

    /// Notes that some were tried again. Of those that did not fail and have more waiting events than were read, the
    /// next ones become due.
    pub(crate) fn note_retry(&mut self, retry: &Retry, failed: &[ParkedAt]) {
        self.due.done(retry.waiting.len());
        for key in retry.healed(failed) {
            tracing::info!(projection = self.projection.name, aggregate_id = key.id, "a parked aggregate continues");
            self.all.remove(&key);
            self.due.forget(&key);
            self.has_news = true;
        }
        for RetriedAggregate { key, last, is_all, .. } in &retry.waiting {
            if !is_all && !retry.postponed.contains(key) && failed.iter().all(|failed| failed.key != *key) {
                self.due.go_on(key.clone(), last + 1);
            }
        }
        self.add(failed);
    }
}

impl<'a> Folded<'a> {
    fn add(&mut self, table: &'a Table, changes: Vec<Change>) {
        if changes.is_empty() {
            return;
        }
        match self.changes.iter_mut().find(|(known, _)| known.aggregate_type == table.aggregate_type) {
            Some((_, known)) => known.extend(changes),
            None => self.changes.push((table, changes)),
        }
    }
}
