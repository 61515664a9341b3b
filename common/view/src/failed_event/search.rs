//! Searches of failed events, and the progress of projections, for operators.

use deadpool_postgres::GenericClient;
use domain::{
    context::OwnerType,
    failed_event::{DELIVERIES, Filter, State},
    log_class::LogClass,
    resource::instance::Instance,
    standard::Resource,
};
use eventlog::record::owner_type;
use jiff::Timestamp;
use tokio_postgres::{Row, types::ToSql};

use super::{ParkedAt, View, decided, parked_at};
use crate::{
    checkpoint::{Checkpoint, checkpoints, unsigned},
    database::{Database, DatabaseFailure, snapshot},
    keyring::SYSTEM,
    projection::{HISTORY, PROJECTIONS, Projection, SESSION_HISTORY},
    rows::{Fresh, PageBudget},
};

/// A failed event as it is stored.
#[derive(Clone)]
pub struct FailedEvent {
    /// The id by which operators name it.
    pub id: u64,
    /// The view in which it failed.
    pub view: View,
    /// The event, its aggregate, and the error.
    pub parked: ParkedAt,
    /// How often it failed.
    pub failure_count: u64,
    /// When it first failed.
    pub first_failed: Timestamp,
    /// The target that it was not delivered to; empty for a projection.
    pub target_id: String,
    /// What became of it.
    pub state: State,
    /// What was decided about it; `None` where it waits for somebody to decide.
    pub decided: Option<Decided>,
}

/// A decision to try a failed event again, or to discard it.
#[derive(Debug, Clone)]
pub struct Decided {
    /// Who decided it: the id of a user, or the name of a system user.
    pub by: String,
    /// When it was decided.
    pub at: Timestamp,
    /// Why; empty where it is tried again.
    pub reason: String,
    /// Whether an operator of the platform decided it, and not an administrator of the instance.
    pub is_of_system: bool,
}

/// A part of a list of failed events.
#[derive(Debug, Clone, Default)]
pub struct Page {
    /// The filters, all of which have to match.
    pub filters: Vec<Filter>,
    /// The instance whose administrator asks, from whom failures of what belongs to the system are withheld.
    pub within: Option<String>,
    /// The state of the requested failed events; `None` for all that were not discarded.
    pub state: Option<State>,
    /// Whether the events that failed longest ago come first.
    pub ascending: bool,
    /// How many are skipped.
    pub offset: u64,
    /// How many are returned at most.
    pub limit: u32,
}

/// Returns the failed events of a page, and how many there are in all. The answer is as fresh as the projection in
/// Postgres that lags most: it includes all failures up to there.
///
/// # Errors
/// When Postgres does not answer.
pub async fn search(
    database: &Database,
    shard: u16,
    page: &Page,
) -> Result<Fresh<(Vec<FailedEvent>, u64)>, DatabaseFailure> {
    let read = async {
        let mut connection = database.connection().await?;
        let transaction = snapshot(&mut connection).await?;
        let (processed, timestamp) = furthest_lagging(&checkpoints(&transaction, shard).await?);
        let answer = read(&transaction, page).await?;
        transaction.commit().await?;
        Ok(Fresh { processed, timestamp, is_parked: false, answer })
    };
    database.within(read).await
}

/// How far a projection is, and how many events it could not process.
#[derive(Clone)]
pub struct ProjectionProgress {
    /// The projection.
    pub projection: &'static Projection,
    /// The sequence of the last event that it has processed; zero for one that is not stored in Postgres.
    pub sequence: u64,
    /// When that event was committed.
    pub committed_at: Timestamp,
    /// How many events it could not process.
    pub failed: u64,
}

/// Returns how far every projection is. The answer is as fresh as the projection that lags most.
///
/// # Errors
/// When Postgres does not answer.
pub async fn progress(database: &Database, shard: u16) -> Result<Fresh<Vec<ProjectionProgress>>, DatabaseFailure> {
    let read = async {
        let mut connection = database.connection().await?;
        let transaction = snapshot(&mut connection).await?;
        let found = checkpoints(&transaction, shard).await?;
        let failed = waiting(&transaction).await?;
        transaction.commit().await?;
        let (processed, timestamp) = furthest_lagging(&found);
        let stand = |projection: &'static Projection| {
            let of = found.iter().find(|(known, _)| known.name == projection.name);
            let (sequence, committed_at) = of.map(|(_, checkpoint)| sequence_and_time(*checkpoint)).unwrap_or_default();
            let failed = failed.iter().find(|waits| waits.view == projection.name).map_or(0, |waits| waits.count);
            ProjectionProgress { projection, sequence, committed_at, failed }
        };
        let answer = PROJECTIONS.iter().map(stand).collect();
        Ok(Fresh { processed, timestamp, is_parked: false, answer })
    };
    database.within(read).await
}

