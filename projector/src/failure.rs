//! Reasons why a batch is not applied.

use base::explain::explain;
use eventlog::record::AggregateKey;
use view::{database::DatabaseFailure, persons::PersonFailure};

use crate::{fold::EventFailure, reporter::Cause};

/// How many aggregates may be parked in all: a search index has them all in one message.
pub(crate) const MOST: usize = 2000;

/// So much fails that the projection stops instead of parking it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Flood {
    /// Too many aggregates failed at once.
    #[error(
        "too many aggregates failed at events of one minute: this looks like a bad build of the platform, and not like bad events"
    )]
    Sudden,
    /// Too many aggregates have failed over time.
    #[error("{MOST} aggregates are parked, and no more can be")]
    Full,
}

/// Why a batch was not applied. Nothing of it was.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BatchFailure {
    /// An event cannot be read.
    #[error(transparent)]
    Event(#[from] EventFailure),
    /// Postgres refused.
    #[error(transparent)]
    Database(#[from] DatabaseFailure),
    /// The key of a person is unavailable.
    #[error(transparent)]
    Person(#[from] PersonFailure),
    /// Too much fails.
    #[error(transparent)]
    Flood(#[from] Flood),
    /// A refused row belongs to no event of the batch.
    #[error("Postgres refused a row that belongs to no event of the batch")]
    OfNothing,
    /// A refused row is needed by everybody: without it nothing could be repaired.
    #[error("Postgres refused the row of {} {}, without which nothing can go on: {error}", key.aggregate_type, key.id)]
    Needed {
        /// The aggregate of the row.
        key: AggregateKey,
        /// The reason, without values.
        error: String,
    },
    /// The checkpoint is not the one that this worker wrote.
    #[error("the checkpoint was moved by another worker, or Postgres lost its last commits")]
    Fenced,
}

impl BatchFailure {
    /// Describes the failure for people, without any content of an event.
    pub(crate) fn without_values(&self) -> String {
        if let Self::Event(event) = self { event.without_values() } else { explain(self) }
    }

    /// The cause, as in metrics.
    pub(crate) fn cause(&self) -> Cause {
        match self {
            Self::Event(_) | Self::Flood(_) | Self::OfNothing | Self::Needed { .. } => Cause::Event,
            Self::Database(_) | Self::Person(PersonFailure::Database(_) | PersonFailure::Keyring(_)) => Cause::Postgres,
            Self::Person(_) => Cause::Nats,
            Self::Fenced => Cause::Fenced,
        }
    }
}

impl From<tokio_postgres::Error> for BatchFailure {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Database(error.into())
    }
}
