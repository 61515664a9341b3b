//! One round of the scrubber over all read models in Postgres.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use base::{explain::explain, metric::catalog::PROJECTION_REPAIRED};
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
    persons::PersonFailure,
    projection::{PROJECTIONS, Projection, history_of},
    scrub::{
        Deviation, Discarded, Page, Place, Wrong, deviating_events, discarded, note_checked, pages, places, repair,
        rewrite, rows_after,
    },
};

use crate::{Projector, batch, fold::fold, open::opened};

/// How often aggregates are checked whose events had to be repaired first.
const ATTEMPTS: usize = 2;
/// How many aggregates are checked at once.
const AGGREGATES: u32 = 200;
/// How many times as long as it worked the scrubber rests: it takes about 5 % of a processor.
const REST: u32 = 19;
const LONGEST_REST: Duration = Duration::from_secs(5);
/// How long to wait for a record that the log has.
const SILENCE: Duration = Duration::from_secs(10);
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
    Person(#[from] PersonFailure),
    #[error("the log has not sent a record for {} s", SILENCE.as_secs())]
    Silent,
}

/// The events that operators discarded, by projection.
type OfProjections = HashMap<&'static str, Discarded>;

/// A round.
pub(super) struct Round<'a> {
    projector: &'a Projector,
    lease: &'a Lease,
    /// How many rows or events were checked, by projection.
    checked: HashMap<&'static str, u64>,
}

impl<'a> Round<'a> {
    pub(super) fn new(projector: &'a Projector, lease: &'a Lease) -> Self {
        Self { projector, lease, checked: HashMap::new() }
    }

    /// Checks everything once, and repairs what deviates.
    pub(super) async fn run(mut self) -> Result<(), RoundFailure> {
        for class in LogClass::ALL {
            self.check_events(class).await?;
        }
        for class in LogClass::ALL {
            let discarded = self.discarded(class).await?;
            self.check_aggregates(class, &discarded).await?;
            self.check_rows(class, &discarded).await?;
        }
        let Projector { database, shard, .. } = self.projector;
        let connection = database.connection().await?;
        for projection in PROJECTIONS.iter() {
            if let Some(checked) = self.checked.get(projection.name) {
                note_checked(&connection, *shard, projection, *checked).await?;
            }
        }
        tracing::info!(checked = self.checked.values().sum::<u64>(), "the read models were checked against the log");
        Ok(())
    }

    /// Checks the events of a history against its log.
    async fn check_events(&mut self, class: LogClass) -> Result<(), RoundFailure> {
        let Projector { logs, database, shard, .. } = self.projector;
        let (log, history) = (&logs[class], history_of(class));
        self.checked.insert(history.name, 0);
        let Some(end) = log.last().await? else { return Ok(()) };
        let mut records = log.follow(Position::default()).await?;
        loop {
            let begun = Instant::now();
            let Ok(Some(batch)) = timeout(SILENCE, batch::next(&mut records)).await else {
                return Err(RoundFailure::Silent);
            };
            let batch = batch?;
            match deviating_events(database, *shard, class, &batch.records).await? {
                Wrong::Lagging => return Ok(()),
                Wrong::Events(wrong) if wrong.is_empty() => {}
                Wrong::Events(_) => report(history, rewrite(database, *shard, class, &batch.records).await),
            }
            self.count(history, batch.events.len() as u64);
            if batch.end.stream_sequence >= end.stream_sequence {
                return Ok(());
            }
            self.rest(begun).await;
        }
    }

    async fn discarded(&self, class: LogClass) -> Result<OfProjections, RoundFailure> {
        let mut found = OfProjections::new();
        for Place { projection, .. } in places(class) {
            if !found.contains_key(projection.name) {
                found.insert(projection.name, discarded(&self.projector.database, projection).await?);
            }
        }
        Ok(found)
    }

    /// Checks the rows of every aggregate that has events.
    async fn check_aggregates(&self, class: LogClass, discarded: &OfProjections) -> Result<(), RoundFailure> {
        let Projector { database, shard, .. } = self.projector;
        let mut last = before_all();
        loop {
            let begun = Instant::now();
            let found = aggregates_after(&database.connection().await?, class, &last, AGGREGATES).await?;
            let Some(newest) = found.last().cloned() else { return Ok(()) };
            for _ in 0..ATTEMPTS {
                let mut is_settled = true;
                for page in pages(database, *shard, class, &found).await? {
                    is_settled &= self.check_page(&page, discarded).await?;
                }
                if is_settled {
                    break;
                }
            }
            last = newest;
            self.rest(begun).await;
        }
    }

