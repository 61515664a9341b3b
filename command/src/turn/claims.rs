//! The claims that a command takes and releases.

use domain::{
    aggregate::Aggregate,
    context::OwnerType,
    rejection::Rejection,
    resource::{instance::Instance, organization::Organization},
    standard::Standard,
};
use eventlog::record::AggregateKey;
use view::history::ClaimHash;

use super::{Refusal, Turn};

impl Turn<'_> {
    /// Returns the changes of claims. A taken claim must be free, or be held by something of the same kind within what
    /// was removed; a released one is free from now on.
    pub(super) fn change_claims<A: Aggregate>(
        &mut self,
        key: &AggregateKey,
        before: &[ClaimHash],
        after: &[ClaimHash],
    ) -> Result<Vec<(ClaimHash, Option<AggregateKey>)>, Refusal> {
        let mut changes = vec![];
        for taken in after.iter().filter(|claim| !before.contains(claim)) {
            if let Some(holder) = self.holder(taken).filter(|holder| holder != key)
                && !self.is_gone::<A>(&holder)
            {
                return Err(Rejection::AlreadyExists(A::NAME).into());
            }
            changes.push((*taken, Some(key.clone())));
        }
        // A claim that fell to another one meanwhile, because all around this one was removed, stays with that.
        let released = before.iter().filter(|claim| !after.contains(claim));
        changes.extend(released.filter(|claim| self.holder(claim).as_ref() == Some(key)).map(|claim| (*claim, None)));
        Ok(changes)
    }

    /// Whether the instance or organization of an aggregate was removed; `false` if the command itself has written it.
    fn is_gone<A: Aggregate>(&mut self, key: &AggregateKey) -> bool {
        if key.aggregate_type != A::NAME || self.appended.iter().any(|appended| appended.key == *key) {
            return false;
        }
        let instance = AggregateKey::of::<Standard<Instance>>(&key.instance_id, &key.instance_id);
        let (instance, holder) = (self.get::<Standard<Instance>>(&instance), self.get::<A>(key));
        let organization = holder.head.owner.filter(|owner| owner.kind == OwnerType::Organization).map(|owner| {
            self.get::<Standard<Organization>>(&AggregateKey::of::<Standard<Organization>>(&key.instance_id, &owner.id))
        });
        instance.state.is_none() || organization.is_some_and(|organization| organization.state.is_none())
    }
}
