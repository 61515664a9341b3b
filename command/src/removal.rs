//! Removal: what names a removed object goes with it, or goes on without it, in the record of the removal.
//!
//! Where that would be more than [`MOST_DEPENDENTS`], the object alone is removed, and a sweep does the rest
//! ([`crate::reaction::sweep`]).

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::LazyLock,
};

use domain::{
    aggregate::Aggregate,
    catalog::{self, Visitor},
    reference::{Reference, links_to},
    resource::instance::Instance,
    settings::Properties,
    standard::{Command as Asked, Resource, Standard},
};
use eventlog::record::AggregateKey;
use view::history::MOST_REFERRERS;

use crate::turn::{Cause, ClaimKeys, Current, Refusal, Turn};

/// How many others change with a removal in one record.
const MOST_DEPENDENTS: usize = MOST_REFERRERS;

/// What changes with a removal: each of those that name what is removed, with what of that they name.
pub(crate) struct Dependents(Vec<(AggregateKey, Vec<Reference>)>);

impl Dependents {
    /// What changes when an object is removed; `None` where that is too much for one record.
    ///
    /// Of an instance it is always left to the sweep, which hashes names with the keys of that instance.
    pub(crate) fn of(turn: &mut Turn<'_>, removed: &AggregateKey) -> Option<Self> {
        if removed.aggregate_type == Instance::NAME {
            return None;
        }
        let mut found = Found { order: vec![], gone: HashMap::new() };
        let (mut removed, mut next) = (HashSet::from([removed.clone()]), VecDeque::from([removed.clone()]));
        while let Some(key) = next.pop_front() {
            for link in links_to(&key.aggregate_type) {
                let referrers = turn.referrers(&key, *link);
                for referrer in referrers.keys.iter().filter(|referrer| !removed.contains(referrer)) {
                    let reference = Reference::new(*link, &key.id);
                    let goes = Kind::of(referrer).is_some_and(|kind| (kind.goes)(turn, referrer, &reference));
                    found.note(referrer, reference);
                    if goes {
                        next.push_back(referrer.clone());
                    }
                }
                removed.extend(next.iter().cloned());
                if referrers.has_more || found.order.len() > MOST_DEPENDENTS {
                    return None;
                }
            }
        }
        Some(found.into())
    }

    /// Those of a page that name a removed object, which may be too many for one record.
    pub(crate) fn page(referrers: impl IntoIterator<Item = AggregateKey>, reference: &Reference) -> Self {
        Self(referrers.into_iter().map(|referrer| (referrer, vec![reference.clone()])).collect())
    }

    /// Writes what becomes of them.
    pub(crate) fn write(self, turn: &mut Turn<'_>, keys: &ClaimKeys, cause: &Cause) -> Result<(), Refusal> {
        for (key, gone) in self.0 {
            if let Some(kind) = Kind::of(&key) {
                (kind.unlink)(turn, &key, &gone, keys, cause)?;
            }
        }
        Ok(())
    }
}

/// Those that name what is removed, in the order in which they were found.
struct Found {
    order: Vec<AggregateKey>,
    gone: HashMap<AggregateKey, Vec<Reference>>,
}

impl Found {
    fn note(&mut self, referrer: &AggregateKey, reference: Reference) {
        let gone = self.gone.entry(referrer.clone()).or_default();
        if gone.is_empty() {
            self.order.push(referrer.clone());
        }
        gone.push(reference);
    }
}

impl From<Found> for Dependents {
    fn from(Found { order, mut gone }: Found) -> Self {
        let with_gone = order.into_iter().map(|key| {
            let gone = gone.remove(&key).unwrap_or_default();
            (key, gone)
        });
        Self(with_gone.collect())
    }
}

/// A kind of resources, without its type.
struct Kind {
    name: &'static str,
    /// Whether one of them goes with something that it names.
    goes: fn(&mut Turn<'_>, &AggregateKey, &Reference) -> bool,
    /// Lets one of them go on without what it names, or go.
    unlink: Unlink,
}

type Unlink = fn(&mut Turn<'_>, &AggregateKey, &[Reference], &ClaimKeys, &Cause) -> Result<(), Refusal>;

impl Kind {
    /// That of an aggregate, where this build knows it.
    fn of(key: &AggregateKey) -> Option<&'static Self> {
        static ALL: LazyLock<Vec<Kind>> = LazyLock::new(|| {
            let mut found = Kinds(vec![]);
            catalog::visit(&mut found);
            found.0
        });
        ALL.iter().find(|kind| kind.name == key.aggregate_type)
    }
}

struct Kinds(Vec<Kind>);

impl Visitor for Kinds {
    fn resource<R: Resource>(&mut self) {
        self.0.push(Kind { name: R::NAME, goes: goes::<R>, unlink: unlink::<R> });
    }

    fn settings<P: Properties>(&mut self) {}
}

/// Whether an object still names something.
fn names<R: Resource>(current: &Current<Standard<R>>, reference: &Reference) -> bool {
    let owner = current.head.owner.as_ref();
    owner.is_some_and(|owner| Standard::<R>::references(&current.state, owner).contains(reference))
}

fn goes<R: Resource>(turn: &mut Turn<'_>, key: &AggregateKey, reference: &Reference) -> bool {
    let current = turn.get::<Standard<R>>(key);
    names(&current, reference) && current.resource().is_some_and(|found| found.clone().unlinked(reference).is_none())
}

fn unlink<R: Resource>(
    turn: &mut Turn<'_>,
    key: &AggregateKey,
    gone: &[Reference],
    keys: &ClaimKeys,
    cause: &Cause,
) -> Result<(), Refusal> {
    let current = turn.get::<Standard<R>>(key);
    let (mut state, mut events) = ((*current.state).clone(), vec![]);
    for reference in gone.iter().filter(|reference| names(&current, reference)) {
        for event in Standard::<R>::decide(&state, Asked::Unlink(reference.clone()))? {
            state = Standard::<R>::evolve(state, &event);
            events.push(event);
        }
    }
    if !events.is_empty() {
        turn.append(current, &events, keys, cause)?;
    }
    Ok(())
}
