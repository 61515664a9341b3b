//! Removal: an object that names a removed one is removed, too, or goes on without the name, in the record of the
//! removal.
//!
//! Where that would be more than [`MOST_DEPENDENTS`] or [`PART_OF_RECORD`], the object alone is removed, and a sweep
//! does the rest ([`crate::reaction::sweep`]).

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::LazyLock,
};

use domain::{
    aggregate::Aggregate,
    catalog::{self, Visitor},
    links::links_to,
    reference::Reference,
    resource::instance::Instance,
    settings::{self, Properties, Settings},
    standard::{Command as Asked, Resource, Standard},
};
use eventlog::record::AggregateKey;
use view::{history::MOST_REFERRERS, keyring::SYSTEM, settings::has_policies};

use crate::{
    execute::Deciding,
    references,
    turn::{Cause, ClaimKeys, Current, Decided, PART_OF_RECORD, Refusal, Turn},
    writer::writer_unavailable,
};

/// How many other objects may change with a removal in one record.
const MOST_DEPENDENTS: usize = MOST_REFERRERS;
/// How many of the objects that name a removed one are handled by one step of the sweep.
pub(crate) const PAGE: usize = 50;

/// Removes an object with what depends on it, or leaves that to the sweep.
pub(crate) fn remove<R: Resource>(
    turn: &mut Turn<'_>,
    deciding: &Deciding,
    current: Current<Standard<R>>,
) -> Result<Decided, Refusal> {
    references::are_complete(turn)?;
    let key = current.key.clone();
    let dependents = Dependents::of(turn, &key)?;
    let decided = deciding.decide(turn, current, Asked::Delete)?;
    let written = match dependents {
        Some(dependents) => dependents.write_within(turn, &deciding.keys, &deciding.cause)?,
        None => None,
    };
    if written.is_none() {
        turn.leave_to_sweep(&key);
    }
    Ok(decided)
}

/// The objects that change with removals because they name removed objects, in the order in which they were found, each
/// with the references that it loses.
#[derive(Default)]
pub(crate) struct Dependents {
    order: Vec<AggregateKey>,
    gone: HashMap<AggregateKey, Vec<Reference>>,
    removed: HashSet<AggregateKey>,
    /// The removed objects whose referrers were not looked up yet.
    next: VecDeque<AggregateKey>,
}

/// What a step of the sweep did.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Swept {
    /// Whether something changed.
    pub(crate) wrote: bool,
    /// Whether there is more to change.
    pub(crate) has_more: bool,
    /// How many objects it looked at.
    pub(crate) looked_at: usize,
}

impl Dependents {
    /// Returns what changes when an object is removed; `None` if that is too much for one record.
    ///
    /// For an instance it is always left to the sweep, which hashes names with the keys of that instance; and so it is
    /// for a resource of the system on which contexts of all instances may have policies.
    fn of(turn: &mut Turn<'_>, removed: &AggregateKey) -> Result<Option<Self>, Refusal> {
        let is_everywhere = removed.instance_id == SYSTEM && has_policies(&removed.aggregate_type);
        if removed.aggregate_type == Instance::NAME || is_everywhere {
            return Ok(None);
        }
        let mut found = Self::without(removed);
        found.next.push_back(removed.clone());
        Ok(found.follow(turn)?.then_some(found))
    }

    /// Handles some of the objects that name a removed one: each goes on without the name, or is removed with what
    /// depends on it.
    pub(crate) fn sweep(
        turn: &mut Turn<'_>,
        removed: &AggregateKey,
        keys: &ClaimKeys,
        cause: &Cause,
    ) -> Result<Swept, Refusal> {
        let (mut page, mut has_more) = (vec![], false);
        // An object that was created anew under the same id is named rightly.
        if (Kind::of(removed)?.exists)(turn, removed) {
            return Ok(Swept { wrote: false, has_more, looked_at: 0 });
        }
        for link in links_to(&removed.aggregate_type) {
            let referrers = turn.referrers(removed, *link);
            has_more |= referrers.has_more;
            let reference = Reference::new(*link, &removed.id);
            page.extend(referrers.keys.into_iter().map(|referrer| (referrer, reference.clone())));
        }
        has_more |= page.len() > PAGE;
        page.truncate(PAGE);
        // Fewer objects are handled if much depends on each.
        loop {
            let mut found = Self::without(removed);
            for (referrer, reference) in &page {
                found.add(turn, referrer, reference.clone())?;
            }
            let written = if found.follow(turn)? { found.write_within(turn, keys, cause)? } else { None };
            if let Some(wrote) = written {
                return Ok(Swept { wrote, has_more, looked_at: page.len() });
            }
            if let [(referrer, reference)] = page.as_slice() {
                let mut alone = Self::without(removed);
                alone.add(turn, referrer, reference.clone())?;
                let wrote = alone.write_alone(turn, referrer, keys, cause)?;
                return Ok(Swept { wrote, has_more, looked_at: page.len() });
            }
            page.truncate(page.len() / 2);
            has_more = true;
        }
    }