fn sequence_and_time(checkpoint: Option<Checkpoint>) -> (u64, Timestamp) {
    checkpoint.map_or_else(Default::default, |checkpoint| (checkpoint.position.sequence, checkpoint.committed_at))
}

/// How far the projection is that lags most, of those that follow `EVENTS`: the other log has other sequences.
fn furthest_lagging(found: &[(&Projection, Option<Checkpoint>)]) -> (u64, Timestamp) {
    let following = found.iter().filter(|(projection, _)| projection.class == LogClass::Events);
    following.map(|(_, checkpoint)| sequence_and_time(*checkpoint)).min().unwrap_or_default()
}

async fn read(client: &impl GenericClient, page: &Page) -> Result<(Vec<FailedEvent>, u64), DatabaseFailure> {
    let (all, mut parameters) = match page.state {
        Some(State::Discarded) => discarded(page),
        state => waiting_all(state),
    };
    let mut conditions = page.within.as_ref().map(|id| within_instance(id, &mut parameters)).unwrap_or_default();
    conditions.extend(page.filters.iter().map(|filter| condition(filter, &mut parameters)));
    let borrowed: Vec<&(dyn ToSql + Sync)> = parameters.iter().map(|parameter| &**parameter as _).collect();
    let found = format!("from ({all}) as f where true{conditions}");
    let direction = if page.ascending { "asc" } else { "desc" };
    let (limit, offset) = (page.limit, page.offset.min(i64::MAX.unsigned_abs()));
    let listed =
        format!("select f.* {found} order by last_failed {direction}, id {direction} limit {limit} offset {offset}");
    let rows = client.query(&listed, &borrowed).await?;
    let mut room = PageBudget::default();
    let events = rows.iter().filter_map(failed_event);
    let events = events.take_while(|event| room.takes(event.parked.error.len() + 1000)).collect();
    let total = client.query_one(&format!("select count(*) {found}"), &borrowed).await?;
    Ok((events, unsigned(total.get(0))))
}

/// The parameters of a statement that is composed.
pub(super) type Parameters = Vec<Box<dyn ToSql + Sync + Send>>;

/// A statement for failures in this build's projections and deliveries that were given up, all but what was discarded.
fn waiting_all(state: Option<State>) -> (String, Parameters) {
    let names: Vec<&str> = PROJECTIONS.iter().map(|projection| projection.name).collect();
    let versions: Vec<i32> = PROJECTIONS.iter().map(|projection| projection.version).collect();
    let marked = match state {
        Some(State::Retrying) => " where r.id is not null",
        Some(_) => " where r.id is null",
        None => "",
    };
    let text = format!(
        "select f.*, r.decided_in, r.actor, r.decided_at, null::text as reason from (\
         select f.id, f.projection as view, f.version, f.instance_id, f.aggregate_type, f.aggregate_id, f.sequence, \
         '' as target_id, f.failure_count, f.error, f.first_failed, f.last_failed \
         from platform.failed_events f join unnest($1::text[], $2::int[]) as p (name, number) \
         on f.projection = p.name and f.version = p.number \
         union all select id, 'deliveries', 0, instance_id, aggregate_type, aggregate_id, sequence, \
         target_id, failure_count, error, coalesce(first_failed, last_failed), last_failed \
         from platform.given_up_deliveries left join platform.first_failures using (shard, place)) as f \
         left join platform.retries r using (id){marked}"
    );
    (text, vec![Box::new(names), Box::new(versions)])
}

/// The condition for what an administrator of an instance may see: every delivery, since none is made of other events,
/// and in projections only what history knows and does not ascribe to the system, without the instance itself.
fn within_instance(id: &str, parameters: &mut Parameters) -> String {
    let owned = |history: &Projection| {
        history.sql(&format!(
            "exists (select from {{schema}}.events e where e.instance_id = f.instance_id \
             and e.aggregate_type = f.aggregate_type and e.aggregate_id = f.aggregate_id and e.owner_type <> {})",
            owner_type(OwnerType::System)
        ))
    };
    let of_instance = condition(&Filter::InstanceId(id.to_owned()), parameters);
    format!(
        "{of_instance} and (f.view = '{DELIVERIES}' or f.aggregate_type <> '{}' and ({} or {}))",
        Instance::NAME,
        owned(&HISTORY),
        owned(&SESSION_HISTORY)
    )
}

