//! Events that a projection could not process, and for which later events of their aggregates wait.
//!
//! An aggregate whose event fails is *parked* in the projection: its row stays as it was, and the events from the
//! failed one on wait in history, in order. All other aggregates go on.
//!
//! For a projection in Postgres, the table is part of its state, and written in the transaction that moves the
//! checkpoint. For a search index, whose files record what they lack, it is a copy for people to read.

mod baseline;
pub mod decided;
pub mod given_up;
pub mod retrying;
pub mod search;

use std::collections::{HashMap, HashSet};

use base::clock;
use deadpool_postgres::GenericClient;
use domain::{
    failed_event::{DELIVERIES, Filter},
    log_class::LogClass,
    resource::data_key::DataKey,
    standard::Resource,
};
use eventlog::record::{AggregateKey, Position, Recorded};
use jiff::Timestamp;
use tokio_postgres::{Row, types::ToSql};

pub use self::baseline::Baseline;
use self::retrying::Retrying;
use crate::{
    checkpoint::{signed, unsigned},
    database::DatabaseFailure,
    history::columns,
    keyring::SYSTEM,
    projection::{ACCESS, ENDED, Kind, OfHistories, Projection, SESSIONS, of_histories},
    table::Table,
};

/// How many bytes of an error are stored.
const LONGEST: usize = 2000;

/// A parked aggregate, and the event that its projection could not process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParkedAt {
    /// The aggregate.
    pub key: AggregateKey,
    /// The sequence of the event.
    pub sequence: u64,
    /// When the event was committed, where that is known.
    pub committed_at: Option<Timestamp>,
    /// Why it failed, as an operator reads it.
    pub error: String,
    /// When it failed for the last time, where that is known.
    pub last_failed: Option<Timestamp>,
}

/// The view in which an event failed.
#[derive(Clone, Copy)]
pub enum View {
    /// A projection.
    Projection(&'static Projection),
    /// The deliveries to targets.
    Deliveries,
}

impl View {
    /// The name of the view, without its version.
    pub fn name(self) -> &'static str {
        match self {
            Self::Projection(projection) => projection.view,
            Self::Deliveries => DELIVERIES,
        }
    }

    /// The name of the database that stores it.
    pub fn database(self) -> &'static str {
        match self {
            Self::Projection(projection) if matches!(projection.kind, Kind::Index(_)) => "tantivy",
            Self::Projection(_) => "postgres",
            Self::Deliveries => "nats",
        }
    }

    /// The log that it follows.
    pub fn class(self) -> LogClass {
        match self {
            Self::Projection(projection) => projection.class,
            Self::Deliveries => LogClass::Events,
        }
    }
}

/// The aggregates that one projection of one shard has parked.
#[derive(Clone, Copy)]
pub struct Parking {
    projection: &'static Projection,
    shard: u16,
}

impl Parking {
    /// Returns the parking of a projection; `None` for history, which interprets nothing that could fail.
    pub fn of(projection: &'static Projection, shard: u16) -> Option<Self> {
        let parks = !matches!(projection.kind, Kind::History);
        parks.then_some(Self { projection, shard })
    }

    /// Whether the rows of parked aggregates are removed from a table until they go on. Rows that admit somebody are:
    /// their aggregates count as ended. Rows of settings stay, since more might be permitted without them.
    pub fn withholds(self, table: &Table) -> bool {
        let lets_in = [&*ACCESS, &*SESSIONS].iter().any(|view| view.view == self.projection.view);
        lets_in && !table.inherits
    }

    /// Whether the projection stops at a failed event of an aggregate instead of parking it: without the system nobody
    /// could repair anything, and without data keys other aggregates could not go on.
    pub fn needs(self, key: &AggregateKey) -> bool {
        admits(self.projection.view) && (key.instance_id == SYSTEM || key.aggregate_type == DataKey::NAME)
    }

    /// Returns what is parked.
    pub async fn parked(self, client: &impl GenericClient) -> Result<Vec<ParkedAt>, DatabaseFailure> {
        let text = "select * from platform.failed_events \
                    where projection = $1 and version = $2 and shard = $3";
        let statement = client.prepare_cached(text).await?;
        let Projection { name, version, .. } = self.projection;
        let rows = client.query(&statement, &[name, version, &i32::from(self.shard)]).await?;
        Ok(rows.iter().map(parked_at).collect())
    }

