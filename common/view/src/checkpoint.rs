//! Checkpoints of projections: the last record whose rows were committed, and the worker that may commit next.

use std::collections::HashSet;

use base::explain::explain;
use deadpool_postgres::{Client, GenericClient, Transaction};
use domain::log_class::LogClass;
use eventlog::record::Position;
use jiff::Timestamp;
use tokio_postgres::{Row, types::ToSql};

use crate::{
    failure::DatabaseFailure,
    projection::{PROJECTIONS, Projection, with_beside},
};

/// The progress of one projection of one shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpoint {
    /// The epoch of the worker that may move the checkpoint; workers of lower epochs change nothing.
    pub epoch: i64,
    /// The position of the last record that was applied.
    pub position: Position,
    /// When that record was committed.
    pub committed_at: Timestamp,
}

/// Reads one checkpoint.
const ONE: &str = "select epoch, sequence, stream_sequence, digest, committed_at from platform.checkpoints \
                   where projection = $1 and version = $2 and shard = $3";

/// Moves checkpoints that are where they are expected, and that nobody holds.
const ALL: &str = "with asked as materialized (select * from unnest($2::text[], $3::int[], $4::bigint[], $5::bigint[], \
                   $6::bigint[], $7::bigint[], $8::bytea[], $9::timestamptz[]) as a \
                   (projection, version, epoch, from_stream_sequence, sequence, stream_sequence, digest, committed_at)), \
                   free as materialized (select a.* from platform.checkpoints c join asked a using (projection, version) \
                   where c.shard = $1 and c.epoch = a.epoch and c.stream_sequence = a.from_stream_sequence \
                   for update of c skip locked) \
                   update platform.checkpoints c set sequence = f.sequence, stream_sequence = f.stream_sequence, \
                   digest = f.digest, committed_at = f.committed_at from free f \
                   where c.projection = f.projection and c.version = f.version and c.shard = $1 returning c.projection";
/// Counts the checkpoints that are where they are expected.
const ARE: &str = "select count(*) from platform.checkpoints c \
                   join unnest($2::text[], $3::int[], $4::bigint[], $5::bigint[]) as a \
                   (projection, version, epoch, stream_sequence) using (projection, version, epoch, stream_sequence) \
                   where c.shard = $1";

/// The advisory lock on the generations of a projection: exclusive to change them, shared to compare them.
pub(crate) const CHANGING: i32 = 7_105_772;

/// The failure of a worker whose projection was taken over, or whose last commits Postgres has lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fenced;

/// A checkpoint where its worker expects it.
#[derive(Clone, Copy)]
pub struct Expected {
    /// The projection.
    pub projection: &'static Projection,
    /// Where the checkpoint is.
    pub checkpoint: Checkpoint,
}

/// A move of a checkpoint that changes no rows.
#[derive(Clone, Copy)]
pub struct Move {
    /// The checkpoint before.
    pub from: Expected,
    /// Where it will be, with the same epoch.
    pub to: Checkpoint,
}

/// Moves checkpoints of different projections in one statement, and returns which ones have moved. One that another
/// worker has changed, or that somebody holds at the moment, stays: nobody waits for the others' sake.
///
/// # Errors
/// When Postgres fails; none has moved then, unless the connection broke.
pub async fn move_all(client: &impl GenericClient, shard: u16, moves: &[Move]) -> Result<Vec<bool>, DatabaseFailure> {
    let from: Vec<Expected> = moves.iter().map(|it| it.from).collect();
    let Keys { names, versions, epochs, stream_sequences } = Keys::of(&from);
    let to: Vec<Checkpoint> = moves.iter().map(|it| it.to).collect();
    let digests: Vec<&[u8]> = to.iter().map(|to| to.position.digest.as_slice()).collect();
    let times: Vec<Timestamp> = to.iter().map(|to| to.committed_at).collect();
    let sequences: Vec<i64> = to.iter().map(|to| signed(to.position.sequence)).collect();
    let until: Vec<i64> = to.iter().map(|to| signed(to.position.stream_sequence)).collect();
    let (statement, shard) = (client.prepare_cached(ALL).await?, i32::from(shard));
    let parameters: [&(dyn ToSql + Sync); 9] =
        [&shard, &names, &versions, &epochs, &stream_sequences, &sequences, &until, &digests, &times];
    let rows = client.query(&statement, &parameters).await?;
    let of_moved: HashSet<&str> = rows.iter().map(|row| row.get(0)).collect();
    Ok(names.iter().map(|name| of_moved.contains(name)).collect())
}

