//! State policies in the settings index: whether a context activates or deactivates what it inherits.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, PoisonError},
};

use base::explain::explain;
use deadpool_postgres::Transaction;
use domain::{
    catalog::{self, Visitor},
    context::Owner,
    reusable::{Policy, Reusable, StatePolicy},
    settings::Properties,
    standard::{Resource, Standard},
};
use eventlog::record::{AggregateKey, Recorded, Undecodable, decode};
use jiff::Timestamp;
use serde_json::Value;

use super::SettingsIndex;
use crate::{
    database::DatabaseFailure,
    failed_event::Baseline,
    projection::{Projection, rows_of},
    read_model::ReadModel,
};

/// The policy that a context has on one resource.
#[derive(Debug, Clone, Copy)]
pub struct SetPolicy {
    /// The policy.
    pub policy: Policy,
    /// The sequence of its last change.
    pub sequence: u64,
    /// When that change was committed.
    pub changed_at: Timestamp,
}

/// The policies in an instance, by the id of the context, by kind, and by the id of the resource.
pub(super) type OfInstance = HashMap<String, HashMap<&'static str, Arc<OfContext>>>;
type OfContext = HashMap<String, SetPolicy>;

/// The policies on resources of one kind in the contexts of one instance, as they were at one moment.
#[derive(Debug, Clone, Default)]
pub struct Policies {
    /// The sequence of the last event that the index had.
    pub processed: u64,
    by_context: HashMap<String, Arc<OfContext>>,
}

impl Policies {
    /// The policy of a context on a resource, if one was ever set.
    pub fn set(&self, context: &Owner, resource_id: &str) -> Option<SetPolicy> {
        self.by_context.get(&context.id)?.get(resource_id).copied()
    }

    /// The policy of a context on a resource, or the default.
    pub fn policy(&self, context: &Owner, resource_id: &str) -> Policy {
        self.set(context, resource_id).map(|set| set.policy).unwrap_or_default()
    }

    /// The ids of the resources that the policies of these contexts switch on, and of those that they switch off. Each
    /// context is above the next, and the last one that decides counts.
    pub fn decided(&self, contexts: &[Owner]) -> [Vec<String>; 2] {
        let mut decided: HashMap<&str, bool> = HashMap::new();
        for (id, set) in contexts.iter().filter_map(|context| self.by_context.get(&context.id)).flat_map(|of| of.iter())
        {
            match set.policy {
                Policy::Activate => decided.insert(id, true),
                Policy::Deactivate => decided.insert(id, false),
                Policy::Inherit => None,
            };
        }
        [true, false]
            .map(|is_on| decided.iter().filter(|(_, on)| **on == is_on).map(|(id, _)| (*id).to_owned()).collect())
    }
}

impl SettingsIndex {
    /// The policies of these contexts of an instance on resources of one kind.
    pub fn policies<R: Reusable>(&self, instance_id: &str, contexts: &[Owner]) -> Policies {
        let known = self.contexts.read().unwrap_or_else(PoisonError::into_inner);
        let of_instance = known.policies.get(instance_id);
        let of = |context: &Owner| Some((context.id.clone(), of_instance?.get(&context.id)?.get(R::POLICY)?.clone()));
        Policies { processed: known.processed, by_context: contexts.iter().filter_map(of).collect() }
    }

