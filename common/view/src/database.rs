//! Connections to Postgres, in pools by what they are for.

mod connection;

use std::{str::FromStr, time::Duration};

pub use self::connection::Connection;
use self::connection::read_within;
pub use crate::failure::DatabaseFailure;
use base::metric::{
    Counter,
    catalog::{POOL_CANCELLED, POOL_IN_USE, POOL_SIZE, POOL_WAITS},
};
use deadpool_postgres::{
    GenericClient, Manager, ManagerConfig, Pool, PoolError, QueueMode, RecyclingMethod, Runtime, TimeoutType, Timeouts,
};
use jiff::Timestamp;
use tokio_postgres::{Config, IsolationLevel, NoTls};

/// How long a read may take, all its statements together.
const READ_TIME: Duration = Duration::from_secs(5);
/// How long a connection may be silent before it counts as broken: a server that loses its power closes no connections.
const SILENT: Duration = Duration::from_secs(5);
/// How long a caller waits for a connection.
const WAIT: Duration = Duration::from_secs(2);
/// How long a connection stays without being used.
const IDLE: Duration = Duration::from_mins(5);
/// How long a worker may do nothing inside a transaction, about as long as its lease lasts.
const IDLE_IN_TRANSACTION: Duration = Duration::from_secs(5);

/// A bounded pool of connections that keep their prepared statements.
#[derive(Clone)]
pub struct Database {
    pool: Pool,
    name: &'static str,
    waits: &'static Counter,
    cancelled: &'static Counter,
}

/// How many searches in events and failed events a node runs at a time. Further connections are left for those who act on
/// what they found.
pub const AUDITS: usize = 3;

/// The pools of a node. What one of them is for never waits for the others: a slow search in the events of a tenant
/// takes no connection from decisions, logins or keys.
#[derive(Debug, Clone)]
pub struct Pools {
    /// Rows that somebody requests by id.
    pub reads: Database,
    /// What commands are decided with.
    pub history: Database,
    /// Who calls and what applies to them: tenants, users, sessions, roles, settings, and what has ended.
    pub admission: Database,
    /// Data keys.
    pub keys: Database,
    /// Searches in events and failed events, and the generations of views: slow, and requested by few.
    pub audit: Database,
    /// What reactions and the keys of people need to know.
    pub reactions: Database,
    /// Whether Postgres answers, and what is measured there.
    pub measure: Database,
}

impl Pools {
    /// Pools of 35 connections in all to the server at `url`. Nothing connects yet.
    ///
    /// # Errors
    /// Where the address is malformed.
    pub fn new(url: &str) -> Result<Self, DatabaseFailure> {
        let pool = |name, size| Database::named(url, name, size);
        Ok(Self {
            reads: pool("reads", 8)?,
            history: pool("history", 8)?,
            admission: pool("admission", 6)?,
            keys: pool("keys", 2)?,
            audit: pool("audit", AUDITS + 3)?,
            reactions: pool("reactions", 4)?,
            measure: pool("measure", 1)?,
        })
    }

    /// Returns all of them.
    pub fn all(&self) -> [&Database; 7] {
        let Self { reads, history, admission, keys, audit, reactions, measure } = self;
        [reads, history, admission, keys, audit, reactions, measure]
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Database").field("status", &self.pool.status()).finish_non_exhaustive()
    }
}

impl Database {
    /// A pool of at most `size` connections to the server at `url`, for tools. Nothing connects yet.
    pub fn new(url: &str, size: usize) -> Result<Self, DatabaseFailure> {
        Self::named(url, "reads", size)
    }

    fn named(url: &str, name: &'static str, size: usize) -> Result<Self, DatabaseFailure> {
        // A node that was cut off cannot cancel its statements.
        Self::build(config(url)?, &format!("-c statement_timeout={}", READ_TIME.as_millis()), size, name)
    }

    /// A pool whose commits do not wait for the disk: for read models only, which are rebuilt from the log.
    ///
    /// A worker that hangs inside a transaction holds locks that others wait for. Postgres ends such a session, except
    /// in the middle of a `copy`; see [`ReadModel::take_over`](crate::read_model::ReadModel::take_over).
    pub fn for_read_models(url: &str, name: &'static str, size: usize) -> Result<Self, DatabaseFailure> {
        let idle = IDLE_IN_TRANSACTION.as_millis();
        let options = format!("-c synchronous_commit=off -c idle_in_transaction_session_timeout={idle}");
        Self::build(config(url)?, &options, size, name)
    }

