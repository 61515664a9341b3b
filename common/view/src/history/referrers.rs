//! References between aggregates, in history: events take and release them; they are read in bounded pages.

use std::collections::{BTreeSet, HashMap};

use deadpool_postgres::Transaction;
use eventlog::record::{AggregateKey, Event, Recorded, Reference};

use super::columns;
use crate::{
    database::DatabaseFailure,
    projection::{HISTORY, Projection, Sql},
};

/// How many referrers of an aggregate by one link are read.
pub const MOST_REFERRERS: usize = 200;

/// The target of references: an aggregate, and the link by which it is named.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Referred {
    /// The aggregate.
    pub key: AggregateKey,
    /// The name of the link.
    pub link: String,
}

/// The aggregates that refer to one aggregate by one link.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Referrers {
    /// The first referrers, in their order: [`MOST_REFERRERS`], and one more where there are more.
    pub keys: BTreeSet<AggregateKey>,
    /// Whether there may be others.
    pub has_more: bool,
}

/// A reference that was taken or released.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReferenceChange {
    /// The target of the reference.
    pub referred: Referred,
    /// The aggregate that takes or releases the reference.
    pub referrer: AggregateKey,
    /// Whether the reference is taken, not released.
    pub is_taken: bool,
}

/// Returns the references that an event takes and releases.
pub fn reference_changes(key: &AggregateKey, event: &Event) -> impl Iterator<Item = ReferenceChange> {
    let released = event.references_released.iter().map(|reference| (reference, false));
    let taken = event.references_taken.iter().map(|reference| (reference, true));
    released.chain(taken).map(|(reference, is_taken)| ReferenceChange {
        referred: Referred::by(&key.instance_id, reference),
        referrer: key.clone(),
        is_taken,
    })
}

impl Referred {
    fn by(instance_id: &str, reference: &Reference) -> Self {
        let Reference { link, aggregate_type, aggregate_id } = reference.clone();
        Self { key: AggregateKey { instance_id: instance_id.to_owned(), aggregate_type, id: aggregate_id }, link }
    }
}

impl Referrers {
    /// Applies a change.
    pub fn apply(&mut self, referrer: &AggregateKey, is_taken: bool) {
        if is_taken {
            self.keys.insert(referrer.clone());
        } else {
            self.keys.remove(referrer);
        }
        while self.keys.len() > MOST_REFERRERS + 1 {
            self.keys.pop_last();
            self.has_more = true;
        }
    }

    /// Whether changes have left less than a page although there are more referrers: the next ones have to be read.
    pub fn is_short(&self) -> bool {
        self.has_more && self.keys.len() <= MOST_REFERRERS
    }
}

/// Folds a batch of events to whether each reference is taken after it.
pub fn fold_references<'a>(events: impl IntoIterator<Item = &'a Recorded>) -> HashMap<(Referred, AggregateKey), bool> {
    let mut last = HashMap::new();
    let has_some = |recorded: &&Recorded| {
        !recorded.event.references_taken.is_empty() || !recorded.event.references_released.is_empty()
    };
    for recorded in events.into_iter().filter(has_some) {
        for ReferenceChange { referred, referrer, is_taken } in reference_changes(&recorded.key(), &recorded.event) {
            last.insert((referred, referrer), is_taken);
        }
    }
    last
}

pub(super) async fn apply(
    transaction: &Transaction<'_>,
    history: &Projection,
    references: HashMap<(Referred, AggregateKey), bool>,
) -> Result<(), DatabaseFailure> {
    const DELETE: &str = "delete from {schema}.referrers r using unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], \
         $6::text[]) as gone (i, rt, ri, l, t, a) where r.instance_id = gone.i and r.referred_type = gone.rt and \
         r.referred_id = gone.ri and r.link = gone.l and r.aggregate_type = gone.t and r.aggregate_id = gone.a";
    const INSERT: &str = "insert into {schema}.referrers select * from unnest($1::text[], $2::text[], $3::text[], $4::text[], \
         $5::text[], $6::text[]) on conflict do nothing";
    let (taken, released): (Vec<_>, Vec<_>) = references.into_iter().partition(|(_, is_taken)| *is_taken);
    for (text, changed) in [(DELETE, released), (INSERT, taken)] {
        if changed.is_empty() {
            continue;
        }
        let links: Vec<&str> = changed.iter().map(|((referred, _), _)| referred.link.as_str()).collect();
        let (instances, referred_types, referred_ids) = columns(changed.iter().map(|((referred, _), _)| &referred.key));
        let (_, types, ids) = columns(changed.iter().map(|((_, referrer), _)| referrer));
        let statement = transaction.prepare_cached(&history.sql(text)).await?;
        transaction.execute(&statement, &[&instances, &referred_types, &referred_ids, &links, &types, &ids]).await?;
    }
    Ok(())
}

