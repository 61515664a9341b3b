//! Names of events.

/// Returns the name of an event without its aggregate, for example `added` of `target.added`.
pub fn short_name<'a>(aggregate: &str, event_type: &'a str) -> Option<&'a str> {
    event_type.strip_prefix(aggregate)?.strip_prefix('.')
}

#[cfg(test)]
mod tests {
    use super::short_name;

    #[test]
    fn a_foreign_event_has_no_short_name() {
        assert_eq!(short_name("target", "target.added"), Some("added"));
        assert_eq!(short_name("target", "target_group.added"), None);
    }
}
