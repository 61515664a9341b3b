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

pub use self::{
    events::{Wrong, delete_strangers, deviating_events, rewrite},
    note::{Scrub, note_checked, scrubs},
    page::{Page, pages},
    repair::repair,
};
use crate::{
    database::{Database, DatabaseFailure, begin, limited},
    failed_event::decided::all_discarded,
    projection::{HISTORY, PROJECTIONS, Projection, SESSION_HISTORY},
    read_model::ReadModel,
    table::{Change, Table},
};

/// Returns what a view consists of, for people: rows, or the events of a history.
pub fn parts_of(view: &str) -> &'static str {
    if [HISTORY.view, SESSION_HISTORY.view].contains(&view) { "events" } else { "rows" }
}

/// How many keys of a table are read at once.
const KEYS: u32 = 1000;
/// After what time Postgres ends a statement of the scrubber.
const LIMIT: Duration = Duration::from_secs(4);
/// The same for a repair, with how long it waits for a worker that moves the checkpoint, in milliseconds.
const LIMITS: &str = "set local lock_timeout = 1000; set local statement_timeout = 4000";

/// A table of a projection.
#[derive(Clone, Copy)]
pub struct Place {
    /// The projection.
    pub projection: &'static Projection,
    /// One of its tables.
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

impl Place {
    /// The aggregate of a row.
    pub fn key_of(self, Change { instance_id, id, .. }: &Change) -> AggregateKey {
        let aggregate_type = self.table.aggregate_type.to_owned();
        AggregateKey { instance_id: instance_id.clone(), aggregate_type, id: id.clone() }
    }

    /// Names a row for people.
    fn name(self, Change { instance_id, id, .. }: &Change) -> String {
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
