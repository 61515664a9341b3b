//! Folding of events some of which fail.

use std::{collections::HashMap, sync::Arc};

use eventlog::record::Recorded;
use view::{
    failed_event::{ParkedAt, Parking},
    table::{Change, Table},
};

use super::flood::insist_on_few;
use crate::{failure::BatchFailure, fold::fold};

/// Folds failed events again, each aggregate by itself, up to the event that fails.
///
/// # Errors
/// When the projection stops at one that failed.
pub(super) fn without_failures(
    parking: Parking,
    table: &Table,
    events: &[Arc<Recorded>],
    failed: &mut Vec<ParkedAt>,
) -> Result<Vec<Change>, BatchFailure> {
    let (mut places, mut aggregates) = (HashMap::new(), Vec::<Vec<Arc<Recorded>>>::new());
    for event in events.iter().filter(|event| event.event.aggregate_type == table.aggregate_type) {
        let place = *places.entry(event.key()).or_insert(aggregates.len());
        if place == aggregates.len() {
            aggregates.push(vec![]);
        }
        aggregates[place].push(event.clone());
    }
    let mut changes = vec![];
    for events in aggregates {
        let failure = match fold(table, &events) {
            Ok(folded) => {
                changes.extend(folded);
                continue;
            }
            Err(failure) => failure,
        };
        let at = events.iter().position(|event| event.sequence == failure.sequence());
        let parks = |at: &usize| !failure.is_newer() && !parking.needs(&events[*at].key());
        let Some(at) = at.filter(parks) else { return Err(failure.into()) };
        failed.push(ParkedAt::now(&events[at], failure.without_values()));
        // Nothing more is folded if it is refused anyhow.
        insist_on_few(&[], &failed.iter().collect::<Vec<_>>())?;
        changes.extend(fold(table, &events[..at])?);
    }
    Ok(changes)
}
