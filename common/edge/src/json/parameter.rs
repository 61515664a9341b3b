//! Query parameters: leaf fields of the request by their dotted path.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use proto::operation::{Kind, Parameter};
use serde_json::{Map, Value};

use super::{
    faults::{Fault, Faults, shortened_name},
    snake_case,
};
use crate::error::{FieldFault, Reason};

/// Adds the parameters of a query string to a request, and their faults to the others.
pub(super) fn add(known: &[Parameter], query: &str, request: &mut Map<String, Value>, faults: &mut Faults) {
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if let Err(fault) = parameter(known, name, value, request) {
            faults.add(fault);
        }
        if faults.are_enough() {
            return;
        }
    }
}

fn parameter(known: &[Parameter], name: &str, value: &str, request: &mut Map<String, Value>) -> Result<(), Fault> {
    let (Some(decoded), Some(value)) = (decode(name), decode(value)) else { return Err(not_utf8(name)) };
    let path = snake_case(&decoded);
    let parameter = known.iter().find(|parameter| parameter.path == path).ok_or_else(|| unknown(&decoded))?;
    place(request, parameter, json(parameter.kind, value.into_owned()))
}

fn decode(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('+') {
        return percent_decode_str(text).decode_utf8().ok();
    }
    let text = text.replace('+', " ");
    percent_decode_str(&text).decode_utf8().ok().map(|text| Cow::Owned(text.into_owned()))
}

/// Converts a value to what a body would have. What does not fit stays text, and is refused when it is read.
fn json(kind: Kind, text: String) -> Value {
    match (kind, text.as_str()) {
        (Kind::Bool, "true") => Value::Bool(true),
        (Kind::Bool, "false") => Value::Bool(false),
        (Kind::Enum, number) => number.parse::<i32>().map_or_else(|_| Value::String(text), Value::from),
        // A number may be text in JSON.
        _ => Value::String(text),
    }
}

fn place(request: &mut Map<String, Value>, parameter: &Parameter, value: Value) -> Result<(), Fault> {
    let twice = || {
        let field = FieldFault::new(parameter.path, "must be given once");
        fault(Reason::InvalidParameter, field.worded("the parameter ", " must be given once"))
    };
    let mut members = request;
    let mut path = parameter.path;
    while let Some((parent, rest)) = path.split_once('.') {
        let nested = members.entry(parent).or_insert_with(|| Value::Object(Map::new()));
        members = nested.as_object_mut().ok_or_else(twice)?;
        path = rest;
    }
    if !parameter.repeated {
        return if members.insert(path.to_owned(), value).is_some() { Err(twice()) } else { Ok(()) };
    }
    let items = members.entry(path).or_insert_with(|| Value::Array(Vec::new()));
    items.as_array_mut().ok_or_else(twice)?.push(value);
    Ok(())
}

fn unknown(name: &str) -> Fault {
    let field = FieldFault::unknown(String::new(), shortened_name(name), "is not a parameter of the operation");
    fault(Reason::UnknownParameter, field.worded("there is no query parameter \"", "\" here"))
}

fn not_utf8(name: &str) -> Fault {
    let field = FieldFault::unknown(String::new(), shortened_name(name), "must be percent-encoded UTF-8");
    fault(Reason::InvalidParameter, field.worded_plainly("the query must be percent-encoded UTF-8"))
}

fn fault(reason: Reason, field: FieldFault) -> Fault {
    Fault { reason, field, path_as: Some("parameter") }
}
