//! How many objects of a kind an instance or an organization may have: counted in history, decided in the turn.

use domain::{
    aggregate::Aggregate,
    context::{Owner, OwnerType},
    reference::Reference,
};
use edge::error::{Error, Reason};
use view::history::{Counted, Referred};

use super::{Appended, Refusal, Turn, key_of};

impl Turn<'_> {
    /// Refuses to create one more object of a kind than may belong to an instance or organization.
    pub(crate) fn permit_one_more<A: Aggregate>(&mut self, instance_id: &str, owner: &Owner) -> Result<(), Refusal> {
        let (Some(limit), Some(named)) = (self.limits.of(A::NAME), Reference::to_owner(owner)) else { return Ok(()) };
        let referred = Referred { key: key_of(instance_id, &named), link: named.link.name.to_owned() };
        let counted = Counted { referred, aggregate_type: A::NAME.to_owned() };
        if self.number_of(&counted) < limit {
            return Ok(());
        }
        self.memory.count_anew(&counted);
        let context = if owner.kind == OwnerType::Organization { "organization" } else { "instance" };
        let message = format!(
            "the {context} has {limit} objects of the kind {}, and may have no more: remove some, or ask the operator of \
             the platform for a higher limit",
            A::NAME,
        );
        let error = Error::new(Reason::ObjectLimit, message);
        Err(error.with("resource", A::NAME).with("limit", limit.to_string()).into())
    }

    /// Returns how many there are, with what the command itself has created and removed.
    fn number_of(&mut self, counted: &Counted) -> u64 {
        let Some(there) = self.memory.number_of(counted) else {
            self.missing.counts.push(counted.clone());
            return 0;
        };
        let own = self.appended.iter().filter(|appended| appended.key.aggregate_type == counted.aggregate_type);
        counted.after(there, own.flat_map(Appended::reference_changes))
    }
}