/// A statement for what was discarded and can be read; where a filter names an instance, there and in the system.
fn discarded(page: &Page) -> (String, Parameters) {
    let columns = "instance_id as decided_in, aggregate_id as named, actor, committed_at, payload";
    let condition = "type = 'failed_event.discarded'";
    let instance = page.within.clone().or_else(|| {
        page.filters.iter().find_map(|filter| match filter {
            Filter::InstanceId(id) => Some(id.clone()),
            _ => None,
        })
    });
    let (decided, parameters): (_, Parameters) = match instance {
        Some(id) => (decided::of("values ($1), ($2)", columns, condition), vec![Box::new(id), Box::new(SYSTEM)]),
        None => (decided::of_all(columns, condition), vec![]),
    };
    let text = HISTORY.sql(&format!(
        "select d.id, d.view, 0 as version, d.instance_id, d.aggregate_type, d.aggregate_id, d.sequence, d.target_id, \
         d.failure_count, d.error, coalesce(d.first_failed, d.last_failed, committed_at) as first_failed, \
         coalesce(d.last_failed, committed_at) as last_failed, decided_in, actor, committed_at as decided_at, d.reason \
         from ({decided}) as decided cross join lateral platform.discarded_1(named, payload) as d"
    ));
    (text, parameters)
}

fn failed_event(row: &Row) -> Option<FailedEvent> {
    let (name, version): (&str, i32) = (row.get("view"), row.get("version"));
    let reason: Option<String> = row.get("reason");
    let decided = row.get::<_, Option<Timestamp>>("decided_at");
    let state = match (&reason, decided) {
        (Some(_), _) => State::Discarded,
        (None, Some(_)) => State::Retrying,
        (None, None) => State::Failed,
    };
    let decided = decided.map(|at| Decided {
        by: row.get::<_, Option<String>>("actor").unwrap_or_default(),
        at,
        reason: reason.unwrap_or_default(),
        is_of_system: row.get::<_, Option<&str>>("decided_in") == Some(SYSTEM),
    });
    // What was discarded is left out of every version.
    let is_any = state == State::Discarded;
    let is_known = |known: &&'static Projection| known.name == name && (known.version == version || is_any);
    let view = if name == DELIVERIES { View::Deliveries } else { View::Projection(PROJECTIONS.iter().find(is_known)?) };
    let (id, failure_count) = (unsigned(row.get("id")), unsigned(row.get("failure_count")));
    let first_failed = row.get("first_failed");
    Some(FailedEvent {
        id,
        view,
        parked: parked_at(row),
        failure_count,
        first_failed,
        target_id: row.get("target_id"),
        state,
        decided,
    })
}

/// Returns a condition on failed events, which are called `f`, and appends its parameter to the others.
pub(super) fn condition(filter: &Filter, parameters: &mut Parameters) -> String {
    let at = |micros: &i64| Box::new(Timestamp::from_microsecond(*micros).unwrap_or_default());
    let (condition, parameter): (_, Box<dyn ToSql + Sync + Send>) = match filter {
        Filter::Id(id) => ("f.id =", Box::new(i64::try_from(*id).unwrap_or(-1))),
        Filter::View(name) => ("f.view =", Box::new(name.clone())),
        Filter::InstanceId(id) => ("f.instance_id =", Box::new(id.clone())),
        Filter::AggregateType(name) => ("f.aggregate_type =", Box::new(name.clone())),
        Filter::AggregateId(id) => ("f.aggregate_id =", Box::new(id.clone())),
        Filter::TargetId(id) => ("f.target_id =", Box::new(id.clone())),
        Filter::Error(part) => ("lower(f.error collate \"C\") like", Box::new(within(part))),
        Filter::FailedFrom(micros) => ("f.last_failed >=", at(micros)),
        Filter::FailedBefore(micros) => ("f.last_failed <", at(micros)),
    };
    parameters.push(parameter);
    format!(" and {condition} ${}", parameters.len())
}

/// A pattern for text that contains this, whatever the case of its ASCII letters.
fn within(part: &str) -> String {
    let literal = part.to_ascii_lowercase().replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_");
    format!("%{literal}%")
}

/// The failed events of a view that wait for a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waits {
    /// The name of the view.
    pub view: String,
    /// How many events.
    pub count: u64,
    /// When the event that waits the longest failed.
    pub oldest: Timestamp,
}

/// Returns how many failed events wait for a decision, by view.
///
/// # Errors
/// When Postgres does not answer.
pub async fn waits(database: &Database) -> Result<Vec<Waits>, DatabaseFailure> {
    database.within(async { waiting(&*database.connection().await?).await }).await
}

async fn waiting(client: &impl GenericClient) -> Result<Vec<Waits>, DatabaseFailure> {
    let text = "select projection, version, count(*), min(first_failed) from platform.failed_events group by 1, 2 \
                union all select 'deliveries', 0, count(*), min(last_failed) from platform.given_up_deliveries \
                having count(*) > 0";
    let statement = client.prepare_cached(text).await?;
    let known = |row: &Row| {
        let (name, version): (&str, i32) = (row.get(0), row.get(1));
        let is_known = PROJECTIONS.iter().any(|known| known.name == name && known.version == version);
        let waits = || Waits { view: name.to_owned(), count: unsigned(row.get(2)), oldest: row.get(3) };
        (is_known || name == DELIVERIES).then(waits)
    };
    Ok(client.query(&statement, &[]).await?.iter().filter_map(known).collect())
}
