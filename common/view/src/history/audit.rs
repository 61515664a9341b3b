//! The audit log: events by who did what, when, in which context.

use std::pin::pin;

use domain::{
    context::{Owner, OwnerType},
    resource::instance::Instance,
    standard::Resource,
};
use eventlog::record::{Recorded, owner_type};
use futures::TryStreamExt;
use jiff::Timestamp;
use tokio_postgres::{Transaction, types::ToSql};

use super::recorded;
use crate::{
    checkpoint::unsigned,
    database::{Database, DatabaseFailure, snapshot},
    projection::HISTORY,
    read_model::ReadModel,
    rows::{Fresh, PageBudget},
};

/// The events that a search requests.
#[derive(Debug, Clone, Default)]
pub struct Audit {
    /// The filters, all of which have to match.
    pub filters: Vec<Filter>,
    /// Whether the oldest come first.
    pub ascending: bool,
    /// How many are skipped.
    pub offset: u64,
    /// How many are returned at most.
    pub limit: u32,
}

/// A condition on events.
#[derive(Debug, Clone)]
pub enum Filter {
    /// The type of the event.
    Type(String),
    /// The type of the aggregate.
    AggregateType(String),
    /// The id of the aggregate.
    AggregateId(String),
    /// The actor who caused the event.
    Actor(String),
    /// The instance.
    Instance(String),
    /// The instance, without what belongs to the system, except for the instance itself.
    Within(String),
    /// The context that the aggregate belongs to.
    Owner(Owner),
    /// When the event was committed.
    Committed(Comparison, Timestamp),
    /// After a sequence.
    After(u64),
}

/// How times are compared.
#[derive(Debug, Clone, Copy)]
pub enum Comparison {
    /// At that time.
    Equal,
    /// Later.
    Greater,
    /// Then or later.
    GreaterOrEqual,
    /// Earlier.
    Less,
    /// Then or earlier.
    LessOrEqual,
}

impl Comparison {
    const fn sql(self) -> &'static str {
        match self {
            Self::Equal => "=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
        }
    }
}

/// Returns the condition of a statement, and appends its parameters to the others.
fn condition(filter: &Filter, parameters: &mut Vec<Box<dyn ToSql + Sync + Send>>) -> String {
    let mut add = |parameter: Box<dyn ToSql + Sync + Send>| {
        parameters.push(parameter);
        format!("${}", parameters.len())
    };
    match filter {
        Filter::Type(text) => format!("type = {}", add(Box::new(text.clone()))),
        Filter::AggregateType(text) => format!("aggregate_type = {}", add(Box::new(text.clone()))),
        Filter::AggregateId(text) => format!("aggregate_id = {}", add(Box::new(text.clone()))),
        Filter::Actor(text) => format!("actor = {}", add(Box::new(text.clone()))),
        Filter::Instance(text) => format!("instance_id = {}", add(Box::new(text.clone()))),
        Filter::Within(text) => {
            let (system, id) = (owner_type(OwnerType::System), add(Box::new(text.clone())));
            format!("instance_id = {id} and (owner_type <> {system} or aggregate_type = '{}')", Instance::NAME)
        }
        Filter::Owner(owner) => {
            let kind = i16::try_from(owner_type(owner.kind)).unwrap_or_default();
            let kind = add(Box::new(kind));
            format!("owner_type = {kind} and owner_id = {}", add(Box::new(owner.id.clone())))
        }
        Filter::After(sequence) => {
            format!("sequence > {}", add(Box::new(i64::try_from(*sequence).unwrap_or(i64::MAX))))
        }
        Filter::Committed(how, at) => format!("committed_at {} {}", how.sql(), add(Box::new(*at))),
    }
}

/// Returns the requested events, and how many there are in all, from one snapshot.
///
/// # Errors
/// When Postgres does not answer.
pub async fn search(
    database: &Database,
    shard: u16,
    audit: &Audit,
) -> Result<Fresh<(Vec<Recorded>, u64)>, DatabaseFailure> {
    database.within(read(database, shard, audit)).await
}

async fn read(database: &Database, shard: u16, audit: &Audit) -> Result<Fresh<(Vec<Recorded>, u64)>, DatabaseFailure> {
    let mut parameters: Vec<Box<dyn ToSql + Sync + Send>> = vec![];
    let conditions: Vec<String> = audit.filters.iter().map(|filter| condition(filter, &mut parameters)).collect();
    let found = if conditions.is_empty() { "true".to_owned() } else { conditions.join(" and ") };
    let direction = if audit.ascending { "asc" } else { "desc" };
    let page = HISTORY.sql(&format!(
        "select * from {{schema}}.events where {found} order by sequence {direction} limit {} offset {}",
        audit.limit,
        audit.offset.min(i64::MAX.unsigned_abs())
    ));
    let count = HISTORY.sql(&format!("select count(*) from {{schema}}.events where {found}"));
    let borrowed: Vec<&(dyn ToSql + Sync)> = parameters.iter().map(|parameter| &**parameter as _).collect();
    let mut connection = database.connection().await?;
    let transaction = snapshot(&mut connection).await?;
    let checkpoint = ReadModel::new(&HISTORY, shard).checkpoint(&transaction).await?;
    let (events, is_whole) = events(&transaction, &page, &borrowed).await?;
    let is_last = is_whole && events.len() < audit.limit as usize && (audit.offset == 0 || !events.is_empty());
    let total = if is_last {
        audit.offset + events.len() as u64
    } else {
        unsigned(transaction.query_one(&count, &borrowed).await?.get(0))
    };
    transaction.commit().await?;
    let (processed, timestamp) = checkpoint
        .map_or((0, Timestamp::UNIX_EPOCH), |checkpoint| (checkpoint.position.sequence, checkpoint.committed_at));
    Ok(Fresh { processed, timestamp, is_parked: false, answer: (events, total) })
}

/// Returns the events that a statement finds, as far as they fit in a page, and whether these are all.
async fn events(
    transaction: &Transaction<'_>,
    statement: &str,
    parameters: &[&(dyn ToSql + Sync)],
) -> Result<(Vec<Recorded>, bool), DatabaseFailure> {
    let rows = transaction.query_raw(statement, parameters.iter().copied()).await?;
    let (mut rows, mut room, mut events) = (pin!(rows), PageBudget::default(), vec![]);
    while let Some(row) = rows.try_next().await? {
        let found = recorded(&row)?;
        if !room.takes(found.event.payload.len()) {
            return Ok((events, false));
        }
        events.push(found);
    }
    Ok((events, true))
}