pub(super) async fn load(
    transaction: &Transaction<'_>,
    asked: Vec<Referred>,
) -> Result<HashMap<Referred, Referrers>, DatabaseFailure> {
    static SELECT: Sql = Sql::new(|| {
        HISTORY.sql(&format!(
            "select k.n, r.aggregate_type, r.aggregate_id from unnest($1::text[], $2::text[], $3::text[], $4::text[]) \
             with ordinality as k (i, t, a, l, n) join lateral (select aggregate_type, aggregate_id from \
             {{schema}}.referrers where instance_id = k.i and referred_type = k.t and referred_id = k.a and link = k.l \
             order by aggregate_type, aggregate_id limit {}) r on true",
            MOST_REFERRERS + 1
        ))
    });
    if asked.is_empty() {
        return Ok(HashMap::new());
    }
    let links: Vec<&str> = asked.iter().map(|referred| referred.link.as_str()).collect();
    let (instances, types, ids) = columns(asked.iter().map(|referred| &referred.key));
    let statement = transaction.prepare_cached(&SELECT).await?;
    let rows = transaction.query(&statement, &[&instances, &types, &ids, &links]).await?;
    let mut found = vec![Referrers::default(); asked.len()];
    for row in rows {
        let place = usize::try_from(row.try_get::<_, i64>(0)? - 1).unwrap_or(usize::MAX);
        let (Some(referred), Some(referrers)) = (asked.get(place), found.get_mut(place)) else { continue };
        referrers.keys.insert(AggregateKey {
            instance_id: referred.key.instance_id.clone(),
            aggregate_type: row.try_get(1)?,
            id: row.try_get(2)?,
        });
        referrers.has_more = referrers.keys.len() > MOST_REFERRERS;
    }
    Ok(asked.into_iter().zip(found).collect())
}

#[cfg(test)]
mod tests {
    use eventlog::record::Event;
    use jiff::Timestamp;

    use super::*;

    fn key(id: usize) -> AggregateKey {
        AggregateKey { instance_id: "1".into(), aggregate_type: "execution".into(), id: id.to_string() }
    }

    #[test]
    fn a_page_is_bounded_and_short_when_too_few_of_it_are_left() {
        let mut all = Referrers::default();
        all.apply(&key(1), true);
        all.apply(&key(2), true);
        all.apply(&key(1), false);
        assert_eq!((&all.keys, all.is_short()), (&BTreeSet::from([key(2)]), false));

        let mut some = Referrers::default();
        for id in 0..=MOST_REFERRERS + 1 {
            assert!(!some.has_more && !some.is_short());
            some.apply(&key(id), true);
        }
        assert_eq!((some.keys.len(), some.has_more, some.is_short()), (MOST_REFERRERS + 1, true, false));
        let first = some.keys.first().cloned().unwrap();
        some.apply(&first, false);
        assert!(some.is_short(), "the next ones are not known");
    }

    #[test]
    fn the_last_word_on_a_reference_counts() {
        let reference =
            |id: &str| Reference { link: "target".into(), aggregate_type: "target".into(), aggregate_id: id.into() };
        let event = |taken: &[&str], released: &[&str]| {
            let references = |ids: &[&str]| ids.iter().map(|id| reference(id)).collect();
            let (instance_id, aggregate_type, aggregate_id) = ("1".into(), "execution".into(), "9".into());
            let (references_taken, references_released) = (references(taken), references(released));
            let event = Event {
                instance_id,
                aggregate_type,
                aggregate_id,
                references_taken,
                references_released,
                ..Event::default()
            };
            Recorded { sequence: 1, committed_at: Timestamp::UNIX_EPOCH, event }
        };
        let folded = fold_references(&[event(&["a", "b"], &[]), event(&["c"], &["a"]), event(&["a"], &["b"])]);
        let taken = |id: &str| {
            let target = AggregateKey { instance_id: "1".into(), aggregate_type: "target".into(), id: id.into() };
            folded.get(&(Referred { key: target, link: "target".into() }, key(9)))
        };
        assert_eq!(["a", "b", "c", "d"].map(taken), [Some(&true), Some(&false), Some(&true), None]);
    }
}