    /// Writes what becomes of a single object that names a removed one: it goes on without the name, or is removed, and
    /// what depends on it is swept afterwards.
    fn write_alone(
        self,
        turn: &mut Turn<'_>,
        referrer: &AggregateKey,
        keys: &ClaimKeys,
        cause: &Cause,
    ) -> Result<bool, Refusal> {
        let goes = self.removed.contains(referrer);
        let wrote = self.write(turn, keys, cause)?;
        if goes {
            turn.leave_to_sweep(referrer);
        }
        Ok(wrote)
    }

    /// Removes policies on a removed resource of the system, which have no references to it.
    pub(crate) fn remove_policies(
        turn: &mut Turn<'_>,
        policies: &[AggregateKey],
        keys: &ClaimKeys,
        cause: &Cause,
    ) -> Result<(), Refusal> {
        policies.iter().try_for_each(|policy| (Kind::of(policy)?.remove)(turn, policy, keys, cause).map(drop))
    }

    fn without(removed: &AggregateKey) -> Self {
        Self { removed: HashSet::from([removed.clone()]), ..Self::default() }
    }

    /// Adds an object that names a removed one, and may be removed with it.
    fn add(&mut self, turn: &mut Turn<'_>, referrer: &AggregateKey, reference: Reference) -> Result<(), Refusal> {
        if (Kind::of(referrer)?.goes)(turn, referrer, &reference) && self.removed.insert(referrer.clone()) {
            self.next.push_back(referrer.clone());
        }
        let gone = self.gone.entry(referrer.clone()).or_default();
        if gone.is_empty() {
            self.order.push(referrer.clone());
        }
        gone.push(reference);
        Ok(())
    }

    /// Finds what depends on the removed objects, and so on; `false` if that is too much for one record, which then has
    /// only what was added before.
    fn follow(&mut self, turn: &mut Turn<'_>) -> Result<bool, Refusal> {
        let added = self.order.len();
        while let Some(key) = self.next.pop_front() {
            for link in links_to(&key.aggregate_type) {
                let referrers = turn.referrers(&key, *link);
                if referrers.has_more || self.order.len() + referrers.keys.len() > MOST_DEPENDENTS {
                    self.order.truncate(added);
                    return Ok(false);
                }
                for referrer in &referrers.keys {
                    // The object that was removed first is not among those that change.
                    if !self.removed.contains(referrer) || self.gone.contains_key(referrer) {
                        self.add(turn, referrer, Reference::new(*link, &key.id))?;
                    }
                }
            }
        }
        Ok(true)
    }

    /// Writes the changes if they fit, and returns whether there are any; `None` if nothing was written.
    fn write_within(self, turn: &mut Turn<'_>, keys: &ClaimKeys, cause: &Cause) -> Result<Option<bool>, Refusal> {
        let before = turn.pending();
        let wrote = self.write(turn, keys, cause)?;
        if turn.bytes_after(before) > PART_OF_RECORD {
            turn.undo_after(before);
            return Ok(None);
        }
        Ok(Some(wrote))
    }

    /// Writes the changes, and returns whether there are any.
    fn write(mut self, turn: &mut Turn<'_>, keys: &ClaimKeys, cause: &Cause) -> Result<bool, Refusal> {
        let mut wrote = false;
        for key in self.order {
            let gone = self.gone.remove(&key).unwrap_or_default();
            wrote |= (Kind::of(&key)?.unlink)(turn, &key, &gone, keys, cause)?;
        }
        Ok(wrote)
    }
}

