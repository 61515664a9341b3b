//! The binding of HTTP requests to request messages (google.api.http).
//!
//! Path, query and body are first put together as one tree of JSON values, never as text, so that no part can smuggle
//! in another; the tree is then read as the message.

mod parameter;
mod read;
mod tree;

use proto::operation::{Body, Facts};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::error::{Error, Reason};

/// Reads a request message from the parts of an HTTP request.
pub fn bind<'a, I: DeserializeOwned>(
    facts: &Facts,
    path: impl IntoIterator<Item = (&'a str, &'a str)>,
    query: Option<&str>,
    body: &[u8],
) -> Result<I, Error> {
    let mut request = fields(facts.body, body)?;
    for (name, value) in path {
        if request.insert(name.to_owned(), value.into()).is_some() {
            let message = format!("{name} is part of the path and must not be in the body");
            return Err(Error::new(Reason::InvalidRequest, message).violation(name, "must be in the path only"));
        }
    }
    parameter::add(facts.parameters, query.unwrap_or_default(), &mut request)?;
    read::message(request)
}

/// The fields of the request that the body holds.
fn fields(mapping: Body, body: &[u8]) -> Result<Map<String, Value>, Error> {
    let value = if body.is_empty() { Value::Null } else { tree::parse(body)? };
    match (mapping, value) {
        (Body::None, _) if body.is_empty() => Ok(Map::new()),
        (Body::None, _) => Err(Error::new(Reason::InvalidRequest, "this operation takes no body")),
        (_, Value::Null) => Ok(Map::new()),
        (Body::Whole | Body::Field { repeated: true, .. }, Value::Object(members)) => Ok(members),
        (Body::Whole, _) => Err(Error::new(Reason::InvalidRequest, "the body must be an object")),
        (Body::Field { name, .. }, value) => Ok(Map::from_iter([(name.to_owned(), value)])),
    }
}

/// A JSON name as it is in the proto file: `orgId` is `org_id`.
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
