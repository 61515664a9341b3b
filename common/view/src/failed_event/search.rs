//! Failed events, as operators search them.

use deadpool_postgres::{GenericClient, Transaction};
use domain::{failed_event::Filter, log_class::LogClass};
use jiff::Timestamp;
use tokio_postgres::Row;

use super::{
    ParkedAt,
    decided::{Pending, pending},
    finds, parked_at,
    relation::{Parameters, condition, left_out, meant, waiting},
};
use crate::{
    checkpoint::{Checkpoint, checkpoints, unsigned},
    database::{Database, DatabaseFailure, snapshot},
    projection::{Kind, PROJECTIONS, Projection},
    rows::{Fresh, Room},
};

/// A failed event as it is kept.
#[derive(Debug, Clone)]
pub struct FailedEvent {
    /// The id by which operators name it.
    pub id: u64,
    /// The name of the view.
    pub view: String,
    /// At which event which aggregate is parked, and why.
    pub parked: ParkedAt,
    /// How often.
    pub failure_count: u64,
    /// The target that it was not delivered to, where that is what failed.
    pub target_id: String,
    /// What became of it.
    pub state: State,
}

/// What became of a failed event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// It waits.
    Failed,
    /// Somebody asked for another try, and its view has not met that yet.
    Retrying(Decided),
    /// It is left out, for a reason.
    Discarded(Decided, String),
}

/// What somebody has decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    /// Who.
    pub by: String,
    /// When.
    pub at: Timestamp,
}

/// Which are asked for by what became of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Among {
    /// All that wait, also those for which another try was asked.
    #[default]
    Waiting,
    /// Those for which none was.
    Failed,
    /// Those for which one was.
    Retrying,
    /// Those that are left out.
    Discarded,
}

/// A part of a list of failed events.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// All of them hold.
    pub filters: Vec<Filter>,
    /// What became of them.
    pub among: Among,
    /// Whether those come first that failed longest ago.
    pub ascending: bool,
    /// How many come before.
    pub offset: u64,
    /// How many there are at most.
    pub limit: u32,
}