/// A kind of resources, without its type.
struct Kind {
    name: &'static str,
    exists: fn(&mut Turn<'_>, &AggregateKey) -> bool,
    /// Whether an object is removed with something that it names.
    goes: fn(&mut Turn<'_>, &AggregateKey, &Reference) -> bool,
    /// Removes references from an object, or the object itself; returns whether that changes anything.
    unlink: Unlink,
    /// Removes an object if it exists; returns whether it did.
    remove: Remove,
}

type Remove = fn(&mut Turn<'_>, &AggregateKey, &ClaimKeys, &Cause) -> Result<bool, Refusal>;
type Unlink = fn(&mut Turn<'_>, &AggregateKey, &[Reference], &ClaimKeys, &Cause) -> Result<bool, Refusal>;

impl Kind {
    /// Returns the kind of an aggregate, unless only a newer build knows it.
    fn of(key: &AggregateKey) -> Result<&'static Self, Refusal> {
        static ALL: LazyLock<Vec<Kind>> = LazyLock::new(|| {
            let mut found = Kinds(vec![]);
            catalog::visit(&mut found);
            found.0
        });
        let message = "a newer version of the platform wrote an object that would change with it: send the command to \
                       a node of that version";
        let found = ALL.iter().find(|kind| kind.name == key.aggregate_type);
        found.ok_or_else(|| writer_unavailable(message).into())
    }
}

struct Kinds(Vec<Kind>);

impl Visitor for Kinds {
    fn resource<R: Resource>(&mut self) {
        self.0.push(Kind {
            name: R::NAME,
            exists: exists::<R>,
            goes: is_removed_with::<R>,
            unlink: unlink::<R>,
            remove: remove_resource::<R>,
        });
    }

    fn settings<P: Properties>(&mut self) {
        self.0.push(Kind {
            name: P::NAME,
            exists: |turn, key| turn.get::<Settings<P>>(key).state.is_some(),
            // Settings name nothing but the context that they belong to.
            goes: |_, _, _| true,
            unlink: |turn, key, _, keys, cause| remove_settings::<P>(turn, key, keys, cause),
            remove: remove_settings::<P>,
        });
    }
}

/// Whether an object still names something.
fn names<R: Resource>(current: &Current<Standard<R>>, reference: &Reference) -> bool {
    let owner = current.head.owner.as_ref();
    owner.is_some_and(|owner| Standard::<R>::references(&current.state, owner).contains(reference))
}

fn exists<R: Resource>(turn: &mut Turn<'_>, key: &AggregateKey) -> bool {
    turn.get::<Standard<R>>(key).resource().is_some()
}

fn is_removed_with<R: Resource>(turn: &mut Turn<'_>, key: &AggregateKey, reference: &Reference) -> bool {
    let current = turn.get::<Standard<R>>(key);
    names(&current, reference) && current.resource().is_some_and(|found| found.clone().unlinked(reference).is_none())
}

fn remove_settings<P: Properties>(
    turn: &mut Turn<'_>,
    key: &AggregateKey,
    keys: &ClaimKeys,
    cause: &Cause,
) -> Result<bool, Refusal> {
    let current = turn.get::<Settings<P>>(key);
    let events = Settings::<P>::decide(&current.state, settings::Command::Remove)?;
    if !events.is_empty() {
        turn.append(current, &events, keys, cause)?;
    }
    Ok(!events.is_empty())
}

fn remove_resource<R: Resource>(
    turn: &mut Turn<'_>,
    key: &AggregateKey,
    keys: &ClaimKeys,
    cause: &Cause,
) -> Result<bool, Refusal> {
    let current = turn.get::<Standard<R>>(key);
    let exists = current.resource().is_some();
    if exists {
        let events = Standard::<R>::decide(&current.state, Asked::Delete)?;
        turn.append(current, &events, keys, cause)?;
    }
    Ok(exists)
}

fn unlink<R: Resource>(
    turn: &mut Turn<'_>,
    key: &AggregateKey,
    gone: &[Reference],
    keys: &ClaimKeys,
    cause: &Cause,
) -> Result<bool, Refusal> {
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
    Ok(!events.is_empty())
}
