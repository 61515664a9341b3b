//! The searches in the descriptors, so that nothing here is counted by hand.

use prost_reflect::{DescriptorPool, Kind};
use proto::operation::Facts;

use super::conformance::table;

/// An operation whose request has a field.
pub(super) struct Search {
    pub(super) facts: &'static Facts,
    /// The kind of objects that is searched, as in paths; `users/keys` are those of a user.
    pub(super) kind: String,
    /// The type of the field.
    pub(super) field: Kind,
}

impl Search {
    /// Returns the path of the search, below a holder where the path names one.
    pub(super) fn path(&self, holder: Option<&String>) -> String {
        under(self.facts.path, holder)
    }
}

/// Returns a path below a holder, where it names one.
pub(super) fn under(path: &str, holder: Option<&String>) -> String {
    let word = |word: &str| {
        let is_holder = word.starts_with('{') && word != "{id}";
        holder.filter(|_| is_holder).cloned().unwrap_or_else(|| word.to_owned())
    };
    path.split('/').map(word).collect::<Vec<_>>().join("/")
}

/// Returns the kind of objects of an operation, as in its path; `users/keys` are those of a user.
pub(super) fn kind(facts: &Facts) -> String {
    let mut words = facts.path.split('/').skip(3);
    let kind = words.next().unwrap_or_default().to_owned();
    let is_held = words.next().is_some_and(|word| word.starts_with('{') && word != "{id}");
    match words.next().filter(|_| is_held) {
        Some(held) => format!("{kind}/{held}"),
        None => kind,
    }
}

/// Returns all operations whose requests have this field.
pub(super) fn with_field(name: &str) -> Vec<Search> {
    let pool = DescriptorPool::decode(proto::DESCRIPTORS).expect("it was built from good files");
    let search = |facts: &'static Facts| {
        let service = pool.get_service_by_name(facts.service).expect("it is described");
        let method = service.methods().find(|method| method.name() == facts.method).expect("it is described");
        let kind = kind(facts);
        Some(Search { facts, kind, field: method.input().get_field_by_name(name)?.kind() })
    };
    let found: Vec<_> = table().iter().filter_map(|row| search(row.facts())).collect();
    assert!(!found.is_empty(), "{name} is a field of some request");
    found
}
