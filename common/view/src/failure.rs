//! What can go wrong with Postgres.

use deadpool_postgres::PoolError;

/// Postgres did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseFailure {
    /// No connection could be had.
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