    /// Returns the policies on a resource of the system, of one instance, that come after a given one in their order,
    /// at most `most` of them; none where no more are left.
    pub fn policies_on(&self, resource: &AggregateKey, after: Option<&AggregateKey>, most: usize) -> Vec<AggregateKey> {
        let Some(kind) = KINDS.iter().find(|kind| kind.of == resource.aggregate_type) else { return vec![] };
        let known = self.contexts.read().unwrap_or_else(PoisonError::into_inner);
        let is_left = |instance_id: &String| after.is_none_or(|after| *instance_id >= after.instance_id);
        let mut instances: Vec<_> = known.policies.iter().filter(|(id, _)| is_left(id)).collect();
        instances.sort_unstable_by_key(|(id, _)| *id);
        let of_instance = |(instance_id, contexts): (&String, &OfInstance)| {
            let having = contexts
                .iter()
                .filter(|(_, kinds)| kinds.get(kind.name).is_some_and(|policies| policies.contains_key(&resource.id)));
            let keys = having.map(|(context_id, _)| AggregateKey {
                instance_id: instance_id.clone(),
                aggregate_type: kind.name.to_owned(),
                id: StatePolicy::<()>::id(&resource.id, context_id),
            });
            let mut keys: Vec<_> = keys.filter(|key| after.is_none_or(|after| key > after)).collect();
            keys.sort_unstable();
            keys.truncate(most);
            keys
        };
        instances.into_iter().map(of_instance).find(|keys| !keys.is_empty()).unwrap_or_default()
    }
}

/// A kind of policies, without the type of their resources.
struct Kind {
    name: &'static str,
    /// The name of the resources that they are on.
    of: &'static str,
    projection: fn() -> &'static Projection,
    read: fn(Value) -> Result<Policy, serde_json::Error>,
    /// Returns the policy after an event; `None` where it is gone.
    apply: fn(&Recorded) -> Result<Option<Policy>, Undecodable>,
}

static KINDS: LazyLock<Vec<Kind>> = LazyLock::new(|| {
    let mut found = Kinds(vec![]);
    catalog::visit(&mut found);
    found.0
});

struct Kinds(Vec<Kind>);

impl Visitor for Kinds {
    fn resource<R: Resource>(&mut self) {}

    fn reusable<R: Reusable>(&mut self) {
        self.0.push(Kind {
            name: R::POLICY,
            of: R::NAME,
            projection: rows_of::<StatePolicy<R>>,
            read: |row| Ok(serde_json::from_value::<StatePolicy<R>>(row)?.policy),
            apply: |recorded| {
                let after = decode::<Standard<StatePolicy<R>>>(recorded)?.into_state();
                Ok(after.map(|to| to.into_known().policy))
            },
        });
    }

    fn settings<P: Properties>(&mut self) {}
}

/// Whether contexts may have policies on resources of this kind.
pub fn has_policies(resource: &str) -> bool {
    KINDS.iter().any(|kind| kind.of == resource)
}

pub(super) fn is_kind(aggregate_type: &str) -> bool {
    KINDS.iter().any(|kind| kind.name == aggregate_type)
}

/// Adds the policies of the read models, and the baselines from which the log is followed.
pub(super) async fn load(
    into: &mut HashMap<String, OfInstance>,
    baselines: &mut Vec<Baseline>,
    transaction: &Transaction<'_>,
    shard: u16,
) -> Result<(), DatabaseFailure> {
    for kind in KINDS.iter() {
        let read_model = ReadModel::new((kind.projection)(), shard);
        baselines.push(Baseline::of(transaction, (kind.projection)(), shard, &[kind.name]).await?);
        for stored in read_model.every(transaction, kind.name).await? {
            let (instance_id, found) = (stored.instance_id, stored.found);
            let Ok(policy) = (kind.read)(found.state) else {
                return Err(DatabaseFailure::Inconsistent { table: kind.name, instance_id, id: found.id });
            };
            let set = SetPolicy { policy, sequence: found.sequence, changed_at: found.changed_at };
            let (context, id) = (&found.owner, &found.id);
            put(into, PolicyOfContext { instance_id: &instance_id, context, kind: kind.name, id }, Some(set));
        }
    }
    Ok(())
}

