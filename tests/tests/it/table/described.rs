//! What the descriptors say of the searches that have a row in the table: nothing here is counted by hand.

use prost_reflect::{DescriptorPool, Kind};
use proto::operation::Facts;

use super::conformance::table;

/// An operation whose request has a field.
pub(super) struct Search {
    pub(super) facts: &'static Facts,
    /// What is searched for, as paths name it.
    pub(super) kind: &'static str,
    /// The type of the field.
    pub(super) field: Kind,
}

/// All operations whose requests have this field.
pub(super) fn with_field(name: &str) -> Vec<Search> {
    let pool = DescriptorPool::decode(proto::DESCRIPTORS).expect("it was built from good files");
    let search = |facts: &'static Facts| {
        let service = pool.get_service_by_name(facts.service).expect("it is described");
        let method = service.methods().find(|method| method.name() == facts.method).expect("it is described");
        let kind = facts.path.split('/').nth(3).unwrap_or_default();
        Some(Search { facts, kind, field: method.input().get_field_by_name(name)?.kind() })
    };
    let found: Vec<_> = table().iter().filter_map(|row| search(row.facts())).collect();
    assert!(!found.is_empty(), "{name} is a field of some request");
    found
}