    fn build(mut config: Config, options: &str, size: usize, name: &'static str) -> Result<Self, DatabaseFailure> {
        // Options in the address take precedence.
        config.options(format!("{options} {}", config.get_options().unwrap_or_default()));
        config.application_name("platform");
        config.connect_timeout(WAIT).tcp_user_timeout(SILENT).keepalives_idle(SILENT).keepalives_interval(WAIT);
        let manager = Manager::from_config(config, NoTls, ManagerConfig { recycling_method: RecyclingMethod::Fast });
        let pool = Pool::builder(manager)
            .max_size(size)
            .queue_mode(QueueMode::Lifo)
            .timeouts(Timeouts { wait: Some(WAIT), create: Some(WAIT), recycle: Some(WAIT) })
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|error| DatabaseFailure::Address(error.to_string()))?;
        Ok(Self { pool, name, waits: POOL_WAITS.with(&[name]), cancelled: POOL_CANCELLED.with(&[name]) })
    }

    /// Sets the metrics of the pool, and closes connections that nobody has used for a while.
    pub fn measure(&self) {
        self.pool.retain(|_, used| used.last_used() < IDLE);
        let status = self.pool.status();
        let in_use = status.size.saturating_sub(status.available);
        POOL_SIZE.with(&[self.name]).set_integer(status.max_size as u64);
        POOL_IN_USE.with(&[self.name]).set_integer(in_use as u64);
    }

    /// Whether Postgres answers.
    pub async fn answers(&self) -> Result<(), DatabaseFailure> {
        self.within(async { Ok(self.connection().await?.batch_execute("").await?) }).await
    }

    /// The time by the clock of Postgres; `None` where it does not answer.
    pub async fn time(&self) -> Option<Timestamp> {
        let micros = "select (extract(epoch from clock_timestamp()) * 1000000)::bigint";
        let asked = self.within(async { Ok(self.connection().await?.query_one(micros, &[]).await?) });
        Timestamp::from_microsecond(asked.await.ok()?.get(0)).ok()
    }

    /// A connection from the pool.
    pub async fn connection(&self) -> Result<Connection, DatabaseFailure> {
        let at_once = Timeouts { wait: Some(Duration::ZERO), ..self.pool.timeouts() };
        let client = match self.pool.timeout_get(&at_once).await {
            Err(PoolError::Timeout(TimeoutType::Wait)) => {
                self.waits.count();
                self.pool.get().await?
            }
            client => client?,
        };
        Ok(Connection::new(client))
    }

    /// Runs a read within a time limit: a server that hangs must not hang its callers. Where the limit is over or the
    /// caller has gone, Postgres cancels what it still executes for the read, before the connection serves others.
    pub async fn within<T>(
        &self,
        read: impl Future<Output = Result<T, DatabaseFailure>>,
    ) -> Result<T, DatabaseFailure> {
        read_within(READ_TIME, self.cancelled, read).await
    }
}

fn config(url: &str) -> Result<Config, DatabaseFailure> {
    Config::from_str(url).map_err(|error| DatabaseFailure::Address(error.to_string()))
}

/// Begins a transaction whose reads see the data of one moment, and one generation of each projection: see
/// [`crate::generation::exchange`].
pub async fn snapshot(
    connection: &mut deadpool_postgres::Client,
) -> Result<deadpool_postgres::Transaction<'_>, DatabaseFailure> {
    let transaction = begin(connection).await?;
    transaction.batch_execute(OF_ONE_GENERATION).await?;
    Ok(transaction)
}

/// Begins the transaction of a [`snapshot`] without the lock on the generations, which [`limited`] takes.
pub(crate) async fn begin(
    connection: &mut deadpool_postgres::Client,
) -> Result<deadpool_postgres::Transaction<'_>, DatabaseFailure> {
    let transaction = connection.build_transaction().isolation_level(IsolationLevel::RepeatableRead).read_only(true);
    Ok(transaction.start().await?)
}

/// Waits for an exchange of generations that is under way, and holds back later ones. It precedes all reads: Postgres
/// takes the snapshot at the first statement that reads, but looks tables up by name in each statement.
const OF_ONE_GENERATION: &str = "lock table platform.checkpoints in access share mode";

/// Completes [`begin`] with the lock on the generations, and has to precede all reads. Where a limit is given, Postgres
/// ends each statement that takes longer.
pub(crate) async fn limited(
    transaction: &deadpool_postgres::Transaction<'_>,
    limit: Option<Duration>,
) -> Result<(), DatabaseFailure> {
    let limit = limit.map(|limit| format!("; set local statement_timeout = {}", limit.as_millis())).unwrap_or_default();
    Ok(transaction.batch_execute(&format!("{OF_ONE_GENERATION}{limit}")).await?)
}
