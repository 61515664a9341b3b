//! Query parameters: leaf fields of the request by their dotted path.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use proto::operation::{Kind, Parameter};
use serde_json::{Map, Value};

use super::snake_case;
use crate::error::{Error, Reason};

/// Adds the parameters of a query string to a request.
pub(super) fn add(known: &[Parameter], query: &str, request: &mut Map<String, Value>) -> Result<(), Error> {
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (decode(name)?, decode(value)?);
        let path = snake_case(&name);
        let parameter = known.iter().find(|parameter| parameter.path == path).ok_or_else(|| unknown(&name))?;
        place(request, parameter, json(parameter.kind, value.into_owned()))?;
    }
    Ok(())
}

fn decode(text: &str) -> Result<Cow<'_, str>, Error> {
    let decoded = percent_decode_str(text).decode_utf8();
    if !text.contains('+') {
        return decoded.map_err(|_| not_utf8());
    }
    let text = text.replace('+', " ");
    percent_decode_str(&text).decode_utf8().map(|text| Cow::Owned(text.into_owned())).map_err(|_| not_utf8())
}

/// The value as a body would have it. What does not fit is left as text, for the reading of the message to refuse.
fn json(kind: Kind, text: String) -> Value {
    match (kind, text.as_str()) {
        (Kind::Bool, "true") => Value::Bool(true),
        (Kind::Bool, "false") => Value::Bool(false),
        (Kind::Enum, number) => number.parse::<i32>().map_or_else(|_| Value::String(text), Value::from),
        // A number may be text in JSON.
        _ => Value::String(text),
    }
}

fn place(request: &mut Map<String, Value>, parameter: &Parameter, value: Value) -> Result<(), Error> {
    let twice = || {
        let message = format!("the parameter {} must be given once", parameter.path);
        Error::new(Reason::InvalidParameter, message).with("parameter", parameter.path)
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

fn unknown(name: &str) -> Error {
    let message = format!("there is no query parameter {name:?} here");
    Error::new(Reason::UnknownParameter, message).with("parameter", name)
}

fn not_utf8() -> Error {
    Error::new(Reason::InvalidParameter, "the query must be percent-encoded UTF-8")
}