    /// Looks up in history when the failed events of parked aggregates were committed, where history has them.
    pub async fn date(self, client: &impl GenericClient, all: &mut [ParkedAt]) -> Result<(), DatabaseFailure> {
        static SELECT: OfHistories = OfHistories::new(|| {
            of_histories(
                "select place, committed_at from unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) with ordinality \
                 as k (i, t, a, s, place) join {schema}.events on instance_id = i and aggregate_type = t and aggregate_id = a \
                 and sequence = s",
            )
        });
        let keys: Vec<AggregateKey> = all.iter().map(|parked| parked.key.clone()).collect();
        let (instances, types, ids) = columns(&keys);
        let sequences: Vec<i64> = all.iter().map(|parked| signed(parked.sequence)).collect();
        let statement = client.prepare_cached(&SELECT[self.projection.class]).await?;
        for row in client.query(&statement, &[&instances, &types, &ids, &sequences]).await? {
            let place = usize::try_from(row.get::<_, i64>("place") - 1).ok();
            if let Some(parked) = place.and_then(|place| all.get_mut(place)) {
                parked.committed_at = Some(row.get("committed_at"));
            }
        }
        Ok(())
    }

    /// Notes that aggregates are parked at their failed events, which come after a position, or that these failed once
    /// more. The count of failures begins anew when an aggregate fails at another event than before.
    pub async fn park(
        self,
        client: &impl GenericClient,
        from: Position,
        failed: &[ParkedAt],
    ) -> Result<(), DatabaseFailure> {
        let keys: Vec<AggregateKey> = failed.iter().map(|failed| failed.key.clone()).collect();
        self.settle(client, &keys).await?;
        // An earlier build of the projection may have failed at the same events.
        if !self.projection.is_beside() {
            let ids: Vec<u64> = failed.iter().map(|failed| self.id(failed.sequence)).collect();
            retrying::unmark(client, &ids).await?;
        }
        let text = "insert into platform.failed_events as f \
                    values ($1, $2, $3, $4, $5, $6, $7, $8, $10, $11, $12, 1, $9, coalesce($13, now()), coalesce($13, now())) \
                    on conflict (projection, version, shard, instance_id, aggregate_type, aggregate_id) do update set \
                    id = excluded.id, sequence = excluded.sequence, \
                    failure_count = case when f.sequence = excluded.sequence then f.failure_count else 0 end + 1, \
                    first_failed = case when f.sequence = excluded.sequence then f.first_failed \
                    else excluded.first_failed end, \
                    error = excluded.error, last_failed = excluded.last_failed";
        let statement = client.prepare_cached(text).await?;
        let Projection { name, version, .. } = self.projection;
        let (from_sequence, from_stream_sequence) = (signed(from.sequence), signed(from.stream_sequence));
        let digest = from.digest.as_slice();
        for ParkedAt { key, sequence, error, last_failed, .. } in failed {
            let (id, sequence) = (signed(self.id(*sequence)), signed(*sequence));
            let AggregateKey { instance_id, aggregate_type, id: aggregate_id } = key;
            let (shard, error) = (i32::from(self.shard), legible(error));
            let parameters: [&(dyn ToSql + Sync); 13] = [
                name,
                version,
                &shard,
                instance_id,
                aggregate_type,
                aggregate_id,
                &id,
                &sequence,
                &error,
                &from_sequence,
                &from_stream_sequence,
                &digest,
                last_failed,
            ];
            client.execute(&statement, &parameters).await?;
        }
        Ok(())
    }

    /// Makes the rows list exactly what a projection outside of Postgres has parked.
    pub async fn copy(self, transaction: &impl GenericClient, all: &[ParkedAt]) -> Result<(), DatabaseFailure> {
        let before: HashMap<_, _> =
            self.parked(transaction).await?.into_iter().map(|parked| (parked.key.clone(), parked)).collect();
        let now: HashSet<_> = all.iter().map(|parked| &parked.key).collect();
        let gone: Vec<_> = before.keys().filter(|key| !now.contains(key)).cloned().collect();
        self.release(transaction, &gone).await?;
        let is_known = |parked: &&ParkedAt| {
            let known = before.get(&parked.key).filter(|known| known.sequence == parked.sequence);
            // Postgres stores microseconds.
            let at = |parked: &ParkedAt| parked.last_failed.map(Timestamp::as_microsecond);
            known.is_some_and(|known| at(parked) <= at(known))
        };
        let new: Vec<_> = all.iter().filter(|parked| !is_known(parked)).cloned().collect();
        self.park(transaction, Position::default(), &new).await
    }

