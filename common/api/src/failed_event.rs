//! Filters of failed events, from their wire form.

use domain::failed_event::Filter;
use jiff::Timestamp;
use proto::system::{FailedEventSearchFilter, FailedEventState, failed_event_search_filter};

/// Which of them are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    /// All of them hold.
    pub filters: Vec<Filter>,
    /// What became of them, where that is said.
    pub state: Option<State>,
}

/// What became of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// They wait.
    Failed,
    /// Somebody has asked for another try.
    Retrying,
    /// They were skipped.
    Discarded,
    /// More than one thing at once, as nothing is.
    Several,
}

/// The conditions that filters name.
pub fn wanted(filters: Vec<FailedEventSearchFilter>) -> Wanted {
    use failed_event_search_filter::Filter as By;
    let mut wanted = Wanted::default();
    for filter in filters.into_iter().filter_map(|filter| filter.filter) {
        wanted.filters.push(match filter {
            By::Id(text) => Filter::Id(id(&text)),
            By::ViewName(name) => Filter::View(name),
            By::InstanceId(id) => Filter::InstanceId(id),
            By::AggregateType(name) => Filter::AggregateType(name),
            By::AggregateId(id) => Filter::AggregateId(id),
            By::ErrorMessage(part) => Filter::Error(part),
            By::FailedFrom(at) => Filter::FailedFrom(microseconds(at)),
            By::FailedUntil(at) => Filter::FailedUntil(microseconds(at)),
            By::State(state) => {
                let state = state_of(state);
                let is_other = wanted.state.is_some_and(|known| known != state);
                wanted.state = Some(if is_other { State::Several } else { state });
                continue;
            }
        });
    }
    wanted
}

/// The id that a text names; one that none has where the text names none.
pub fn id(text: &str) -> u64 {
    // No event has the largest: ids have 63 bits.
    text.parse().unwrap_or(u64::MAX)
}

/// Validation has refused what is no time.
fn microseconds(at: proto::wellknown::Timestamp) -> i64 {
    Timestamp::try_from(at).map(Timestamp::as_microsecond).unwrap_or_default()
}

/// Validation has refused what is no state.
fn state_of(state: i32) -> State {
    match FailedEventState::try_from(state) {
        Ok(FailedEventState::Retrying) => State::Retrying,
        Ok(FailedEventState::Discarded) => State::Discarded,
        _ => State::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::{failed_event_search_filter::Filter as By, *};

    fn of<const N: usize>(filters: [By; N]) -> Wanted {
        wanted(filters.map(|filter| FailedEventSearchFilter { filter: Some(filter) }).to_vec())
    }

    #[test]
    fn what_is_no_id_finds_nothing() {
        assert_eq!(of([By::Id("x".into())]).filters, [Filter::Id(u64::MAX)]);
        assert_eq!(of([By::Id("7".into())]).filters, [Filter::Id(7)]);
    }

    #[test]
    fn a_state_is_no_condition_like_others_and_nothing_has_two() {
        let by = |state: FailedEventState| By::State(state.into());
        let (failed, discarded) = (by(FailedEventState::Failed), by(FailedEventState::Discarded));
        assert_eq!(of([failed.clone()]), Wanted { filters: vec![], state: Some(State::Failed) });
        assert_eq!(of([failed.clone(), failed.clone()]).state, Some(State::Failed));
        assert_eq!(of([failed, discarded]).state, Some(State::Several));
    }

    #[test]
    fn a_time_is_one_of_microseconds() {
        let at = proto::wellknown::Timestamp::from(Timestamp::from_microsecond(1_000_001).unwrap());
        assert_eq!(of([By::FailedFrom(at)]).filters, [Filter::FailedFrom(1_000_001)]);
    }
}