/// Whether the checkpoints of different projections are all where they are expected.
pub(crate) async fn are_all(
    client: &impl GenericClient,
    shard: u16,
    expected: &[Expected],
) -> Result<bool, DatabaseFailure> {
    let Keys { names, versions, epochs, stream_sequences } = Keys::of(expected);
    let (statement, shard) = (client.prepare_cached(ARE).await?, i32::from(shard));
    let found = client.query_one(&statement, &[&shard, &names, &versions, &epochs, &stream_sequences]).await?;
    Ok(usize::try_from(found.get::<_, i64>(0)) == Ok(expected.len()))
}

/// The columns by which checkpoints are found where they are expected.
struct Keys {
    names: Vec<&'static str>,
    versions: Vec<i32>,
    epochs: Vec<i64>,
    stream_sequences: Vec<i64>,
}

impl Keys {
    fn of(expected: &[Expected]) -> Self {
        let each = || expected.iter();
        Self {
            names: each().map(|it| it.projection.name).collect(),
            versions: each().map(|it| it.projection.version).collect(),
            epochs: each().map(|it| it.checkpoint.epoch).collect(),
            stream_sequences: each().map(|it| signed(it.checkpoint.position.stream_sequence)).collect(),
        }
    }
}

/// Returns the checkpoint of each projection that is stored in Postgres, in one statement; `None` before it first ran.
pub async fn checkpoints(
    client: &impl GenericClient,
    shard: u16,
) -> Result<Vec<(&'static Projection, Option<Checkpoint>)>, DatabaseFailure> {
    let statement = "select projection, version, epoch, sequence, stream_sequence, digest, committed_at \
                     from platform.checkpoints where shard = $1";
    let statement = client.prepare_cached(statement).await?;
    let rows = client.query(&statement, &[&i32::from(shard)]).await?;
    let of = |projection: &Projection| {
        let is_it = |row: &&Row| {
            row.get::<_, &str>("projection") == projection.name && row.get::<_, i32>("version") == projection.version
        };
        rows.iter().find(is_it).map(Checkpoint::of)
    };
    let kept = PROJECTIONS.iter().filter(|projection| projection.schema().is_some());
    Ok(kept.map(|projection| (projection, of(projection))).collect())
}

/// Returns the projection of a log that lags most, and its stream sequence: 0 if it never ran. Generations that are
/// built beside the ones that answer count, too, once they have a checkpoint.
pub async fn least(
    client: &impl GenericClient,
    class: LogClass,
    shard: u16,
) -> Result<Option<(&'static Projection, u64)>, DatabaseFailure> {
    let statement = "select projection, version, stream_sequence from platform.checkpoints where shard = $1";
    let statement = client.prepare_cached(statement).await?;
    let rows = client.query(&statement, &[&i32::from(shard)]).await?;
    let at = |projection: &Projection| {
        let is_it = |row: &&Row| row.get::<_, &str>(0) == projection.name && row.get::<_, i32>(1) == projection.version;
        rows.iter().find(is_it).map(|row| unsigned(row.get(2)))
    };
    let kept = with_beside().filter(|projection| projection.class == class && projection.schema().is_some());
    let found = kept.filter_map(|projection| match at(projection) {
        None if projection.is_beside() => None,
        at => Some((projection, at.unwrap_or_default())),
    });
    Ok(found.min_by_key(|(_, at)| *at))
}

impl Checkpoint {
    /// Takes the projection over: earlier workers can change nothing from then on. A worker that begins at the
    /// beginning of the log begins with empty tables, whatever was left in them.
    pub(crate) async fn take_over(
        client: &mut Client,
        projection: &Projection,
        shard: u16,
    ) -> Result<Self, DatabaseFailure> {
        if let Err(error) = end_move(client, projection, shard).await {
            let error = explain(&error);
            tracing::warn!(
                projection = projection.name,
                error,
                "the transaction before cannot be ended; it is waited for"
            );
        }
        let transaction = client.transaction().await?;
        let row = transaction
            .query_one(
                "insert into platform.checkpoints as c values ($1, $2, $3, 1, 0, 0, $4, 'epoch') \
                 on conflict (projection, version, shard) do update set epoch = c.epoch + 1 \
                 returning epoch, sequence, stream_sequence, digest, committed_at",
                &[&projection.name, &projection.version, &i32::from(shard), &[0_u8; 32].as_slice()],
            )
            .await?;
        let checkpoint = Self::of(&row);
        // Shards share the tables.
        let text =
            "select coalesce(max(stream_sequence), 0) from platform.checkpoints where projection = $1 and version = $2";
        let furthest: i64 = transaction.query_one(text, &[&projection.name, &projection.version]).await?.get(0);
        if furthest == 0 {
            transaction.batch_execute(&format!("truncate {}", projection.tables().join(", "))).await?;
            let forget = "delete from platform.failed_events where projection = $1 and version = $2";
            transaction.execute(forget, &[&projection.name, &projection.version]).await?;
        }
        transaction.commit().await?;
        Ok(checkpoint)
    }