    /// Removes aggregates that are not parked any more: the projection has applied the events that waited.
    pub async fn release(self, client: &impl GenericClient, keys: &[AggregateKey]) -> Result<(), DatabaseFailure> {
        self.settle(client, keys).await?;
        self.on(client, keys, "delete from platform.failed_events as f using {keys}").await
    }

    /// Removes the marks of requested retries from parked aggregates.
    pub async fn settle(self, client: &impl GenericClient, keys: &[AggregateKey]) -> Result<(), DatabaseFailure> {
        // People are shown the generation that answers, and a generation beside it has the same ids.
        if self.projection.is_beside() {
            return Ok(());
        }
        self.on(
            client,
            keys,
            "delete from platform.retries as r using platform.failed_events as f, {keys} and r.id = f.id",
        )
        .await
    }

    /// Runs a statement on the rows of these parked aggregates, which it calls `f`.
    async fn on(
        self,
        client: &impl GenericClient,
        keys: &[AggregateKey],
        statement: &str,
    ) -> Result<(), DatabaseFailure> {
        if keys.is_empty() {
            return Ok(());
        }
        let of_keys = "unnest($4::text[], $5::text[], $6::text[]) as k (instance_id, aggregate_type, id) \
                       where f.projection = $1 and f.version = $2 and f.shard = $3 and f.instance_id = k.instance_id \
                       and f.aggregate_type = k.aggregate_type and f.aggregate_id = k.id";
        let statement = client.prepare_cached(&statement.replace("{keys}", of_keys)).await?;
        let Projection { name, version, .. } = self.projection;
        let column = |of: fn(&AggregateKey) -> &str| keys.iter().map(of).collect::<Vec<_>>();
        let (instances, types) = (column(|key| &key.instance_id), column(|key| &key.aggregate_type));
        let shard = i32::from(self.shard);
        client.execute(&statement, &[name, version, &shard, &instances, &types, &column(|key| &key.id)]).await?;
        Ok(())
    }

    /// Marks failed events whose retry was requested.
    pub async fn mark(self, client: &impl GenericClient, meant: &[(u64, Retrying)]) -> Result<(), DatabaseFailure> {
        if self.projection.is_beside() {
            return Ok(());
        }
        for of_one in meant.chunk_by(|(_, one), (_, other)| one == other) {
            let ids: Vec<u64> = of_one.iter().map(|(sequence, _)| self.id(*sequence)).collect();
            retrying::mark(client, &ids, &of_one[0].1).await?;
        }
        Ok(())
    }

    /// Whether a parked aggregate matches a filter.
    pub fn finds(self, filter: &Filter, parked: &ParkedAt) -> bool {
        let ParkedAt { key, sequence, error, last_failed, .. } = parked;
        let failed = last_failed.map(Timestamp::as_microsecond);
        match filter {
            Filter::Id(id) => *id == self.id(*sequence),
            Filter::View(name) => name == self.projection.view,
            Filter::InstanceId(id) => *id == key.instance_id,
            Filter::AggregateType(name) => *name == key.aggregate_type,
            Filter::AggregateId(id) => *id == key.id,
            Filter::TargetId(_) => false,
            Filter::Error(part) => legible(error).to_ascii_lowercase().contains(&part.to_ascii_lowercase()),
            Filter::FailedFrom(at) => failed.is_some_and(|failed| failed >= *at),
            Filter::FailedBefore(at) => failed.is_some_and(|failed| failed < *at),
        }
    }

    /// The id by which operators name a failed event: 63 bits of a hash, the same for every version and generation of
    /// the projection.
    pub fn id(self, sequence: u64) -> u64 {
        id(&format!("{}/{}/{sequence}", self.projection.view, self.shard))
    }
}

/// Whether requests are admitted by the rows of a view. Whatever such a view has parked counts as ended, and only
/// operators of the system can discard an event of it.
pub fn admits(view: &str) -> bool {
    [&*ACCESS, &*ENDED].iter().any(|admitting| admitting.view == view)
}

fn id(name: &str) -> u64 {
    let hash = base::secret::sha256(name.as_bytes());
    u64::from_be_bytes(std::array::from_fn(|place| hash[place])) & i64::MAX.unsigned_abs()
}

