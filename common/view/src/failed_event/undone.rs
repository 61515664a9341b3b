//! What state in memory goes back to when operators have an event left out that it had already.

use std::time::Duration;

use base::explain::explain;
use domain::{
    aggregate::Aggregate,
    failed_event::{Discarded, Event, FailedEvent},
};
use eventlog::record::{AggregateKey, Recorded, decode};
use tokio::time::sleep;

use super::decided::all_discarded;
use crate::{
    database::{Database, DatabaseFailure, snapshot},
    history::last_event,
    projection::{HISTORY, Projection},
    read_model::ReadModel,
};

/// The pause after history did not answer, or was not as far.
const PAUSE: Duration = Duration::from_millis(500);

/// An event that is left out, and what comes instead.
#[derive(Debug)]
pub struct Undone {
    /// The event.
    pub event: Recorded,
    /// The last one before it that is not left out.
    pub before: Option<Recorded>,
}

/// What an event says is left out of the view of a kind of aggregates.
pub fn left_out(
    recorded: &Recorded,
    view_of: impl Fn(&str) -> Option<&'static Projection>,
) -> Option<(Discarded, &'static Projection)> {
    if recorded.event.aggregate_type != FailedEvent::NAME {
        return None;
    }
    let Ok(Event::Discarded(discarded)) = decode::<FailedEvent>(recorded) else { return None };
    let view = view_of(&discarded.aggregate_type).filter(|view| view.name == discarded.view)?;
    Some((discarded, view))
}

/// What state in memory goes back to; `None` where a later event decides, which it has or will get. It waits until history is as far
/// as the decision.
pub async fn undone(
    database: &Database,
    (view, shard): (&Projection, u16),
    (discarded, decided): (&Discarded, u64),
) -> Option<Undone> {
    loop {
        match database.within(read(database, (view, shard), (discarded, decided))).await {
            Ok(Some(found)) => return found,
            Ok(None) => {}
            Err(error) => {
                let (view, error) = (view.name, explain(&error));
                tracing::warn!(view, error, "what an operator had left out is in memory still");
            }
        }
        sleep(PAUSE).await;
    }
}

async fn read(
    database: &Database,
    (view, shard): (&Projection, u16),
    (discarded, decided): (&Discarded, u64),
) -> Result<Option<Option<Undone>>, DatabaseFailure> {
    let mut connection = database.connection().await?;
    let transaction = snapshot(&mut connection).await?;
    let history = ReadModel::new(&HISTORY, shard).checkpoint(&transaction).await?;
    if history.is_none_or(|history| history.position.sequence < decided) {
        return Ok(None);
    }
    let key = AggregateKey {
        instance_id: discarded.instance_id.clone(),
        aggregate_type: discarded.aggregate_type.clone(),
        id: discarded.aggregate_id.clone(),
    };
    let left_out = all_discarded(&transaction, view).await?;
    let mut last = last_event(&transaction, &key, i64::MAX.unsigned_abs()).await?;
    while let Some(event) = last.as_ref().filter(|event| left_out.contains(&event.sequence)) {
        last = last_event(&transaction, &key, event.sequence - 1).await?;
    }
    let event = last_event(&transaction, &key, discarded.sequence).await?;
    transaction.commit().await?;
    let is_later = last.as_ref().is_some_and(|last| last.sequence > discarded.sequence);
    let event = event.filter(|event| event.sequence == discarded.sequence && !is_later);
    Ok(Some(event.map(|event| Undone { event, before: last })))
}
