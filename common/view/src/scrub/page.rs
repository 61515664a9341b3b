//! Rows of one table, or documents of one search index, with the events that they should follow from.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use deadpool_postgres::Transaction;
use domain::{column::Value, log_class::LogClass};
use eventlog::record::{AggregateKey, Position, Recorded};
use jiff::Timestamp;
use serde_json::Value as Json;

use super::{Discarded, LIMIT, Place, places};
use crate::{
    checkpoint::Checkpoint,
    database::{Database, DatabaseFailure, begin, limited},
    failed_event::Parking,
    history::newest::{NewestEvents, newest},
    projection::{HISTORY, Kind, history_of},
    read_model::ReadModel,
    table::{Change, Row, Table, aged::forgotten_before},
};

/// A search index, whose documents are not in Postgres.
pub struct Documents {
    /// The index.
    pub place: Place,
    /// The last record in it.
    pub position: Position,
    /// When that record was committed.
    pub committed_at: Timestamp,
    /// The aggregates whose documents lack events that failed.
    pub omitted: HashSet<AggregateKey>,
}

/// What one table has of some aggregates, and the events that it should follow from, all from one snapshot. Of a search
/// index, it has the events.
pub struct Page {
    /// The table, or the index.
    pub place: Place,
    /// How far history is in the log of the projection.
    pub(super) history: Checkpoint,
    /// How far history is in `EVENTS`, which has the decisions of operators.
    pub(super) decided: u64,
    /// How far the projection is.
    pub(super) at: Checkpoint,
    aggregates: Vec<CheckedAggregate>,
}

/// An aggregate with its row.
struct CheckedAggregate {
    key: AggregateKey,
    past: NewestEvents,
    row: Option<Row>,
}

/// Returns what each table has of some aggregates of a log, and what documents of these indexes should follow from.
///
/// # Errors
/// When Postgres does not answer.
pub async fn pages(
    database: &Database,
    shard: u16,
    class: LogClass,
    keys: &[AggregateKey],
    indexes: &[Documents],
) -> Result<Vec<Page>, DatabaseFailure> {
    let read = async {
        let mut connection = database.connection().await?;
        let transaction = begin(&mut connection).await?;
        limited(&transaction, Some(LIMIT)).await?;
        let history = Checkpoint::read(&transaction, history_of(class), shard).await?;
        let decided = Checkpoint::read(&transaction, &HISTORY, shard).await?;
        let (Some(history), Some(decided)) = (history, decided) else { return Ok(vec![]) };
        let decided = decided.position.sequence;
        let events = newest(&transaction, class, keys).await?;
        let of_table = |table: &Table| -> Vec<&AggregateKey> {
            keys.iter().filter(|key| key.aggregate_type == table.aggregate_type).collect()
        };
        let mut pages = vec![];
        for place in places(class) {
            let of_table = of_table(place.table);
            if of_table.is_empty() {
                continue;
            }
            let Some(at) = Checkpoint::read(&transaction, place.projection, shard).await? else { continue };
            let rows = place.rows(&transaction, shard, &of_table).await?;
            let parked = place.parked(&transaction, shard).await?;
            let mut page = Page { place, history, decided, at, aggregates: vec![] };
            page.fill(of_table.into_iter().filter(|key| !parked.contains(key)), &events, rows);
            pages.push(page);
        }
        transaction.commit().await?;
        for Documents { place, position, committed_at, omitted } in indexes {
            let at = Checkpoint { epoch: 0, position: *position, committed_at: *committed_at };
            let mut page = Page { place: *place, history, decided, at, aggregates: vec![] };
            let of_table = of_table(place.table);
            if of_table.is_empty() {
                continue;
            }
            page.fill(of_table.into_iter().filter(|key| !omitted.contains(key)), &events, HashMap::new());
            pages.push(page);
        }
        Ok(pages)
    };
    database.within(read).await
}