impl ParkedAt {
    /// Returns an aggregate as parked at an event that has just failed.
    pub fn now(recorded: &Recorded, error: String) -> Self {
        let (committed_at, last_failed) = (Some(recorded.committed_at), Some(clock::now()));
        Self { key: recorded.key(), sequence: recorded.sequence, committed_at, error, last_failed }
    }
}

/// Shortens an error, and replaces characters that Postgres cannot store.
fn legible(error: &str) -> String {
    let end = error.floor_char_boundary(LONGEST);
    error[..end].replace('\0', "\u{fffd}")
}

fn parked_at(row: &Row) -> ParkedAt {
    let (error, last_failed) = (row.get("error"), row.get("last_failed"));
    ParkedAt { key: key(row), sequence: unsigned(row.get("sequence")), committed_at: None, error, last_failed }
}

fn key(row: &Row) -> AggregateKey {
    let (instance_id, aggregate_type) = (row.get("instance_id"), row.get("aggregate_type"));
    AggregateKey { instance_id, aggregate_type, id: row.get("aggregate_id") }
}

#[cfg(test)]
mod tests {
    use domain::resource::session::Session;

    use super::*;
    use crate::projection::{HISTORY, SESSION_HISTORY, TARGETS, index_of};

    #[test]
    fn what_lets_somebody_in_is_withheld_and_history_never_parks() {
        let withheld = |projection: &'static Projection, aggregate_type| {
            Some(Parking::of(projection, 0)?.withholds(projection.table(aggregate_type)?))
        };
        let admitting = [("user", *ACCESS), ("instance", *ACCESS), (Session::NAME, *SESSIONS)];
        assert_eq!(admitting.map(|(kind, projection)| withheld(projection, kind)), [Some(true); 3]);
        let others = [("feature_settings", *ACCESS), ("user", *ENDED), ("target", *TARGETS)];
        assert_eq!(others.map(|(kind, projection)| withheld(projection, kind)), [Some(false); 3]);
        let parks = |projection| Parking::of(projection, 0).is_some();
        assert_eq!([*HISTORY, *SESSION_HISTORY, index_of::<Session>()].map(parks), [false, false, true]);
    }

    #[test]
    fn nobody_goes_on_without_data_keys_and_the_system() {
        let needs = |projection, (instance, kind): (&str, &str)| {
            let (instance_id, aggregate_type) = (instance.to_owned(), kind.to_owned());
            let key = AggregateKey { instance_id, aggregate_type, id: "2".to_owned() };
            Parking::of(projection, 0).map(|parking| parking.needs(&key))
        };
        let needed = [("1", "user"), ("1", "data_key"), (SYSTEM, "failed_event")];
        assert_eq!(needed.map(|key| needs(*ACCESS, key)), [Some(false), Some(true), Some(true)]);
        assert_eq!(needed.map(|key| needs(*TARGETS, key)), [Some(false); 3]);
    }

    #[test]
    fn an_id_names_projection_shard_and_event() {
        let id = |shard, sequence| Parking::of(&TARGETS, shard).expect("it parks").id(sequence);
        assert_eq!(id(0, 7), id(0, 7));
        assert!(i64::try_from(id(0, 7)).is_ok());
        assert!(id(0, 7) != id(1, 7) && id(0, 7) != id(0, 8));
    }

    #[test]
    fn a_condition_is_about_the_error_as_it_is_kept_and_about_microseconds() {
        let key = AggregateKey { instance_id: "1".into(), aggregate_type: "target".into(), id: "2".into() };
        let last_failed = Timestamp::from_nanosecond(1_000_000_999).ok();
        let parked = ParkedAt { key, sequence: 7, committed_at: None, error: "Panicked É".into(), last_failed };
        let parking = Parking::of(&TARGETS, 0).expect("it parks");
        for (filter, is_met) in [
            (Filter::Error("pANICk".into()), true),
            (Filter::Error("é".into()), false),
            (Filter::FailedFrom(1_000_000), true),
            (Filter::FailedFrom(1_000_001), false),
            (Filter::FailedBefore(1_000_000), false),
            (Filter::FailedBefore(1_000_001), true),
            (Filter::TargetId("2".into()), false),
        ] {
            assert_eq!(parking.finds(&filter, &parked), is_met, "{filter:?}");
        }
    }

    #[test]
    fn an_error_is_cut_between_characters() {
        let long = "é".repeat(LONGEST);
        assert_eq!(legible(&long), "é".repeat(LONGEST / 2));
        assert_eq!(legible("a\0b"), "a\u{fffd}b");
    }
}
