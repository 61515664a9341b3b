//! The settings index: the settings and state policies of every context, in memory. It is loaded from the read models
//! once and then updated from the log alone. So reading it needs no I/O, and changes hold once the log has them.

mod follow;
mod kind;
mod policy;

use std::{
    any::Any,
    borrow::Cow,
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use domain::{
    context::{Owner, OwnerType},
    settings::{Chain, Properties, Settings},
};
use eventlog::{
    log::{self, Log, LogFailure, Reached},
    record::AggregateKey,
};
use jiff::Timestamp;

pub use self::policy::{Policies, SetPolicy, has_policies};
use self::{kind::KINDS, policy::OfInstance};
use crate::{database::Database, failed_event::Baseline, keyring::SYSTEM};

/// The settings and state policies of every context.
#[derive(Clone)]
pub struct SettingsIndex {
    contexts: Arc<RwLock<Contexts>>,
    reached: Reached,
}

/// The effective settings of a context.
#[derive(Debug)]
pub struct Effective<P> {
    /// The sequence of the last event that the index has.
    pub processed: u64,
    /// The sequence of the last change in the context itself; 0 when nothing was ever set there.
    pub sequence: u64,
    /// When that change was committed.
    pub changed_at: Timestamp,
    /// The settings of the context and of those above it.
    pub chain: Chain<P>,
}

/// Settings by instance, by their id, which begins with the id of their context, and by the name of their service.
#[derive(Default)]
struct Contexts {
    by_instance: HashMap<String, HashMap<String, HashMap<&'static str, Entry>>>,
    /// State policies, by instance.
    policies: HashMap<String, OfInstance>,
    /// The sequence of the last event that was applied.
    processed: u64,
    /// The events that the rows lacked when they were loaded.
    baseline: Baseline,
}

/// The settings of one service in one context.
struct Entry {
    sequence: u64,
    changed_at: Timestamp,
    /// The properties, of the type that belongs to the service.
    set: AnySettings,
}

/// The properties of any service.
type AnySettings = Arc<dyn Any + Send + Sync>;

impl std::fmt::Debug for SettingsIndex {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SettingsIndex").finish_non_exhaustive()
    }
}

/// An index of an empty log.
impl Default for SettingsIndex {
    fn default() -> Self {
        Self::of(Contexts::default())
    }
}

impl SettingsIndex {
    /// Opens an index that is as far as the log at this time, and follows the log from there.
    ///
    /// # Errors
    /// When the log cannot be read.
    pub async fn open(log: Log, database: &Database, shard: u16) -> Result<Self, LogFailure> {
        let (contexts, at) = follow::begin(&log, database, shard).await?;
        let index = Self::of(contexts);
        tokio::spawn(log::keep_updated(log, index.clone(), at).await?);
        Ok(index)
    }

    fn of(contexts: Contexts) -> Self {
        let reached = Reached::new(contexts.processed);
        Self { contexts: Arc::new(RwLock::new(contexts)), reached }
    }

    /// The effective settings of a context of an instance.
    pub fn effective<P: Properties>(&self, instance_id: &str, context: &Owner) -> Effective<P> {
        self.effective_of(instance_id, context, "")
    }

    /// The effective settings of one variant, for settings of which a context has several of a kind.
    pub fn effective_of<P: Properties>(&self, instance_id: &str, context: &Owner, variant: &str) -> Effective<P> {
        let above = context.chain(instance_id).into_iter().skip(1);
        let contexts = self.contexts.read().unwrap_or_else(PoisonError::into_inner);
        let own = contexts.entry::<P>(instance_id, context, variant);
        let above = above.map(|owner| {
            let set = contexts.entry::<P>(instance_id, &owner, variant).and_then(Entry::set);
            (owner, set)
        });
        Effective {
            processed: contexts.processed,
            sequence: own.map_or(0, |own| own.sequence),
            changed_at: own.map(|own| own.changed_at).unwrap_or_default(),
            chain: Chain { own: own.and_then(Entry::set), above: above.collect() },
        }
    }

    /// Whether aggregates of this type are in the index.
    pub fn follows(aggregate_type: &str) -> bool {
        KINDS.iter().any(|kind| kind.name == aggregate_type) || policy::is_kind(aggregate_type)
    }

    /// How far the log was followed.
    pub fn position(&self) -> &Reached {
        &self.reached
    }
}

impl Contexts {
    fn entry<P: Properties>(&self, instance_id: &str, context: &Owner, variant: &str) -> Option<&Entry> {
        self.by_instance.get(instance_of(instance_id, context))?.get(&*id(context, variant))?.get(P::NAME)
    }
}

impl Entry {
    fn set<P: Properties>(&self) -> Option<Arc<P>> {
        self.set.clone().downcast().ok()
    }
}

/// The key of the aggregate that holds the settings of a context.
pub fn key<P: Properties>(instance_id: &str, context: &Owner, variant: &str) -> AggregateKey {
    AggregateKey::of::<Settings<P>>(instance_of(instance_id, context), id(context, variant).into_owned())
}

/// The id of the settings of a context: its own, and the variant where there are several of a kind.
fn id<'a>(context: &'a Owner, variant: &str) -> Cow<'a, str> {
    if variant.is_empty() { Cow::Borrowed(&context.id) } else { Cow::Owned(format!("{}.{variant}", context.id)) }
}

/// The instance that stores what belongs to a context: what belongs to the system is in none.
pub fn instance_of<'a>(instance_id: &'a str, context: &Owner) -> &'a str {
    if context.kind == OwnerType::System { SYSTEM } else { instance_id }
}

#[cfg(test)]
mod tests;
