//! Bodies and query parameters, bound to the request of each operation.

use axum::response::IntoResponse;
use edge::{
    error::{Error, Reason},
    json::bind,
};
use proto::{
    operation::{Body, Facts},
    shape::{self as requests, Request, Visitor},
};
use serde_json::{Map, Value};
use tests::parts::Parts;

use crate::{json, mutate::mutate, random::Random, run::Target, shape};

/// The number of seeds for each operation.
const SEEDS: usize = 4;

/// A target for the method of an operation and, after a line feed, a body or a query.
pub(crate) struct Binding {
    of_bodies: bool,
    operations: Vec<Bound>,
}

/// An operation, with the function that parses its requests from query and body.
struct Bound {
    facts: &'static Facts,
    check: fn(&'static Facts, &str, &[u8]) -> String,
}

impl Binding {
    /// Returns the target for bodies.
    pub(crate) fn of_bodies() -> Self {
        Self { of_bodies: true, operations: operations() }
    }

    /// Returns the target for queries.
    pub(crate) fn of_queries() -> Self {
        let mut operations = operations();
        operations.retain(|operation| !operation.facts.parameters.is_empty());
        Self { of_bodies: false, operations }
    }

    fn bound(&self, method: &[u8]) -> Option<&Bound> {
        self.operations.iter().find(|bound| bound.facts.method.as_bytes() == method)
    }
}

impl Target for Binding {
    fn seeds(&mut self, random: &mut Random) -> Vec<Vec<u8>> {
        let mut seeds = vec![];
        for bound in &self.operations {
            for _ in 0..SEEDS {
                let parts = Parts::of(bound.facts, shape::message(bound.facts.request, random));
                let text = match (self.of_bodies, parts.body) {
                    (true, body) => body.map(|body| body.to_string()).unwrap_or_default(),
                    (false, _) => encoded(&parts.query),
                };
                seeds.push([bound.facts.method.as_bytes(), b"\n", text.as_bytes()].concat());
            }
        }
        seeds
    }

    fn mutate(&self, input: &mut Vec<u8>, other: &[u8], random: &mut Random) {
        let (method, text) = split(input);
        let (method, mut text, (_, other)) = (method.to_vec(), text.to_vec(), split(other));
        match serde_json::from_slice(&text) {
            Ok(mut tree) if self.of_bodies && !random.once_in(3) => {
                let other = serde_json::from_slice(other).unwrap_or_default();
                json::mutate(&mut tree, &other, &shape::WORDS, random);
                text.clear();
                json::print(&tree, random, &mut text);
            }
            _ => mutate(&mut text, other, &shape::WORDS, random),
        }
        *input = [&method, &b"\n"[..], &text].concat();
    }

    fn check(&mut self, input: &[u8]) -> String {
        let (method, text) = split(input);
        let Some(bound) = self.bound(method) else { return "no such operation".to_owned() };
        if self.of_bodies {
            return (bound.check)(bound.facts, "", text);
        }
        match std::str::from_utf8(text) {
            Ok(query) => (bound.check)(bound.facts, query, b""),
            Err(_) => "no URI".to_owned(),
        }
    }
}

fn split(input: &[u8]) -> (&[u8], &[u8]) {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    (&input[..end], input.get(end + 1..).unwrap_or_default())
}

fn encoded(query: &[(String, String)]) -> String {
    serde_urlencoded::to_string(query).expect("pairs of text can be encoded")
}

/// Returns every operation.
fn operations() -> Vec<Bound> {
    let mut all = All(vec![]);
    requests::visit(&mut all);
    all.0
}

struct All(Vec<Bound>);

impl Visitor for All {
    fn request<I: Request>(&mut self) {
        self.0.push(Bound { facts: &I::OPERATION.facts, check: check::<I> });
    }
}

/// Checks the invariant of every request: it is refused with a reportable error, or it is a message that survives being
/// written and parsed again.
fn check<I: Request>(facts: &'static Facts, query: &str, body: &[u8]) -> String {
    let names = facts.path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'));
    let path: Vec<_> = names.map(|name| (name, "7")).collect();
    let message: I = match bind(facts, path, Some(query), body) {
        Ok(message) => message,
        Err(error) => return refused(facts, error),
    };
    let decoded = I::decode(message.encode_to_vec().as_slice()).expect("what was encoded can be decoded");
    assert!(decoded == message, "{message:?} was encoded and decoded to {decoded:?}");
    let mut violations = vec![];
    message.validate("", &mut violations);
    if !violations.is_empty() {
        return refused(facts, Error::invalid(violations));
    }
    let Ok(Value::Object(fields)) = serde_json::to_value(&message) else {
        panic!("a valid message has a JSON form: {message:?}");
    };
    let Parts { path, query, body } = Parts::of(facts, fields.clone());
    let body = body.map(|body| body.to_string()).unwrap_or_default();
    let path = path.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let again: Result<I, _> = bind(facts, path, Some(&encoded(&query)), body.as_bytes());
    let again = again.unwrap_or_else(|error| panic!("{message:?} is not read again: {error}"));
    let Ok(Value::Object(again)) = serde_json::to_value(&again) else { panic!("{again:?} is an object") };
    let (fields, again) = (without_empty(facts, fields), without_empty(facts, again));
    assert_eq!(again, fields, "written and read again");
    let mut names = vec![];
    outline(&Value::Object(fields), "", &mut names);
    format!("{} {names:?}", facts.method)
}

/// Returns what an error is about, without words of the input.
fn refused(facts: &Facts, error: Error) -> String {
    let (reason, message) = (error.reason(), error.to_string());
    assert!(reason != Reason::Internal, "{message}");
    let response = error.into_response();
    assert!(response.status().is_client_error(), "{message} is answered with {}", response.status());
    let words = match reason {
        Reason::UnknownField | Reason::UnknownParameter => String::new(),
        _ => {
            message.split('"').step_by(2).flat_map(str::chars).filter(|char| !char.is_ascii_digit()).take(100).collect()
        }
    };
    format!("{} {} {words}", facts.method, reason.name())
}

/// Removes empty messages, which a query cannot distinguish from absent ones.
fn without_empty(facts: &Facts, fields: Map<String, Value>) -> Map<String, Value> {
    let is_body = |name: &str| match facts.body {
        Body::None => false,
        Body::Field { json_name, .. } => json_name == name,
    };
    let kept = |(name, value): (String, Value)| {
        if is_body(&name) { Some((name, value)) } else { Some((name, unless_empty(value)?)) }
    };
    fields.into_iter().filter_map(kept).collect()
}

fn unless_empty(value: Value) -> Option<Value> {
    match value {
        Value::Object(members) => {
            let members = members.into_iter().filter_map(|(name, value)| Some((name, unless_empty(value)?)));
            Some(members.collect::<Map<_, _>>()).filter(|members| !members.is_empty()).map(Value::Object)
        }
        value => Some(value),
    }
}

/// Collects the paths of all members.
fn outline(value: &Value, path: &str, names: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(name, member)| outline(member, &format!("{path}.{name}"), names));
        }
        Value::Array(items) => items.iter().take(3).for_each(|item| outline(item, path, names)),
        _ => names.push(path.to_owned()),
    }
}
