//! Converts filters of failed events from the API.

use domain::failed_event::{Filter, State};
use jiff::Timestamp;
use proto::{
    object::TimestampFilterMethod,
    system::{
        FailedEventSearchFilter, FailedEventState, FailedEventTimeFilter, PersonalMember, PersonalMemberState,
        failed_event_search_filter::Filter as By,
    },
};
use view::persons::Seal;

/// Matches no event: ids have 63 bits.
const NONE: Filter = Filter::Id(u64::MAX);

/// The failed events that are requested.
#[derive(Debug, PartialEq, Eq)]
pub struct FailedEventQuery {
    /// The filters, all of which must match.
    pub filters: Vec<Filter>,
    /// Their state; `None` for all that were not discarded.
    pub state: Option<State>,
}

/// The states of failed events in the core and in the API.
const STATES: [(State, FailedEventState); 3] = [
    (State::Failed, FailedEventState::Failed),
    (State::Retrying, FailedEventState::Retrying),
    (State::Discarded, FailedEventState::Discarded),
];

/// Converts a state to the API.
pub fn state(state: State) -> FailedEventState {
    STATES.into_iter().find(|(known, _)| *known == state).map_or_else(Default::default, |(_, wire)| wire)
}

/// Converts filters of the API. Discarded events are only found if that state is requested; two different states match
/// nothing.
pub fn query(filters: Vec<FailedEventSearchFilter>) -> FailedEventQuery {
    let state = |filter: &FailedEventSearchFilter| match filter.filter {
        Some(By::State(state)) => STATES.into_iter().find(|(_, wire)| i32::from(*wire) == state),
        _ => None,
    };
    let states: Vec<_> = filters.iter().filter_map(state).map(|(state, _)| state).collect();
    let state = states.first().copied();
    let none = states.iter().any(|other| Some(*other) != state).then_some(NONE);
    FailedEventQuery { filters: filters.into_iter().flat_map(conditions).chain(none).collect(), state }
}

/// Like [`query`], for events to retry: only those that wait for a decision can be.
pub fn to_retry(filters: Vec<FailedEventSearchFilter>) -> FailedEventQuery {
    let FailedEventQuery { mut filters, state } = query(filters);
    filters.extend(state.filter(|state| *state != State::Failed).map(|_| NONE));
    FailedEventQuery { filters, state }
}

/// Converts the state of sealed members, by their paths.
pub fn personal(members: Vec<(String, Seal)>) -> Vec<PersonalMember> {
    let state = |seal| match seal {
        Seal::Opened => PersonalMemberState::Shown,
        Seal::Erased => PersonalMemberState::Erased,
        Seal::Damaged => PersonalMemberState::Damaged,
        Seal::KeyLost => PersonalMemberState::KeyLost,
    };
    members.into_iter().map(|(path, seal)| PersonalMember { path, state: state(seal).into() }).collect()
}

/// Parses an id; a text that is not an id results in one that no event has.
pub fn id(text: &str) -> u64 {
    text.parse().unwrap_or(u64::MAX)
}

fn conditions(filter: FailedEventSearchFilter) -> Vec<Filter> {
    let Some(wanted) = filter.filter else { return vec![] };
    vec![match wanted {
        By::Id(text) => Filter::Id(id(&text)),
        By::ViewName(name) => Filter::View(name),
        By::InstanceId(id) => Filter::InstanceId(id),
        By::AggregateType(name) => Filter::AggregateType(name),
        By::AggregateId(id) => Filter::AggregateId(id),
        By::TargetId(id) => Filter::TargetId(id),
        By::ErrorMessage(part) => Filter::Error(part),
        By::LastFailed(wanted) => return times(&wanted),
        By::State(_) => return vec![],
    }]
}

/// Times are compared in microseconds, as Postgres stores them.
fn times(wanted: &FailedEventTimeFilter) -> Vec<Filter> {
    // Validation has refused invalid times.
    let at = wanted.last_failed.and_then(|at| Timestamp::try_from(at).ok()).unwrap_or_default().as_microsecond();
    let next = at.saturating_add(1);
    match wanted.method() {
        TimestampFilterMethod::Equals => vec![Filter::FailedFrom(at), Filter::FailedBefore(next)],
        TimestampFilterMethod::Greater => vec![Filter::FailedFrom(next)],
        TimestampFilterMethod::GreaterOrEquals => vec![Filter::FailedFrom(at)],
        TimestampFilterMethod::Less => vec![Filter::FailedBefore(at)],
        TimestampFilterMethod::LessOrEquals => vec![Filter::FailedBefore(next)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<const N: usize>(filters: [By; N]) -> FailedEventQuery {
        query(filters.map(|filter| FailedEventSearchFilter { filter: Some(filter) }).to_vec())
    }

    #[test]
    fn what_is_no_id_finds_nothing() {
        assert_eq!(of([By::Id("x".into())]).filters, [NONE]);
        assert_eq!(of([By::Id("7".into())]).filters, [Filter::Id(7)]);
    }

    #[test]
    fn what_waits_and_what_was_discarded_are_found_apart() {
        let by = |state: FailedEventState| By::State(state.into());
        let (failed, discarded) = (by(FailedEventState::Failed), by(FailedEventState::Discarded));
        let all = |state| FailedEventQuery { filters: vec![], state };
        assert_eq!(of([]), all(None));
        assert_eq!(of([failed.clone(), failed.clone()]), all(Some(State::Failed)));
        assert_eq!(of([discarded.clone()]), all(Some(State::Discarded)));
        assert_eq!(of([failed.clone(), discarded.clone()]).filters, [NONE]);
        let retried = |by| to_retry(vec![FailedEventSearchFilter { filter: Some(by) }]).filters;
        assert_eq!(retried(failed), []);
        assert_eq!(retried(discarded), [NONE]);
        assert_eq!(retried(by(FailedEventState::Retrying)), [NONE]);
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
            assert_eq!(of([By::LastFailed(by)]).filters, wanted);
        }
    }
}
