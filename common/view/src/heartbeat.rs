//! When the read model of what has ended was last known to have everything in its log. By this, a node that does not
//! hear from NATS knows how old the rows in Postgres may be.

use std::time::Duration;

use base::clock::since_start;
use deadpool_postgres::GenericClient;
use domain::log_class::LogClass;
use eventlog::record::Position;

use crate::{
    checkpoint::signed,
    failure::DatabaseFailure,
    projection::{ENDED, Projection, SESSION_HISTORY},
    read_model::ReadModel,
};

/// How many seconds the clock of Postgres may have gone back before a heartbeat from the future is ignored.
const JITTER: f64 = 1.0;

/// The read model of what has ended according to a log.
fn of(class: LogClass) -> &'static Projection {
    match class {
        LogClass::Events => *ENDED,
        LogClass::Sessions => *SESSION_HISTORY,
    }
}

/// The table of the heartbeats of a log.
const fn table(class: LogClass) -> &'static str {
    match class {
        LogClass::Events => "platform.heartbeats",
        LogClass::Sessions => "platform.session_heartbeats",
    }
}

/// Notes that the read model had everything at a time, by [`since_start`], if it has the message that was the last one
/// of the log then.
///
/// # Errors
/// When Postgres does not answer.
pub async fn beat(
    client: &impl GenericClient,
    class: LogClass,
    shard: u16,
    end: u64,
    asked: Duration,
) -> Result<(), DatabaseFailure> {
    let checkpoint = ReadModel::new(of(class), shard).checkpoint(client).await?;
    if checkpoint.is_none_or(|checkpoint| checkpoint.position.stream_sequence < end) {
        return Ok(());
    }
    let statement = format!(
        "insert into {} as h values ($1, $2, clock_timestamp() - make_interval(secs => $3)) on conflict (shard) do update \
         set stream_sequence = excluded.stream_sequence, heard_at = excluded.heard_at \
         where h.heard_at < excluded.heard_at or h.heard_at > clock_timestamp()",
        table(class)
    );
    let statement = client.prepare_cached(&statement).await?;
    let ago = since_start().saturating_sub(asked).as_secs_f64();
    client.execute(&statement, &[&i32::from(shard), &signed(end), &ago]).await?;
    Ok(())
}

/// Returns how long ago rows at a position were known to be complete; `None` where no heartbeat is about them.
pub(crate) async fn age(
    client: &impl GenericClient,
    class: LogClass,
    shard: u16,
    at: Position,
) -> Result<Option<Duration>, DatabaseFailure> {
    let statement = format!(
        "select extract(epoch from clock_timestamp() - heard_at)::double precision from {} \
         where shard = $1 and stream_sequence <= $2",
        table(class)
    );
    let statement = client.prepare_cached(&statement).await?;
    let row = client.query_opt(&statement, &[&i32::from(shard), &signed(at.stream_sequence)]).await?;
    let seconds = row.map(|row| row.get::<_, f64>(0)).filter(|seconds| *seconds > -JITTER);
    Ok(seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds.max(0.0)).ok()))
}