    /// Compares rows with those that their events are folded to; `false` if it was these that were wrong.
    async fn check_page(&self, page: &Page, discarded: &OfProjections) -> Result<bool, RoundFailure> {
        let (place, persons) = (page.place, &self.projector.persons);
        let Some(left_out) = discarded.get(place.projection.name) else { return Ok(true) };
        let events = page.events(left_out);
        let clear = opened(persons, place.projection, events.clone()).await?;
        let folded = match fold(place.table, &clear) {
            Ok(folded) => folded,
            Err(failure) => {
                // Its aggregate is about to be parked, or a newer build wrote it.
                tracing::debug!(error = failure.without_values(), "rows cannot be checked");
                return Ok(true);
            }
        };
        let mut deviations = page.deviations(folded);
        if deviations.is_empty() {
            return Ok(true);
        }
        // Rows of a removed person remain for a moment, and may have been written before that.
        let removed = persons.of_removed(&events).await?;
        deviations.retain(|deviation| !removed.contains(&place.key_of(&deviation.change)));
        let keys: HashSet<AggregateKey> = deviations.iter().map(|deviation| place.key_of(&deviation.change)).collect();
        let considered =
            events.iter().filter(|recorded| keys.contains(&recorded.key())).map(|recorded| recorded.sequence);
        let is_confirmed = self.confirm(place, considered, &deviations).await?;
        if is_confirmed {
            self.repair(place, left_out, &deviations).await;
        }
        Ok(is_confirmed)
    }

    /// Checks whether history has these events, and those that rows name, as the log has them: nothing is repaired after
    /// a history that somebody has changed. Events that history has wrong are written again, and the result is `false`.
    async fn confirm(
        &self,
        place: Place,
        events: impl Iterator<Item = u64>,
        deviations: &[Deviation],
    ) -> Result<bool, RoundFailure> {
        let Projector { logs, database, shard, .. } = self.projector;
        let class = place.projection.class;
        let sequences: BTreeSet<u64> =
            events.chain(deviations.iter().filter_map(|deviation| deviation.found)).collect();
        let (mut is_confirmed, mut reached) = (true, 0);
        for sequence in sequences {
            if sequence <= reached {
                continue;
            }
            let Some(record) = self.lease.during(logs[class].record_with(sequence)).await? else { continue };
            reached = record.position().sequence;
            let records = [Arc::new(record)];
            match deviating_events(database, *shard, class, &records).await? {
                Wrong::Events(wrong) if wrong.is_empty() => {}
                Wrong::Events(_) => {
                    report(history_of(class), rewrite(database, *shard, class, &records).await);
                    is_confirmed = false;
                }
                Wrong::Lagging => is_confirmed = false,
            }
        }
        Ok(is_confirmed)
    }

    /// Checks whether rows have events.
    async fn check_rows(&mut self, class: LogClass, discarded: &OfProjections) -> Result<(), RoundFailure> {
        let Projector { database, shard, .. } = self.projector;
        for place in places(class) {
            let Some(left_out) = discarded.get(place.projection.name) else { continue };
            let mut last = before_all();
            loop {
                let begun = Instant::now();
                let rows = rows_after(database, *shard, place, &last).await?;
                self.count(place.projection, rows.count);
                if self.confirm(place, std::iter::empty(), &rows.unknown).await? {
                    self.repair(place, left_out, &rows.unknown).await;
                }
                let Some(newest) = rows.last else { break };
                last = newest;
                self.rest(begun).await;
            }
        }
        Ok(())
    }

    async fn repair(&self, place: Place, discarded: &Discarded, deviations: &[Deviation]) {
        if !deviations.is_empty() {
            let Projector { database, shard, .. } = self.projector;
            report(place.projection, repair(database, *shard, place, discarded, deviations).await);
        }
    }

    fn count(&mut self, projection: &'static Projection, more: u64) {
        *self.checked.entry(projection.name).or_default() += more;
    }

    async fn rest(&self, begun: Instant) {
        self.lease.during(sleep((begun.elapsed() * REST).min(LONGEST_REST))).await;
    }
}

fn before_all() -> AggregateKey {
    AggregateKey { instance_id: String::new(), aggregate_type: String::new(), id: String::new() }
}

/// Reports a repair. One that fails is tried again in the next round.
fn report(projection: &Projection, repaired: Result<Vec<String>, DatabaseFailure>) {
    match repaired {
        Ok(names) if names.is_empty() => {}
        Ok(names) => {
            PROJECTION_REPAIRED.with(&[projection.name]).add(names.len() as u64);
            let (repaired, rows) = (names.len(), names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", "));
            tracing::error!(
                projection = projection.name,
                repaired,
                rows,
                "rows were not what the log says, and were repaired"
            );
        }
        Err(failure) => {
            let error = explain(&failure);
            tracing::warn!(
                projection = projection.name,
                error,
                "rows are not what the log says, and cannot be repaired now"
            );
        }
    }
}