impl Place {
    pub(super) async fn rows(
        self,
        client: &Transaction<'_>,
        shard: u16,
        keys: &[&AggregateKey],
    ) -> Result<HashMap<AggregateKey, Row>, DatabaseFailure> {
        ReadModel::new(self.projection, shard).rows(client, self.table, keys).await
    }

    /// The aggregates whose rows lack events that failed.
    pub(super) async fn parked(
        self,
        client: &Transaction<'_>,
        shard: u16,
    ) -> Result<HashSet<AggregateKey>, DatabaseFailure> {
        let Some(parking) = Parking::of(self.projection, shard) else { return Ok(HashSet::new()) };
        Ok(parking.parked(client).await?.into_iter().map(|parked| parked.key).collect())
    }
}

impl Page {
    fn fill<'a>(
        &mut self,
        keys: impl Iterator<Item = &'a AggregateKey>,
        events: &HashMap<AggregateKey, NewestEvents>,
        mut rows: HashMap<AggregateKey, Row>,
    ) {
        let nothing = NewestEvents { events: vec![], are_all: true };
        for key in keys {
            let past = events.get(key).unwrap_or(&nothing).until(self.at.position.sequence);
            self.aggregates.push(CheckedAggregate { key: key.clone(), past, row: rows.remove(key) });
        }
    }

    /// The events that its rows follow from, without those that operators discarded.
    pub fn events(&self, discarded: &Discarded) -> Vec<Arc<Recorded>> {
        let events = self.aggregates.iter().flat_map(|aggregate| &aggregate.past.events);
        events.filter(|recorded| !discarded.0.contains(&recorded.sequence)).cloned().collect()
    }

    /// Returns what rows should be that are not what these events were folded to.
    pub fn deviations(&self, folded: Vec<Change>) -> Vec<Change> {
        let deviates = |(CheckedAggregate { row, .. }, Change { row: expected, .. }): &(&CheckedAggregate, Change)| {
            let (expected, row) = (expected.as_ref(), row.as_ref());
            !is_same(self.place.table, expected, row) && !self.may_be_right(expected, row)
        };
        self.expected(folded).filter(deviates).map(|(_, change)| change).collect()
    }

    /// Returns what documents should be by these events, except where that is uncertain: what ages out may be gone
    /// already, from the index or from history.
    pub fn documents(&self, folded: Vec<Change>) -> Vec<Change> {
        if !self.history_has_all() {
            return vec![];
        }
        let is_certain = |change: &Change| match &change.row {
            Some(row) => !self.has_ended(row),
            None => !self.ages(),
        };
        self.expected(folded).map(|(_, change)| change).filter(is_certain).collect()
    }

    /// What each aggregate should have by these events, if those that say it were read.
    fn expected(&self, folded: Vec<Change>) -> impl Iterator<Item = (&CheckedAggregate, Change)> {
        let mut folded: HashMap<AggregateKey, Option<Row>> =
            folded.into_iter().map(|change| (self.place.key_of(&change), change.row)).collect();
        self.aggregates.iter().filter_map(move |aggregate| {
            let row = match folded.remove(&aggregate.key) {
                Some(row) => row,
                None if aggregate.past.are_all => None,
                None => return None,
            };
            let AggregateKey { instance_id, id, .. } = aggregate.key.clone();
            Some((aggregate, Change { instance_id, id, row }))
        })
    }

    /// Whether it is of documents, which are not in Postgres.
    pub fn is_of_index(&self) -> bool {
        matches!(self.place.projection.kind, Kind::Index(_))
    }

    /// Whether history has all events up to the position of the projection.
    pub fn history_has_all(&self) -> bool {
        self.history.position.sequence >= self.at.position.sequence
    }

    /// The position of the projection.
    pub fn position(&self) -> Position {
        self.at.position
    }

    /// Whether the events of an aggregate were considered up to the newest one, as far as the projection is.
    pub fn has(&self, key: &AggregateKey, newest: u64) -> bool {
        let known = self.aggregates.iter().find(|aggregate| aggregate.key == *key);
        let last = known.and_then(|known| known.past.events.last()).map_or(0, |last| last.sequence);
        newest > self.at.position.sequence || last >= newest
    }

    /// The sequence up to which events were considered.
    pub(super) fn last_considered(&self) -> u64 {
        self.history.position.sequence.min(self.at.position.sequence)
    }

    /// Whether a row that differs may follow from an event that history lacks or has forgotten, or may be deleted
    /// already. No row is ahead of its own checkpoint.
    fn may_be_right(&self, expected: Option<&Row>, row: Option<&Row>) -> bool {
        let (at, history) = (self.at.position.sequence, self.history.position.sequence);
        match row {
            Some(row) => {
                let is_newer = row.sequence > history && row.sequence <= at;
                is_newer || expected.is_none() && self.ages() && at < history
            }
            None => at > history || expected.is_some_and(|row| self.has_ended(row)),
        }
    }

    /// Whether rows are deleted when their resources have ended by themselves.
    fn ages(&self) -> bool {
        (self.place.table.ends_at)().is_some()
    }

    fn has_ended(&self, row: &Row) -> bool {
        let Some(ends_at) = (self.place.table.ends_at)() else { return false };
        let columns = (self.place.table.columns)();
        let value = columns.iter().zip(&row.values).find(|(column, _)| column.name == ends_at.name);
        let before = forgotten_before(Timestamp::UNIX_EPOCH, self.at.committed_at);
        matches!((value, before), (Some((_, Value::Integer(end))), Some(before)) if *end < before)
    }
}

