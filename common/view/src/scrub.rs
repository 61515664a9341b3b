//! The reads and repairs of the scrubber, which finds what Postgres has and the log does not say.
//!
//! A row follows from the events of one aggregate, which history has; history follows from the log. So events are
//! checked against the log, and rows against the events. A repair holds the checkpoint of its projection for a moment,
//! looks once more, and changes only what still deviates.

mod events;
mod note;
mod page;
mod repair;

use std::{collections::HashSet, time::Duration};

use domain::log_class::LogClass;
use eventlog::record::AggregateKey;

use self::repair::with_events;
pub use self::{
    events::{Wrong, delete_strangers, deviating_events, rewrite},
    note::{Scrub, note_checked, note_written, scrubs},
    page::{Documents, Page, pages},
    repair::repair,
};
use crate::{
    checkpoint::Checkpoint,
    database::{Database, DatabaseFailure, begin, limited},
    failed_event::decided::all_discarded,
    projection::{Kind, PROJECTIONS, Projection, history_of},
    read_model::ReadModel,
    table::{Change, Table},
};

/// Returns what a view consists of, for people: rows, the events of a history, or the documents of a search index.
pub fn parts_of(view: &str) -> &'static str {
    match PROJECTIONS.iter().find(|projection| projection.view == view).map(|projection| &projection.kind) {
        Some(Kind::History) => "events",
        Some(Kind::Index(_)) => "documents",
        Some(Kind::Rows(_)) | None => "rows",
    }
}

/// How many keys of a table are read at once.
const KEYS: u32 = 1000;
/// After what time Postgres ends a statement of the scrubber.
const LIMIT: Duration = Duration::from_secs(4);
/// The same for a repair, with how long it waits for a worker that moves the checkpoint, in milliseconds.
const LIMITS: &str = "set local lock_timeout = 1000; set local statement_timeout = 4000";

/// A table of a projection, or a search index of one.
#[derive(Clone, Copy)]
pub struct Place {
    /// The projection.
    pub projection: &'static Projection,
    /// One of its tables, or the one whose resources it indexes.
    pub table: &'static Table,
}

/// The sequences of the events that operators discarded in a projection.
#[derive(Debug, PartialEq, Eq)]
pub struct Discarded(HashSet<u64>);

/// Every table whose rows follow from events of a log.
pub fn places(class: LogClass) -> impl Iterator<Item = Place> {
    let of_log = PROJECTIONS.iter().filter(move |projection| projection.class == class);
    of_log.flat_map(|projection| projection.row_tables().iter().map(move |table| Place { projection, table }))
}

/// Every search index whose documents follow from events of a log.
pub fn indexes(class: LogClass) -> impl Iterator<Item = Place> {
    PROJECTIONS.iter().filter(move |projection| projection.class == class).filter_map(|projection| {
        let Kind::Index(table) = &projection.kind else { return None };
        Some(Place { projection, table })
    })
}

impl Place {
    /// The aggregate of a row or a document.
    pub fn key_of(self, Change { instance_id, id, .. }: &Change) -> AggregateKey {
        let aggregate_type = self.table.aggregate_type.to_owned();
        AggregateKey { instance_id: instance_id.clone(), aggregate_type, id: id.clone() }
    }

    /// Names a row or a document for people.
    pub fn name(self, instance_id: &str, id: &str) -> String {
        format!("{} {id} of instance {instance_id}", (self.table.name)())
    }
}

/// A page of the rows of a table.
pub struct Rows {
    /// The key of its last row, with which the next page begins; `None` at the end of the table.
    pub last: Option<AggregateKey>,
    /// How many rows it has, without the first one of a page that is not the first.
    pub count: u64,
    /// The rows of whose aggregates history has no event.
    pub unknown: Vec<AggregateKey>,
}

/// Returns a page of the rows of a table from a key on: those that no event explains are found only here.
///
/// # Errors
/// When Postgres does not answer.
pub async fn rows_from(
    database: &Database,
    shard: u16,
    place: Place,
    last: Option<&AggregateKey>,
) -> Result<Rows, DatabaseFailure> {
    let nothing = AggregateKey { instance_id: String::new(), aggregate_type: String::new(), id: String::new() };
    let read = async {
        let mut connection = database.connection().await?;
        let transaction = begin(&mut connection).await?;
        limited(&transaction, Some(LIMIT)).await?;
        let read_model = ReadModel::new(place.projection, shard);
        let mut found = read_model.keys_from(&transaction, place.table, last.unwrap_or(&nothing), KEYS).await?;
        transaction.commit().await?;
        found.retain(|(key, _)| Some(key) != last);
        Ok(Rows {
            last: found.last().map(|(key, _)| key.clone()),
            count: found.len() as u64,
            unknown: found.into_iter().filter(|(_, is_known)| !is_known).map(|(key, _)| key).collect(),
        })
    };
    database.within(read).await
}

/// Returns which of these aggregates have no events at a sequence of a log; `None` while history is not as far.
///
/// # Errors
/// When Postgres does not answer.
pub async fn without_events(
    database: &Database,
    shard: u16,
    class: LogClass,
    keys: &[AggregateKey],
    at: u64,
) -> Result<Option<Vec<AggregateKey>>, DatabaseFailure> {
    let read = async {
        let mut connection = database.connection().await?;
        let transaction = begin(&mut connection).await?;
        limited(&transaction, Some(LIMIT)).await?;
        let history = Checkpoint::read(&transaction, history_of(class), shard).await?;
        if history.is_none_or(|history| history.position.sequence < at) {
            return Ok(None);
        }
        let explained = with_events(&transaction, class, keys, 0).await?;
        transaction.commit().await?;
        Ok(Some(keys.iter().filter(|key| !explained.contains(*key)).cloned().collect()))
    };
    database.within(read).await
}

/// Returns the events that operators discarded in a projection.
///
/// # Errors
/// When Postgres does not answer.
pub async fn discarded(database: &Database, projection: &Projection) -> Result<Discarded, DatabaseFailure> {
    let read = async {
        let mut connection = database.connection().await?;
        let transaction = begin(&mut connection).await?;
        limited(&transaction, Some(LIMIT)).await?;
        Ok(Discarded(all_discarded(&transaction, projection).await?))
    };
    database.within(read).await
}
