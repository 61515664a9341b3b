//! Finds everything that is wrong with a request that could not be read. Reading stops at the first fault, so faulty
//! parts are cut out of the tree, and the rest is read again.

use proto::Violation;
use serde_json::{Map, Value};

use super::{
    faults::{Fault, Faults, shortened_name},
    read::{self, Segment, Unread, field, within},
    snake_case,
};
use crate::error::{Error, FieldFault, Reason};

/// How often a request is read at most. Some faults need two or three readings.
const READINGS: usize = 60;
/// How many values are read in all: a large request is read less often, and fewer of its faults are reported.
const VALUES: usize = 100_000;

/// Returns everything that is wrong with a request that has a fault. `read` returns why it cannot be read, or which
/// rules it breaks.
pub(super) fn explain(
    mut request: Map<String, Value>,
    mut faults: Faults,
    read: impl Fn(Map<String, Value>) -> Result<Vec<Violation>, Unread>,
) -> Error {
    let size: usize = request.values().map(size).sum();
    let mut unset = vec![];
    for _ in 0..(VALUES / size.max(1)).clamp(1, READINGS) {
        match read(request.clone()) {
            Ok(violations) => {
                faults.add_rules(violations, &unset);
                break;
            }
            Err(unread) => {
                let nothing = unspecified_value(&unread).filter(|_| !unset.contains(&field(&unread.path)));
                let (fault, cut) = explain_unread(unread);
                faults.add(fault);
                let is_replaced = nothing.is_some_and(|nothing| replace(&mut request, &cut, &nothing));
                if is_replaced {
                    unset.push(field(&cut));
                }
                if faults.are_enough() || !is_replaced && !remove(&mut request, &cut) {
                    break;
                }
            }
        }
    }
    faults.into_error()
}

/// How many values a value holds, including itself.
fn size(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(size).sum::<usize>(),
        Value::Object(members) => 1 + members.values().map(size).sum::<usize>(),
        _ => 1,
    }
}

/// Returns the fault, and the path that has to be cut out for the rest to be read.
fn explain_unread(Unread { mut path, why }: Unread) -> (Fault, Vec<Segment>) {
    match why {
        read::Fault::Unknown(name) => {
            // The path ends with the name already.
            path.pop();
            let field = FieldFault::unknown(field(&path), shortened_name(&name), "is not a field of the request");
            path.push(Segment::Member(name));
            let field = field.worded("there is no field ", "");
            (Fault { reason: Reason::UnknownField, field, path_as: Some("field") }, path)
        }
        read::Fault::Twice(name) => {
            let fault = Fault::invalid(within(&field(&path), &snake_case(&name)), read::ONCE);
            path.push(Segment::Member(name));
            (fault, path)
        }
        read::Fault::Value(rule) => (Fault::invalid(field(&path), rule), path),
    }
}

/// The unspecified value of an enumeration that could not be read: only rules know whether a field may have it.
fn unspecified_value(unread: &Unread) -> Option<String> {
    let read::Fault::Value(rule) = &unread.why else { return None };
    let first = rule.strip_prefix(read::ONE_OF)?.split(", ").next()?;
    first.ends_with("_UNSPECIFIED").then(|| first.to_owned())
}

/// Replaces a value by a text; `false` if it does not exist.
fn replace(request: &mut Map<String, Value>, path: &[Segment], by: &str) -> bool {
    let Some((Segment::Member(key), rest)) = path.split_first() else { return false };
    let Some(mut node) = member(request, key) else { return false };
    for segment in rest {
        let next = match (node, segment) {
            (Value::Object(members), Segment::Member(key)) => member(members, key),
            (Value::Array(items), Segment::Item(index)) => items.get_mut(*index),
            _ => None,
        };
        let Some(next) = next else { return false };
        node = next;
    }
    *node = Value::String(by.to_owned());
    true
}

/// The last member that is this field, in either spelling.
fn member<'a>(members: &'a mut Map<String, Value>, name: &str) -> Option<&'a mut Value> {
    let name = snake_case(name);
    let key = members.keys().rfind(|key| snake_case(key) == name).cloned()?;
    members.get_mut(&key)
}

/// Removes a value from a tree; `false` if it does not exist. An item of an array is replaced instead, so that later
/// ones keep their indexes: by another value that may be readable, and if that was not, the array is removed.
fn remove(request: &mut Map<String, Value>, path: &[Segment]) -> bool {
    let Some((last, parents)) = path.split_last() else { return false };
    let (Some(Segment::Member(key)), rest) = (parents.first(), parents.get(1..).unwrap_or_default()) else {
        return matches!(last, Segment::Member(key) if take(request, key));
    };
    let Some(mut node) = request.get_mut(key) else { return false };
    for segment in rest {
        let next = match segment {
            Segment::Member(key) => node.get_mut(key),
            Segment::Item(index) => node.get_mut(index),
        };
        let Some(next) = next else { return false };
        node = next;
    }
    match (node, last) {
        (Value::Object(members), Segment::Member(key)) => take(members, key),
        (Value::Array(items), Segment::Item(index)) => match items.get_mut(*index) {
            Some(item) => match replacement(item) {
                Some(other) => {
                    *item = other;
                    true
                }
                None => remove(request, parents),
            },
            None => false,
        },
        _ => remove(request, parents),
    }
}