impl NewestEvents {
    /// Those up to a sequence.
    fn until(&self, sequence: u64) -> Self {
        let events = self.events.iter().filter(|recorded| recorded.sequence <= sequence);
        Self { events: events.cloned().collect(), are_all: self.are_all }
    }
}

/// Whether two rows of a table say the same. What is there may have been written by an earlier build, without members
/// that it did not know, or in another order.
pub(super) fn is_same(table: &Table, expected: Option<&Row>, there: Option<&Row>) -> bool {
    let (expected, there) = match (expected, there) {
        (None, None) => return true,
        (Some(expected), Some(there)) => (expected, there),
        _ => return false,
    };
    if expected == there {
        return true;
    }
    let parsed = |state: &str| serde_json::from_str::<Json>(state).ok();
    let rewritten = (table.rewritten)(&there.state).unwrap_or_default();
    Row { state: expected.state.clone(), ..there.clone() } == *expected
        && parsed(&rewritten).is_some_and(|state| Some(state) == parsed(&expected.state))
}

#[cfg(test)]
mod tests {
    use domain::context::Owner;
    use eventlog::record::Event;

    use super::*;

    fn place(aggregate_type: &str) -> Place {
        let is_it =
            |place: &Place| place.table.aggregate_type == aggregate_type && !place.projection.name.starts_with("ended");
        LogClass::ALL.into_iter().flat_map(places).find(is_it).unwrap()
    }

    fn row(state: &str, sequence: u64, values: Vec<Value>) -> Row {
        let (created_at, changed_at) = (Timestamp::UNIX_EPOCH, Timestamp::UNIX_EPOCH);
        Row { owner: Owner::instance("1"), sequence, created_at, changed_at, state: state.to_owned(), values }
    }

    fn key(place: Place) -> AggregateKey {
        let aggregate_type = place.table.aggregate_type.to_owned();
        AggregateKey { instance_id: "1".into(), aggregate_type, id: "2".into() }
    }

    /// One aggregate whose newest event is 7, in a projection that is at 8, where history is at 9.
    fn page(place: Place, there: Option<Row>, are_all: bool) -> Page {
        let at = |sequence| {
            let position = Position { sequence, ..Position::default() };
            Checkpoint { epoch: 1, position, committed_at: Timestamp::from_second(4_000_000_000).unwrap() }
        };
        let event = Recorded { sequence: 7, committed_at: Timestamp::UNIX_EPOCH, event: Event::default() };
        let past = NewestEvents { events: vec![Arc::new(event)], are_all };
        let aggregates = vec![CheckedAggregate { key: key(place), past, row: there }];
        Page { place, history: at(9), decided: 9, at: at(8), aggregates }
    }