/// How far search indexes are, which are not in Postgres: the sequence of the last event that each has, and when that was committed.
pub type Indexed = Vec<(&'static Projection, u64, Timestamp)>;

/// How far each projection is.
pub(super) struct Reached(Vec<(&'static Projection, u64, Timestamp)>);

impl Reached {
    pub(super) async fn read(
        transaction: &Transaction<'_>,
        shard: u16,
        indexed: &Indexed,
    ) -> Result<Self, DatabaseFailure> {
        let found = checkpoints(transaction, shard).await?.into_iter().map(|(projection, checkpoint)| {
            let (sequence, at) = reached(checkpoint);
            (projection, sequence, at)
        });
        Ok(Self(found.chain(indexed.iter().copied()).collect()))
    }

    /// The place of a projection; `None` where that is not known.
    pub(super) fn of(&self, projection: &Projection) -> Option<(u64, Timestamp)> {
        let found = self.0.iter().find(|(known, ..)| known.name == projection.name);
        found.map(|(_, sequence, at)| (*sequence, *at))
    }

    /// The place of the one in Postgres that is furthest behind.
    pub(super) fn furthest_behind(&self) -> (u64, Timestamp) {
        let is_row = |kind: &Kind| !matches!(kind, Kind::Index(_));
        let rows = self.of_events().filter(|(projection, ..)| is_row(&projection.kind));
        rows.map(|(_, sequence, at)| (*sequence, *at)).min().unwrap_or_default()
    }

    /// The views that have not met an event.
    fn before(&self, sequence: u64) -> Vec<&'static str> {
        let behind = self.of_events().filter(|(_, reached, _)| *reached < sequence);
        behind.map(|(projection, ..)| projection.name).collect()
    }

    /// Those that follow the log in which operators decide.
    fn of_events(&self) -> impl Iterator<Item = &(&'static Projection, u64, Timestamp)> {
        self.0.iter().filter(|(projection, ..)| projection.class == LogClass::Events)
    }
}

fn reached(checkpoint: Option<Checkpoint>) -> (u64, Timestamp) {
    checkpoint.map_or_else(Default::default, |checkpoint| (checkpoint.position.sequence, checkpoint.committed_at))
}

/// The failed events that are asked for, and how many there are in all. It is as fresh as the projection in Postgres that is furthest
/// behind: of what came before, those that they could not process are told of here.
///
/// # Errors
/// When Postgres does not answer.
pub async fn search(
    database: &Database,
    (shard, indexed): (u16, &Indexed),
    page: &Page,
) -> Result<Fresh<(Vec<FailedEvent>, u64)>, DatabaseFailure> {
    let read = async {
        let mut connection = database.connection().await?;
        let transaction = snapshot(&mut connection).await?;
        let reached = Reached::read(&transaction, shard, indexed).await?;
        let (processed, timestamp) = reached.furthest_behind();
        let pending = Pendings { all: pending(&transaction, processed).await?, reached };
        let answer = read(&transaction, page, &pending).await?;
        transaction.commit().await?;
        Ok(Fresh { processed, timestamp, parked_at: None, answer })
    };
    database.within(read).await
}

/// What was asked for and not met by all views yet.
struct Pendings {
    all: Vec<Pending>,
    reached: Reached,
}

impl Pendings {
    /// The condition that one of them means a failed event.
    fn condition(&self, parameters: &mut Parameters) -> String {
        let one = |pending: &Pending| meant(&pending.retried, self.reached.before(pending.sequence), parameters);
        let all: Vec<_> = self.all.iter().map(one).collect();
        if all.is_empty() { "false".to_owned() } else { format!("({})", all.join(" or ")) }
    }

    /// The last one that means a failed event.
    fn state(&self, (id, view): (u64, &str), parked: &ParkedAt) -> State {
        let means = |Pending { sequence, retried, .. }: &&Pending| {
            parked.sequence <= retried.until
                && self.reached.before(*sequence).contains(&view)
                && retried.filters.iter().all(|filter| finds(filter, (id, view), parked))
        };
        let found = self.all.iter().find(means);
        found.map_or(State::Failed, |Pending { by, at, .. }| State::Retrying(Decided { by: by.clone(), at: *at }))
    }
}

async fn read(
    client: &impl GenericClient,
    page: &Page,
    pending: &Pendings,
) -> Result<(Vec<FailedEvent>, u64), DatabaseFailure> {
    let mut parameters = Parameters::default();
    let is_left_out = page.among == Among::Discarded;
    let relation = if is_left_out { left_out().to_owned() } else { waiting(&mut parameters) };
    let mut conditions: Vec<_> = page.filters.iter().map(|filter| condition(filter, &mut parameters)).collect();
    match page.among {
        Among::Waiting | Among::Discarded => {}
        Among::Failed => conditions.push(format!("not {}", pending.condition(&mut parameters))),
        Among::Retrying => conditions.push(pending.condition(&mut parameters)),
    }
    let found = if conditions.is_empty() { "true".to_owned() } else { conditions.join(" and ") };
    let direction = if page.ascending { "asc" } else { "desc" };
    let (limit, offset) = (page.limit, page.offset.min(i64::MAX.unsigned_abs()));
    let order = format!("order by f.last_failed {direction}, f.id {direction} limit {limit} offset {offset}");
    let borrowed = parameters.borrowed();
    let rows = client.query(&format!("select f.* from {relation} where {found} {order}"), &borrowed).await?;
    let mut room = Room::default();
    let events = rows.iter().map(|row| failed_event(row, is_left_out, pending));
    let events = events.take_while(|event| room.takes(event.parked.error.len() + 1000)).collect();
    let total = client.query_one(&format!("select count(*) from {relation} where {found}"), &borrowed).await?;
    Ok((events, unsigned(total.get(0))))
}

fn failed_event(row: &Row, is_left_out: bool, pending: &Pendings) -> FailedEvent {
    let (id, view) = (unsigned(row.get("id")), row.get::<_, String>("projection"));
    let parked = parked_at(row);
    let state = if is_left_out {
        State::Discarded(Decided { by: row.get("actor"), at: row.get("committed_at") }, row.get("reason"))
    } else {
        pending.state((id, &view), &parked)
    };
    let (failure_count, target_id) = (unsigned(row.get("failure_count")), row.get("target_id"));
    FailedEvent { id, view, parked, failure_count, target_id, state }
}

/// The projection of a name.
pub fn projection(name: &str) -> Option<&'static Projection> {
    PROJECTIONS.iter().find(|projection| projection.name == name)
}
