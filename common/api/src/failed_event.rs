//! Filters of failed events, from their wire form.

use domain::failed_event::Filter;
use jiff::Timestamp;
use proto::{
    object::TimestampFilterMethod,
    system::{FailedEventSearchFilter, FailedEventState, FailedEventTimeFilter, failed_event_search_filter},
};

/// No event has it: ids have 63 bits.
const NONE: Filter = Filter::Id(u64::MAX);

/// The conditions that filters name. All that is found has failed, and nothing else.
pub fn filters(filters: Vec<FailedEventSearchFilter>) -> Vec<Filter> {
    filters.into_iter().flat_map(conditions).collect()
}

/// The id that a text names; one that none has where the text names none.
pub fn id(text: &str) -> u64 {
    text.parse().unwrap_or(u64::MAX)
}

fn conditions(filter: FailedEventSearchFilter) -> Vec<Filter> {
    use failed_event_search_filter::Filter as Wanted;
    let Some(wanted) = filter.filter else { return vec![] };
    vec![match wanted {
        Wanted::Id(text) => Filter::Id(id(&text)),
        Wanted::ViewName(name) => Filter::View(name),
        Wanted::InstanceId(id) => Filter::InstanceId(id),
        Wanted::AggregateType(name) => Filter::AggregateType(name),
        Wanted::AggregateId(id) => Filter::AggregateId(id),
        Wanted::TargetId(id) => Filter::TargetId(id),
        Wanted::ErrorMessage(part) => Filter::Error(part),
        Wanted::LastFailed(wanted) => return times(&wanted),
        Wanted::State(state) if state == i32::from(FailedEventState::Failed) => return vec![],
        Wanted::State(_) => NONE,
    }]
}

/// What is told of a time counts microseconds, as Postgres does.
fn times(wanted: &FailedEventTimeFilter) -> Vec<Filter> {
    // Validation has refused what is no time.
    let at = wanted.last_failed.and_then(|at| Timestamp::try_from(at).ok()).unwrap_or_default().as_microsecond();
    let behind = at.saturating_add(1);
    match wanted.method() {
        TimestampFilterMethod::Equals => vec![Filter::FailedFrom(at), Filter::FailedBefore(behind)],
        TimestampFilterMethod::Greater => vec![Filter::FailedFrom(behind)],
        TimestampFilterMethod::GreaterOrEquals => vec![Filter::FailedFrom(at)],
        TimestampFilterMethod::Less => vec![Filter::FailedBefore(at)],
        TimestampFilterMethod::LessOrEquals => vec![Filter::FailedBefore(behind)],
    }
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

    #[test]
    fn a_time_is_one_of_microseconds() {
        use TimestampFilterMethod::{Equals, Greater, GreaterOrEquals, Less, LessOrEquals};
        let last_failed = Timestamp::from_microsecond(1_000_001).ok().map(Into::into);
        let (from, before) = (Filter::FailedFrom, Filter::FailedBefore);
        for (method, wanted) in [
            (Equals, vec![from(1_000_001), before(1_000_002)]),
            (Greater, vec![from(1_000_002)]),
            (GreaterOrEquals, vec![from(1_000_001)]),
            (Less, vec![before(1_000_001)]),
            (LessOrEquals, vec![before(1_000_002)]),
        ] {
            let by = FailedEventTimeFilter { last_failed, method: method.into() };
            let filter = Some(failed_event_search_filter::Filter::LastFailed(by));
            assert_eq!(filters(vec![FailedEventSearchFilter { filter }]), wanted);
        }
    }
}
