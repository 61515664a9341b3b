//! What rows and documents should be, by the events of their aggregates in history.

use std::collections::HashSet;

use base::explain::explain;
use eventlog::record::AggregateKey;
use view::{
    persons::Persons,
    scrub::{Discarded, Page},
    table::Change,
};

use crate::{fold::fold, open::opened};

/// Folds the events of a page, without those that operators discarded.
///
/// # Errors
/// When an event cannot be read or opened; in words.
pub(crate) async fn expected(persons: &Persons, page: &Page, discarded: &Discarded) -> Result<Vec<Change>, String> {
    let place = page.place;
    let clear = opened(persons, place.projection, page.events(discarded)).await.map_err(|failure| explain(&failure))?;
    // An event that fails here is about to be parked, or a newer build wrote it.
    fold(place.table, &clear).map_err(|failure| failure.without_values())
}

/// Leaves out what there should be of people who were removed just now, or whose keys were lost: what is there is the last
/// of it. What should not be there goes in any case.
///
/// # Errors
/// When the keys cannot be read; in words.
pub(crate) async fn without_erased(
    persons: &Persons,
    page: &Page,
    discarded: &Discarded,
    mut changes: Vec<Change>,
) -> Result<Vec<Change>, String> {
    if !changes.is_empty() {
        let keys: HashSet<AggregateKey> = changes.iter().map(|change| page.place.key_of(change)).collect();
        let events: Vec<_> =
            page.events(discarded).into_iter().filter(|recorded| keys.contains(&recorded.key())).collect();
        let erased = persons.unopened(&events).await.map_err(|failure| explain(&failure))?;
        changes.retain(|change| change.row.is_none() || !erased.contains(&page.place.key_of(change)));
    }
    Ok(changes)
}
