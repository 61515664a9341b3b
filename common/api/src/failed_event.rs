//! Filters of failed events, from their wire form.

use domain::failed_event::Filter;
use proto::system::{FailedEventSearchFilter, FailedEventState, failed_event_search_filter};

/// No event has it: ids have 63 bits.
const NONE: Filter = Filter::Id(u64::MAX);

/// The conditions that filters name. All that is found has failed, and nothing else.
pub fn filters(filters: Vec<FailedEventSearchFilter>) -> Vec<Filter> {
    filters.into_iter().filter_map(filter).collect()
}

/// The id that a text names; one that none has where the text names none.
pub fn id(text: &str) -> u64 {
    text.parse().unwrap_or(u64::MAX)
}

fn filter(filter: FailedEventSearchFilter) -> Option<Filter> {
    use failed_event_search_filter::Filter as Wanted;
    Some(match filter.filter? {
        Wanted::Id(text) => Filter::Id(id(&text)),
        Wanted::ViewName(name) => Filter::View(name),
        Wanted::InstanceId(id) => Filter::InstanceId(id),
        Wanted::AggregateType(name) => Filter::AggregateType(name),
        Wanted::AggregateId(id) => Filter::AggregateId(id),
        Wanted::State(state) if state == i32::from(FailedEventState::Failed) => return None,
        Wanted::State(_) => NONE,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_failed_and_what_is_no_id_finds_nothing() {
        let state = |state: FailedEventState| failed_event_search_filter::Filter::State(state.into());
        let of = |filter| filters(vec![FailedEventSearchFilter { filter: Some(filter) }]);
        assert_eq!(of(state(FailedEventState::Failed)), []);
        assert_eq!(of(state(FailedEventState::Discarded)), [NONE]);
        assert_eq!(of(failed_event_search_filter::Filter::Id("x".into())), [NONE]);
        assert_eq!(of(failed_event_search_filter::Filter::Id("7".into())), [Filter::Id(7)]);
    }
}
