//! Folding events to changes of a table, and finding the event that fails.

use std::sync::Arc;

use base::panic::{Panicked, caught};
use eventlog::record::{Recorded, Undecodable};
use view::table::{Change, Table};

/// An event that the projection cannot process.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EventFailure {
    /// The event cannot be read.
    #[error(transparent)]
    Undecodable(#[from] Undecodable),
    /// The event can be read, but the code that applies it panics.
    #[error("event {sequence}, {event_type} of {aggregate_id}, cannot be applied")]
    Panicked {
        /// Its sequence.
        sequence: u64,
        /// Its type.
        event_type: String,
        /// Its aggregate.
        aggregate_id: String,
        /// The panic.
        #[source]
        panicked: Panicked,
    },
}

impl EventFailure {
    fn of(recorded: &Recorded, panicked: Panicked) -> Self {
        let (event_type, aggregate_id) = (recorded.event.r#type.clone(), recorded.event.aggregate_id.clone());
        Self::Panicked { sequence: recorded.sequence, event_type, aggregate_id, panicked }
    }

    /// The sequence of the event.
    pub(crate) fn sequence(&self) -> u64 {
        match self {
            Self::Undecodable(event) => event.sequence,
            Self::Panicked { sequence, .. } => *sequence,
        }
    }

    /// Describes the failure for people. It quotes nothing, since an event may contain confidential data.
    pub(crate) fn without_values(&self) -> String {
        match self {
            Self::Undecodable(Undecodable { source: Some(error), .. }) => {
                let (kind, column) = (error.classify(), error.column());
                format!("{self}: its payload is not what this build expects ({kind:?}, at column {column})")
            }
            Self::Undecodable(_) => self.to_string(),
            Self::Panicked { .. } => format!("{self}: the code panicked, and the node's standard error says where"),
        }
    }

    /// Whether only a newer build can go on.
    pub(crate) fn is_newer(&self) -> bool {
        matches!(self, Self::Undecodable(event) if event.is_newer())
    }
}

/// Folds events to the changes of a table. An event that makes the code panic fails, like one that cannot be read.
pub(crate) fn fold(table: &Table, events: &[Arc<Recorded>]) -> Result<Vec<Change>, EventFailure> {
    // Folding changes nothing that it borrows, and its partial result is dropped with the panic.
    let fold = |events| caught(|| table.fold(events));
    match (fold(events), events.last()) {
        (Ok(folded), _) => Ok(folded?),
        (Err(panicked), Some(last)) => {
            // Find the event. Each may pass alone; then it is the last one, which the others precede.
            let guilty = events.iter().find(|event| fold(std::slice::from_ref(*event)).is_err());
            Err(EventFailure::of(guilty.unwrap_or(last), panicked))
        }
        (Err(_), None) => Ok(vec![]),
    }
}