    /// Sets the checkpoints of all shards to the beginning of the log. Workers notice, and change nothing before.
    pub(crate) async fn reset(client: &impl GenericClient, projection: &Projection) -> Result<(), DatabaseFailure> {
        let text = "update platform.checkpoints set epoch = epoch + 1, sequence = 0, stream_sequence = 0, digest = $3, \
                    committed_at = 'epoch' where projection = $1 and version = $2";
        client.execute(text, &[&projection.name, &projection.version, &[0_u8; 32].as_slice()]).await?;
        Ok(())
    }

    /// Moves the checkpoint to another one of the same epoch, unless another worker has changed it. In a transaction
    /// this comes before the rows, so that a worker that takes over can find the transaction by its lock on the
    /// checkpoint.
    pub(crate) async fn advance(
        self,
        client: &impl GenericClient,
        projection: &Projection,
        shard: u16,
        to: Self,
    ) -> Result<Result<Self, Fenced>, DatabaseFailure> {
        let statement = "update platform.checkpoints \
                         set sequence = $6, stream_sequence = $7, digest = $8, committed_at = $9 \
                         where projection = $1 and version = $2 and shard = $3 and epoch = $4 and stream_sequence = $5";
        let statement = client.prepare_cached(statement).await?;
        let moved = client
            .execute(
                &statement,
                &[
                    &projection.name,
                    &projection.version,
                    &i32::from(shard),
                    &self.epoch,
                    &signed(self.position.stream_sequence),
                    &signed(to.position.sequence),
                    &signed(to.position.stream_sequence),
                    &to.position.digest.as_slice(),
                    &to.committed_at,
                ],
            )
            .await?;
        Ok(if moved == 1 { Ok(to) } else { Err(Fenced) })
    }

    /// The checkpoint as the snapshot of this client sees it; `None` before the projection first ran.
    pub(crate) async fn read(
        client: &impl GenericClient,
        projection: &Projection,
        shard: u16,
    ) -> Result<Option<Self>, DatabaseFailure> {
        Self::select(client, projection, shard, ONE).await
    }

    /// The checkpoint, which no worker moves until the transaction ends.
    pub(crate) async fn hold(
        transaction: &Transaction<'_>,
        projection: &Projection,
        shard: u16,
    ) -> Result<Option<Self>, DatabaseFailure> {
        Self::select(transaction, projection, shard, &format!("{ONE} for update")).await
    }

    async fn select(
        client: &impl GenericClient,
        projection: &Projection,
        shard: u16,
        text: &str,
    ) -> Result<Option<Self>, DatabaseFailure> {
        let statement = client.prepare_cached(text).await?;
        let row = client.query_opt(&statement, &[&projection.name, &projection.version, &i32::from(shard)]).await?;
        Ok(row.as_ref().map(Self::of))
    }

    fn of(row: &Row) -> Self {
        Self { epoch: row.get("epoch"), position: position(row), committed_at: row.get("committed_at") }
    }
}

/// A position as Postgres stored it.
pub(crate) fn position(row: &Row) -> Position {
    let digest: &[u8] = row.get("digest");
    Position {
        sequence: unsigned(row.get("sequence")),
        stream_sequence: unsigned(row.get("stream_sequence")),
        digest: digest.try_into().unwrap_or_default(),
    }
}

/// Terminates the session of Postgres whose transaction is moving the checkpoint, or holds it for a repair. Its worker hangs or is cut off, or
/// else it would hold the lease, and everybody would wait for its locks. No timeout of Postgres ends a session that
/// waits for the rest of a `copy`. A session that has just gone on to other work loses that work and does it again.
async fn end_move(client: &Client, projection: &Projection, shard: u16) -> Result<(), DatabaseFailure> {
    // A session that changes generations is spared: it ends by itself.
    let text = "select pg_terminate_backend(l.pid) from platform.checkpoints c \
                join pg_locks l on l.locktype = 'transactionid' and l.mode = 'ExclusiveLock' and l.transactionid = c.xmax \
                where projection = $1 and version = $2 and shard = $3 and not exists (select from pg_locks a \
                where a.pid = l.pid and a.locktype = 'advisory' and a.classid = $4::int::oid and a.objsubid = 2)";
    client.execute(text, &[&projection.name, &projection.version, &i32::from(shard), &CHANGING]).await?;
    Ok(())
}

/// A sequence as Postgres stores it.
pub(crate) fn signed(sequence: u64) -> i64 {
    i64::try_from(sequence).expect("a log does not reach 2^63 events")
}

/// A sequence as Postgres stored it.
pub(crate) fn unsigned(sequence: i64) -> u64 {
    u64::try_from(sequence).unwrap_or_default()
}
