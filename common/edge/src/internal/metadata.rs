//! Limits of an internal command on the metadata of a user: each entry as the API accepts it, and not many of them.

use std::collections::HashSet;

use domain::resource::user_metadata::value_fault;
use proto::{
    bus::{MetadataEntry, PutMetadata},
    metadata::{Metadata, PutUserMetadataRequest},
    validate::{Rule, Validate},
};

/// How many entries a command may have.
const MOST_ENTRIES: usize = 50;
/// The most that keys and values may have together, in bytes, so that they fit in a record of the log when encrypted.
const LARGEST_METADATA: usize = 64 * 1024;

/// Returns the rule that a command breaks, phrased to follow what it is about.
pub fn metadata_fault(PutMetadata { user_id, entries, .. }: &PutMetadata) -> Option<String> {
    if !(1..=MOST_ENTRIES).contains(&entries.len()) {
        return Some(format!("must have 1 to {MOST_ENTRIES} entries"));
    }
    let sizes = entries.iter().map(|MetadataEntry { key, value }| key.len() + value.len());
    if sizes.sum::<usize>() > LARGEST_METADATA {
        return Some(format!("must have at most {LARGEST_METADATA} bytes in all"));
    }
    let mut keys = HashSet::new();
    if !entries.iter().all(|entry| keys.insert(&entry.key)) {
        return Some("must not have duplicate keys".to_owned());
    }
    entries.iter().find_map(|entry| entry_fault(user_id, entry))
}

/// Returns the rule of the API that an entry breaks.
fn entry_fault(user_id: &str, MetadataEntry { key, value }: &MetadataEntry) -> Option<String> {
    let metadata = Some(Metadata { value: value.clone() });
    let request = PutUserMetadataRequest { id: key.clone(), user_id: user_id.to_owned(), metadata };
    let mut violations = vec![];
    request.validate("", &mut violations);
    let of_request = violations.into_iter().next().map(|violation| match violation.rule {
        Rule::Text(rule) => format!("{} {rule}", violation.field),
        Rule::OneOf(members) => Rule::one_of(members),
    });
    of_request.or_else(|| value_fault(value).map(|rule| format!("metadata.value {rule}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault_of(entries: &[(&str, &str)]) -> Option<String> {
        let entry = |(key, value): &(&str, &str)| MetadataEntry { key: (*key).to_owned(), value: (*value).to_owned() };
        metadata_fault(&PutMetadata { user_id: "7".into(), entries: entries.iter().map(entry).collect(), depth: 0 })
    }

    #[test]
    fn an_entry_is_what_the_api_takes() {
        let longest = "x".repeat(16 * 1024);
        assert_eq!(fault_of(&[("plan", "gold"), ("empty", ""), ("long", &longest)]), None);
        let (long_key, too_long, wide) = ("k".repeat(201), format!("{longest}x"), "\u{e4}".repeat(8 * 1024 + 1));
        for (key, value) in [
            ("", "a"),
            (".a", "a"),
            ("_a", "a"),
            ("a\u{1}", "a"),
            (&long_key, "a"),
            ("a", &too_long),
            ("a", &wide),
            ("a", "\0"),
        ] {
            assert!(fault_of(&[(key, value)]).is_some(), "{key:?}");
        }
    }

    #[test]
    fn there_are_not_many_and_each_key_once() {
        assert_eq!(fault_of(&[]).as_deref(), Some("must have 1 to 50 entries"));
        let keys: Vec<String> = (0..=MOST_ENTRIES).map(|index| format!("key-{index}")).collect();
        let entries: Vec<_> = keys.iter().map(|key| (key.as_str(), "a")).collect();
        assert_eq!(fault_of(&entries[1..]), None);
        assert_eq!(fault_of(&entries).as_deref(), Some("must have 1 to 50 entries"));
        assert_eq!(fault_of(&[("a", "1"), ("a", "1")]).as_deref(), Some("must not have duplicate keys"));
        let value = "x".repeat(16 * 1024);
        let large: Vec<_> = ["a", "b", "c", "d"].iter().map(|key| (*key, value.as_str())).collect();
        assert_eq!(fault_of(&large).as_deref(), Some("must have at most 65536 bytes in all"));
    }
}
