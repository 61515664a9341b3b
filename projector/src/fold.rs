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

/// Folds events to the changes of a table. An event that makes the code panic fails, like one that cannot be read. Of
/// several that fail, the first is named.
pub(crate) fn fold(table: &Table, events: &[Arc<Recorded>]) -> Result<Vec<Change>, EventFailure> {
    let first = || events.iter().find_map(|event| attempt(table, std::slice::from_ref(event)).err());
    // Each may pass alone.
    attempt(table, events).map_err(|failure| first().unwrap_or(failure))
}

fn attempt(table: &Table, events: &[Arc<Recorded>]) -> Result<Vec<Change>, EventFailure> {
    // Folding changes nothing that it borrows, and its partial result is dropped with the panic.
    match (caught(|| table.fold(events)), events.last()) {
        (Ok(folded), _) => Ok(folded?),
        (Err(panicked), Some(last)) => Err(EventFailure::of(last, panicked)),
        (Err(_), None) => Ok(vec![]),
    }
}

#[cfg(test)]
mod tests {
    use domain::resource::organization::Organization;
    use eventlog::record::Event;
    use jiff::Timestamp;
    use view::table::standard;

    use super::*;

    /// An event of an organization, which has this name then; one that cannot be read if there is none.
    fn event(sequence: u64, id: &str, name: Option<&str>) -> Arc<Recorded> {
        let state = |name| format!(r#"{{"to":{{"name":"{name}","is_active":true}},"fields":["name"]}}"#);
        let payload = name.map_or_else(|| "{".to_owned(), state).into();
        let (aggregate_type, aggregate_id, instance_id) = ("organization".into(), id.into(), "1".into());
        let r#type = "organization.changed".into();
        let event =
            Event { instance_id, aggregate_type, aggregate_id, r#type, payload, owner_type: 2, ..Event::default() };
        Arc::new(Recorded { sequence, committed_at: Timestamp::UNIX_EPOCH, event })
    }

    #[test]
    fn only_the_last_event_of_an_aggregate_is_needed() {
        let table = standard::<Organization>();
        let events =
            [event(1, "a", Some("x")), event(2, "b", None), event(3, "a", Some("y")), event(4, "b", Some("z"))];
        let changes = fold(&table, &events).expect("what cannot be read is not needed");
        let rows = changes.iter().map(|change| (&*change.id, change.row.as_ref().map(|row| row.sequence)));
        assert_eq!(rows.collect::<Vec<_>>(), [("a", Some(3)), ("b", Some(4))]);
    }

    #[test]
    fn of_several_events_that_fail_the_first_is_named() {
        let table = standard::<Organization>();
        let events = [event(1, "a", Some("x")), event(2, "b", None), event(3, "c", None), event(4, "b", None)];
        assert_eq!(fold(&table, &events).expect_err("they cannot be read").sequence(), 2);
    }
}
