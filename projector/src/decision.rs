//! Decisions of operators about failed events, as units apply them.

use std::{collections::HashSet, sync::Arc, time::Duration};

use eventlog::{
    log::LogFailure,
    record::{Position, Recorded},
};
use tokio::time::sleep;
use view::failed_event::{
    Parking,
    decided::{self, Decision},
};

use crate::{Partition, Projector, failure::BatchFailure, fold::EventFailure};

/// How often it is checked whether history knows all decisions.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// Returns the decisions in a batch.
pub(crate) fn decisions(events: &[Arc<Recorded>]) -> Result<Vec<Decision>, BatchFailure> {
    let found = events.iter().filter_map(|recorded| Decision::of(recorded).map_err(EventFailure::from).transpose());
    Ok(found.collect::<Result<_, _>>()?)
}

/// Returns the sequences of the events that a unit leaves out. A unit that begins with the log waits until history has
/// all of it: otherwise it would apply events that an earlier unit left out.
pub(crate) async fn discarded<E: From<LogFailure> + From<BatchFailure>>(
    Projector { logs, database, .. }: &Projector,
    Partition { projection, shard }: Partition,
    from: Position,
) -> Result<HashSet<u64>, E> {
    if Parking::of(projection, shard).is_none() {
        return Ok(HashSet::new());
    }
    let end = if from == Position::default() { logs.events.end().await? } else { 0 };
    loop {
        match decided::discarded(database, projection, shard, end).await.map_err(BatchFailure::from)? {
            Some(found) => return Ok(found),
            None => sleep(LOOK_AGAIN).await,
        }
    }
}
