//! Failures of Postgres.

use deadpool_postgres::PoolError;
use tokio_postgres::error::SqlState;

/// Why Postgres did not do what was requested.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseFailure {
    /// No connection was available.
    #[error("cannot connect to Postgres")]
    Connect(#[from] PoolError),
    /// A statement failed.
    #[error("Postgres refused a statement")]
    Statement(#[from] tokio_postgres::Error),
    /// The address is malformed.
    #[error("the Postgres address is malformed: {0}")]
    Address(String),
    /// Nothing was answered in time.
    #[error("Postgres does not answer")]
    Silent,
    /// The projection is not stored in Postgres.
    #[error("{0} is not stored in Postgres")]
    Elsewhere(&'static str),
    /// Too many searches in events run at the moment.
    #[error("too many searches in events run at the moment")]
    Crowded,
    /// Somebody else changes the generations of a projection, or compares them.
    #[error("the generations of {0} are just being compared or changed; try again")]
    Busy(&'static str),
    /// A row cannot be read as what it must be.
    #[error("{table} of instance {instance_id}, id {id} cannot be read")]
    Inconsistent {
        /// The table.
        table: &'static str,
        /// The instance.
        instance_id: String,
        /// The id.
        id: String,
    },
}

impl DatabaseFailure {
    /// Whether Postgres would refuse the same statement again, because of its values.
    pub fn is_of_values(&self) -> bool {
        // Data exceptions, violated constraints, and limits of Postgres itself.
        let code = if let Self::Statement(error) = self { error.code() } else { None };
        code.is_some_and(|code| ["22", "23", "54"].contains(&&code.code()[..2]))
    }

    /// Whether others held the required locks for too long.
    pub fn is_of_locks(&self) -> bool {
        let code = if let Self::Statement(error) = self { error.code() } else { None };
        matches!(self, Self::Busy(_)) || code == Some(&SqlState::LOCK_NOT_AVAILABLE)
    }

    /// Describes the failure for people. It quotes no messages of Postgres, since they may contain values.
    pub fn without_values(&self) -> String {
        let refused = if let Self::Statement(error) = self { error.as_db_error() } else { None };
        let Some(refused) = refused else { return self.to_string() };
        let (code, constraint) = (refused.code().code(), refused.constraint());
        let constraint = constraint.map(|name| format!(", constraint {name}")).unwrap_or_default();
        format!("Postgres refuses the row (SQLSTATE {code}{constraint})")
    }
}
