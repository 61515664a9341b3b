//! The binding of HTTP requests to request messages (google.api.http).
//!
//! Path, query and body are first put together as one tree of JSON values, never as text, so that no part can smuggle
//! in another; the tree is then read as the message.

mod explain;
mod faults;
mod parameter;
mod read;
mod tree;

use proto::{
    Validate, Violation,
    operation::{Body, Facts, Verb},
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use self::faults::Faults;
pub(crate) use self::read::{Unread, message};
use crate::error::{Error, FieldFault, Reason};

/// Reads a request message from the parts of an HTTP request. If it cannot be read, the error names everything that is
/// wrong, including broken rules; a message that can be read may still break some.
pub fn bind<'a, I: DeserializeOwned + Validate>(
    facts: &Facts,
    path: impl IntoIterator<Item = (&'a str, &'a str)> + Clone,
    query: Option<&str>,
    body: &[u8],
) -> Result<I, Error> {
    let violations = |message: &mut I| {
        let mut violations = Vec::new();
        message.validate("", &mut violations);
        violations
    };
    bind_with(facts, RequestParts { path, query, body }, message, violations)
}

/// The parts of an HTTP request that a message is read from.
pub(crate) struct RequestParts<'a, P> {
    /// The variables of the path, each with its name.
    pub(crate) path: P,
    pub(crate) query: Option<&'a str>,
    pub(crate) body: &'a [u8],
}

/// Binds a request like [`bind`], with functions that read the message and find the rules that it breaks.
pub(crate) fn bind_with<'a, M>(
    facts: &Facts,
    sent: RequestParts<'_, impl IntoIterator<Item = (&'a str, &'a str)> + Clone>,
    read: impl Fn(Map<String, Value>) -> Result<M, Unread>,
    violations: impl Fn(&mut M) -> Vec<Violation>,
) -> Result<M, Error> {
    let (request, faults) = tree(facts, sent.path.clone(), sent.query, sent.body)?;
    if faults.are_none()
        && let Ok(message) = read(request)
    {
        return Ok(message);
    }
    // Reading has consumed the tree.
    let (request, faults) = tree(facts, sent.path, sent.query, sent.body)?;
    Err(explain::explain(request, faults, |tree| read(tree).map(|mut message| violations(&mut message))))
}

/// Joins path, query and body to one tree, and returns what is wrong with the first two.
fn tree<'a>(
    facts: &Facts,
    path: impl IntoIterator<Item = (&'a str, &'a str)>,
    query: Option<&str>,
    body: &[u8],
) -> Result<(Map<String, Value>, Faults), Error> {
    let mut request = fields(facts, body)?;
    let mut faults = Faults::default();
    for (name, value) in path {
        if request.insert(name.to_owned(), value.into()).is_some() {
            let fault = FieldFault::new(name, "must be in the path only");
            faults.add(fault.worded("", " is part of the path and must not be in the body").into());
        }
    }
    parameter::add(facts.parameters, query.unwrap_or_default(), &mut request, &mut faults);
    Ok((request, faults))
}

/// The fields of the request that the body holds.
fn fields(facts: &Facts, body: &[u8]) -> Result<Map<String, Value>, Error> {
    let value = if body.is_empty() { Value::Null } else { tree::parse(body)? };
    match (facts.body, value) {
        (Body::None, _) if body.is_empty() => Ok(Map::new()),
        // Many clients cannot send a POST without a body.
        (Body::None, Value::Object(members)) if facts.verb == Verb::Post && members.is_empty() => Ok(members),
        (Body::None, _) => {
            let message = "this operation takes no body: its fields are in the path and in the query";
            Err(Error::new(Reason::InvalidRequest, message))
        }
        (_, Value::Null) => Ok(Map::new()),
        (Body::Field { repeated: true, .. }, Value::Object(members)) => Ok(members),
        (Body::Field { name, .. }, value) => Ok(Map::from_iter([(name.to_owned(), value)])),
    }
}

/// Converts a JSON name to that of the proto file: `orgId` is `org_id`.
fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    for char in name.chars() {
        if char.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(char.to_ascii_lowercase());
    }
    snake
}

#[cfg(test)]
mod tests;