/// Applies an event of a policy.
pub(super) fn apply(into: &mut HashMap<String, OfInstance>, recorded: &Recorded) {
    let event = &recorded.event;
    let Some(kind) = KINDS.iter().find(|kind| kind.name == event.aggregate_type) else { return };
    let (sequence, changed_at, owner) = (recorded.sequence, recorded.committed_at, recorded.owner());
    match (kind.apply)(recorded) {
        Ok(policy) => {
            let set = policy.map(|policy| SetPolicy { policy, sequence, changed_at });
            let (instance_id, context, id) = (&event.instance_id, &owner, &event.aggregate_id);
            put(into, PolicyOfContext { instance_id, context, kind: kind.name, id }, set);
        }
        Err(error) => {
            let (error, policy) = (explain(&error), kind.name);
            tracing::error!(error, policy, "an event cannot be read, and the policy stays as it was");
        }
    }
}

/// What identifies the policy of a context on a resource.
#[derive(Clone, Copy)]
struct PolicyOfContext<'a> {
    instance_id: &'a str,
    context: &'a Owner,
    kind: &'static str,
    /// The id of the policy.
    id: &'a str,
}

fn put(into: &mut HashMap<String, OfInstance>, policy: PolicyOfContext<'_>, set: Option<SetPolicy>) {
    let PolicyOfContext { instance_id, context, kind, id } = policy;
    let of_instance = into.entry(instance_id.to_owned()).or_default();
    let of_kinds = of_instance.entry(context.id.clone()).or_default();
    let of_context = Arc::make_mut(of_kinds.entry(kind).or_default());
    let resource_id = StatePolicy::<()>::resource_of(id);
    match set {
        // The log repeats what the read model had already.
        Some(set) if of_context.get(resource_id).is_some_and(|known| known.sequence >= set.sequence) => {}
        Some(set) => drop(of_context.insert(resource_id.to_owned(), set)),
        None => drop(of_context.remove(resource_id)),
    }
    if of_context.is_empty() {
        of_kinds.remove(kind);
    }
    if of_kinds.is_empty() {
        of_instance.remove(&context.id);
    }
    if of_instance.is_empty() {
        into.remove(instance_id);
    }
}

#[cfg(test)]
mod tests {
    use domain::resource::idp::Idp;

    use super::*;

    fn key(instance_id: &str, aggregate_type: &str, id: &str) -> AggregateKey {
        let [instance_id, aggregate_type, id] = [instance_id, aggregate_type, id].map(str::to_owned);
        AggregateKey { instance_id, aggregate_type, id }
    }

    #[test]
    fn policies_on_a_resource_are_named_in_their_order_an_instance_at_a_time() {
        let index = SettingsIndex::default();
        let set = Some(SetPolicy { policy: Policy::Deactivate, sequence: 1, changed_at: Timestamp::UNIX_EPOCH });
        for (instance, context, resource) in
            [("2", "21", "7"), ("1", "12", "7"), ("1", "11", "7"), ("1", "11", "8"), ("3", "31", "8")]
        {
            let (owner, id) = (Owner::organization(context), StatePolicy::<Idp>::id(resource, context));
            let policy = PolicyOfContext { instance_id: instance, context: &owner, kind: Idp::POLICY, id: &id };
            put(&mut index.contexts.write().unwrap().policies, policy, set);
        }
        let policy = |instance: &str, id: &str| key(instance, Idp::POLICY, id);
        let after =
            |after: Option<AggregateKey>, most| index.policies_on(&key("", Idp::NAME, "7"), after.as_ref(), most);
        let of_first = [policy("1", "7.11"), policy("1", "7.12")];
        assert_eq!(after(None, 9), of_first);
        assert_eq!(after(None, 1), of_first[..1]);
        assert_eq!(after(Some(policy("1", "7.11")), 9), of_first[1..]);
        assert_eq!(after(Some(policy("1", "7.12")), 9), [policy("2", "7.21")]);
        assert_eq!(after(Some(policy("2", "7.21")), 9), []);
        assert_eq!(index.policies_on(&key("", "target", "7"), None, 9), []);
    }
}