fn replacement(item: &Value) -> Option<Value> {
    match item {
        Value::Object(members) if members.is_empty() => Some(Value::String(String::new())),
        Value::String(text) if text.is_empty() => None,
        _ => Some(Value::Object(Map::new())),
    }
}

/// Removes the last member that is this field, in either spelling.
fn take(members: &mut Map<String, Value>, name: &str) -> bool {
    let name = snake_case(name);
    let key = members.keys().rfind(|key| snake_case(key) == name).cloned();
    key.is_some_and(|key| members.remove(&key).is_some())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde_json::json;

    use super::*;

    #[test]
    fn an_item_becomes_an_object_then_a_text_and_then_its_array_goes() {
        for (item, other) in [
            (json!(5), Some(json!({}))),
            (json!("x"), Some(json!({}))),
            (json!({ "a": 1 }), Some(json!({}))),
            (json!({}), Some(json!(""))),
            (json!(""), None),
        ] {
            assert_eq!(replacement(&item), other, "{item}");
        }
    }

    #[test]
    fn what_says_nothing_takes_the_place_of_what_cannot_be_read() {
        let key = |key: &str| Segment::Member(key.to_owned());
        let replaced = |path: &[Segment]| {
            let mut request = Map::from_iter([("appTypes".to_owned(), json!([{ "kind": 5 }, 6]))]);
            replace(&mut request, path, "NONE").then_some(Value::Object(request))
        };
        let at = |index: usize| Segment::Item(index);
        assert_eq!(replaced(&[key("app_types")]), Some(json!({ "appTypes": "NONE" })));
        assert_eq!(replaced(&[key("appTypes"), at(1)]), Some(json!({ "appTypes": [{ "kind": 5 }, "NONE"] })));
        let kind = [key("appTypes"), at(0), key("kind")];
        assert_eq!(replaced(&kind), Some(json!({ "appTypes": [{ "kind": "NONE" }, 6] })));
        for path in [&[][..], &[at(0)], &[key("other")], &[key("appTypes"), at(7)], &[key("appTypes"), key("kind")]] {
            assert_eq!(replaced(path), None, "{path:?}");
        }
    }

    #[test]
    fn what_is_cut_out_is_found_in_either_spelling_and_what_is_not_there_is_not_cut() {
        let key = |key: &str| Segment::Member(key.to_owned());
        let at = |index: usize| Segment::Item(index);
        let cut = |path: &[Segment]| {
            let mut request = Map::from_iter([
                ("filters".to_owned(), json!([{ "inIds": { "ids": ["a", ""] } }, 5])),
                ("sortingColumn".to_owned(), json!("x")),
            ]);
            remove(&mut request, path).then_some(Value::Object(request))
        };
        let left = |filters: Value| Some(json!({ "filters": filters, "sortingColumn": "x" }));
        assert_eq!(cut(&[key("sorting_column")]).unwrap().as_object().map(Map::len), Some(1));
        assert_eq!(cut(&[key("filters"), at(1)]), left(json!([{ "inIds": { "ids": ["a", ""] } }, {}])));
        assert_eq!(cut(&[key("filters"), at(0), key("in_ids")]), left(json!([{}, 5])));
        let ids = |index: usize| [key("filters"), at(0), key("inIds"), key("ids"), at(index)];
        assert_eq!(cut(&ids(0)), left(json!([{ "inIds": { "ids": [{}, ""] } }, 5])));
        assert_eq!(cut(&ids(1)), left(json!([{ "inIds": {} }, 5])));
        assert_eq!(cut(&ids(2)), None);
        for path in
            [&[][..], &[key("query")], &[key("query"), key("limit")], &[key("filters"), at(7), key("a")], &[at(0)]]
        {
            assert_eq!(cut(path), None, "{path:?}");
        }
        // What is within a text is cut out with it.
        assert_eq!(cut(&[key("sortingColumn"), key("a")]).unwrap().as_object().map(Map::len), Some(1));
    }

    /// Returns how often a request is read whose members are all wrong.
    fn readings(request: &Map<String, Value>) -> usize {
        let readings = Cell::new(0);
        let read = |left: Map<String, Value>| {
            readings.set(readings.get() + 1);
            let key = left.keys().next().cloned().unwrap_or_default();
            Err(Unread { path: vec![Segment::Member(key)], why: read::Fault::Value("is wrong".into()) })
        };
        explain(request.clone(), Faults::default(), read);
        readings.get()
    }

    #[test]
    fn every_value_counts_with_those_inside() {
        assert_eq!([json!(1), json!([]), json!({}), json!([1, { "a": [2] }])].map(|value| size(&value)), [1, 1, 1, 5]);
    }

    #[test]
    fn a_fault_is_its_text() {
        let faults = [read::Fault::Unknown("a".into()), read::Fault::Twice("b".into()), read::Fault::Value("c".into())];
        assert_eq!(faults.map(|fault| fault.to_string()), ["a", "b", "c"]);
    }

    #[test]
    fn a_large_request_is_read_less_often() {
        let of = |items: usize| {
            let member = |number: usize| (format!("member_{number}"), json!(vec![0; items]));
            (0..10).map(member).collect::<Map<_, _>>()
        };
        assert_eq!([0, 999, 2499, 4999, 20_000].map(|items| readings(&of(items))), [11, 10, 4, 2, 1]);
    }
}
