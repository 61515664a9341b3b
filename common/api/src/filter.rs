//! Converts filters that several resources have from the API to the index.

use domain::column::Column;
use index::{Filter, Method};
use proto::object::{NameFilter, State, TextFilterMethod};

/// Returns a filter for a name in a column.
pub fn named<R>(column: &'static Column<R>, wanted: NameFilter) -> Filter<R> {
    let (method, ignores_case) = method(wanted.method());
    Filter::Text { column, method, ignores_case, text: wanted.name }
}

/// Returns a filter for a word in a column that has a space before and after each word; words contain none.
pub fn contains_word<R>(column: &'static Column<R>, word: &str) -> Filter<R> {
    if word.contains(' ') {
        return Filter::Ids(vec![]);
    }
    Filter::text(column, Method::Contains, format!(" {word} "))
}

/// Returns a filter for what is active, or inactive.
pub fn in_state<R>(is_active: &'static Column<R>, state: State) -> Filter<R> {
    Filter::Is { column: is_active, value: state == State::EffectiveStateActive }
}

/// Converts a state to the API.
pub fn state(is_active: bool) -> State {
    if is_active { State::EffectiveStateActive } else { State::EffectiveStateInactive }
}

/// Converts a method to how a text is compared, and whether case is ignored.
pub fn method(method: TextFilterMethod) -> (Method, bool) {
    match method {
        TextFilterMethod::Equals => (Method::Equals, false),
        TextFilterMethod::EqualsIgnoreCase => (Method::Equals, true),
        TextFilterMethod::StartsWith => (Method::StartsWith, false),
        TextFilterMethod::StartsWithIgnoreCase => (Method::StartsWith, true),
        TextFilterMethod::Contains => (Method::Contains, false),
        TextFilterMethod::ContainsIgnoreCase => (Method::Contains, true),
        TextFilterMethod::EndsWith => (Method::EndsWith, false),
        TextFilterMethod::EndsWithIgnoreCase => (Method::EndsWith, true),
    }
}

#[cfg(test)]
mod tests {
    use domain::resource::organization::column::IS_ACTIVE;

    use super::*;

    #[test]
    fn a_state_is_said_and_found_by_whether_something_is_active() {
        for (is_active, said) in [(true, State::EffectiveStateActive), (false, State::EffectiveStateInactive)] {
            assert_eq!(state(is_active), said);
            assert!(matches!(in_state(&IS_ACTIVE, said), Filter::Is { value, .. } if value == is_active));
        }
    }
}
