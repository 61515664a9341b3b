//! Why a batch is not applied.

use base::explain::explain;
use eventlog::record::AggregateKey;
use view::{database::DatabaseFailure, persons::PersonFailure};

use crate::{fold::EventFailure, reporter::Cause};

/// How many may be parked at all: a search index has them all in one message.
pub(crate) const MOST: usize = 2000;

/// So much fails that the projection stands still rather than that it parks it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Flood {
    /// All at once.
    #[error(
        "too many aggregates failed at events of one minute: this looks like a bad build of the platform, and not like bad events"
    )]
    Sudden,
    /// Little by little.
    #[error("{MOST} aggregates are parked, and no more can be")]
    Full,
}

/// A batch that was not applied. Nothing of it was.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BatchFailure {
    /// An event cannot be read.
    #[error(transparent)]
    Event(#[from] EventFailure),
    /// Postgres refused.
    #[error(transparent)]
    Database(#[from] DatabaseFailure),
    /// The key of a person cannot be had now.
    #[error(transparent)]
    Person(#[from] PersonFailure),
    /// Too much fails.
    #[error(transparent)]
    Flood(#[from] Flood),
    /// A row is refused of which nothing was to be written.
    #[error("a row is refused that no event is of")]
    OfNothing,
    /// A row is refused without which nobody could mend anything.
    #[error("the row of {} {} is refused, which everybody needs: {error}", key.aggregate_type, key.id)]
    Needed {
        /// Of what it is.
        key: AggregateKey,
        /// Why, without values.
        error: String,
    },
    /// The checkpoint is not the one that this worker left.
    #[error("the checkpoint was moved by another worker, or Postgres lost its last commits")]
    Fenced,
}

impl BatchFailure {
    /// What is wrong, for people to read, without anything of an event.
    pub(crate) fn without_values(&self) -> String {
        if let Self::Event(event) = self { event.without_values() } else { explain(self) }
    }

    /// What it is about, as metrics have it.
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
