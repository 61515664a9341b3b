//! How many objects of a kind belong to an instance or an organization, in history: by the references that they take.

use std::{borrow::Borrow, collections::HashMap};

use deadpool_postgres::Transaction;

use super::{ReferenceChange, Referred, columns};
use crate::{
    checkpoint::unsigned,
    database::DatabaseFailure,
    projection::{HISTORY, Sql},
};

/// The objects of one kind that refer to an aggregate by a link.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Counted {
    /// The aggregate, and the link.
    pub referred: Referred,
    /// The kind: the name of a resource.
    pub aggregate_type: String,
}

impl Counted {
    /// Returns how many there are after these changes.
    pub fn after(&self, before: u64, changes: impl IntoIterator<Item: Borrow<ReferenceChange>>) -> u64 {
        changes.into_iter().fold(before, |number, change| {
            let ReferenceChange { referred, referrer, is_taken } = change.borrow();
            match *referred == self.referred && referrer.aggregate_type == self.aggregate_type {
                true if *is_taken => number + 1,
                true => number.saturating_sub(1),
                false => number,
            }
        })
    }
}

pub(super) async fn load(
    transaction: &Transaction<'_>,
    asked: Vec<Counted>,
) -> Result<HashMap<Counted, u64>, DatabaseFailure> {
    static SELECT: Sql = Sql::new(|| {
        HISTORY.sql(
            "select (select count(*) from {schema}.referrers where instance_id = k.i and referred_type = k.t \
             and referred_id = k.a and link = k.l and aggregate_type = k.of) \
             from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[]) \
             with ordinality as k (i, t, a, l, of, n) order by k.n",
        )
    });
    if asked.is_empty() {
        return Ok(HashMap::new());
    }
    let links: Vec<&str> = asked.iter().map(|counted| counted.referred.link.as_str()).collect();
    let kinds: Vec<&str> = asked.iter().map(|counted| counted.aggregate_type.as_str()).collect();
    let (instances, types, ids) = columns(asked.iter().map(|counted| &counted.referred.key));
    let statement = transaction.prepare_cached(&SELECT).await?;
    let rows = transaction.query(&statement, &[&instances, &types, &ids, &links, &kinds]).await?;
    let counts = rows.iter().map(|row| Ok(unsigned(row.try_get(0)?))).collect::<Result<Vec<_>, DatabaseFailure>>()?;
    Ok(asked.into_iter().zip(counts).collect())
}