    fn deviation(
        place: Place,
        there: Option<Row>,
        expected: Option<Option<Row>>,
        are_all: bool,
    ) -> Option<Option<Row>> {
        let change = |row| Change { instance_id: "1".into(), id: "2".into(), row };
        let folded = expected.map(change).into_iter().collect();
        page(place, there, are_all).deviations(folded).pop().map(|change| change.row)
    }

    #[test]
    fn an_event_that_history_lacks_is_noticed() {
        let targets = place("target");
        let page = page(targets, None, true);
        let has = |newest| page.has(&key(targets), newest);
        assert!(has(7) && !has(8), "the projection has applied 8");
        assert!(has(9), "the projection has not come to 9");
        assert!(!page.has(&AggregateKey { id: "3".into(), ..key(targets) }, 1));
    }

    #[test]
    fn a_row_deviates_that_is_other_missing_or_of_nothing() {
        let targets = place("target");
        let right = row("{\"name\":\"a\"}", 7, vec![]);
        let other = row("{\"name\":\"b\"}", 7, vec![]);
        assert_eq!(deviation(targets, Some(right.clone()), Some(Some(right.clone())), true), None);
        assert_eq!(deviation(targets, Some(other), Some(Some(right.clone())), true), Some(Some(right.clone())));
        assert_eq!(deviation(targets, None, Some(Some(right.clone())), true), Some(Some(right.clone())));
        assert_eq!(deviation(targets, Some(right.clone()), Some(None), true), Some(None));
        assert_eq!(deviation(targets, Some(right.clone()), None, true), Some(None), "nothing explains it");
        assert_eq!(deviation(targets, Some(right), None, false), None, "older events may explain it");
        assert_eq!(deviation(targets, None, None, true), None);
    }

    #[test]
    fn no_row_is_ahead_of_its_projection() {
        let (targets, right) = (place("target"), row("{\"name\":\"a\"}", 7, vec![]));
        for sequence in [8, 9, 10] {
            let there = Row { sequence, ..right.clone() };
            let wanted = Some(Some(right.clone()));
            assert_eq!(deviation(targets, Some(there), wanted.clone(), true), wanted, "{sequence}");
        }
    }

    #[test]
    fn a_row_of_an_earlier_build_may_lack_members() {
        let settings = place("domain_settings");
        let now = (settings.table.rewritten)("{}").unwrap();
        assert_ne!(now, "{}", "every member is written");
        let there =
            |state: &str| deviation(settings, Some(row(state, 7, vec![])), Some(Some(row(&now, 7, vec![]))), true);
        assert_eq!(there("{}"), None);
        assert!(there("{\"login_name_includes_domain\":true}").is_some());
        assert!(there("no JSON").is_some());
    }

    #[test]
    fn a_session_that_has_ended_may_be_deleted_already_but_not_live_longer() {
        let sessions = place("session");
        let ends_at = (sessions.table.ends_at)().unwrap().name;
        let ended = |at: i64| {
            let of = |column: &domain::column::Definition| match column.kind {
                domain::column::Kind::Text => Value::Text(String::new()),
                domain::column::Kind::Integer => Value::Integer(if column.name == ends_at { at } else { 0 }),
                domain::column::Kind::Bool => Value::Bool(false),
            };
            row("{}", 7, (sessions.table.columns)().iter().map(of).collect())
        };
        let (long_ago, later) = (ended(1000), ended(5_000_000_000_000));
        assert_eq!(deviation(sessions, None, Some(Some(long_ago.clone())), true), None);
        assert_eq!(deviation(sessions, None, Some(Some(later.clone())), true), Some(Some(later.clone())));
        assert_eq!(deviation(sessions, Some(later), Some(Some(long_ago.clone())), true), Some(Some(long_ago)));
    }
}
