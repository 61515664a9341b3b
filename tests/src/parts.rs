//! The parts of an HTTP request that carry a message, as a client makes them.

use proto::operation::{Body, Facts};
use serde_json::{Map, Value};

/// Path, query and body.
#[derive(Debug)]
pub struct Parts {
    /// The parameters of the path, not encoded.
    pub path: Vec<(String, String)>,
    /// The parameters of the query, not encoded.
    pub query: Vec<(String, String)>,
    /// The body, if there is one.
    pub body: Option<Value>,
}

impl Parts {
    /// Returns the parts of a request to an operation whose message has these fields.
    pub fn of(facts: &Facts, mut fields: Map<String, Value>) -> Self {
        let names = facts.path.split('/').filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'));
        let path =
            names.map(|name| (name.to_owned(), text(fields.remove(&json_name(name)).unwrap_or_default()))).collect();
        let body = match facts.body {
            Body::None => None,
            Body::Field { json_name, .. } => fields.remove(json_name),
        };
        let mut query = vec![];
        for (name, value) in fields {
            add(&mut query, name, value);
        }
        Self { path, query, body }
    }
}

/// Returns the name of a field in JSON.
fn json_name(name: &str) -> String {
    let (first, rest) = name.split_once('_').unwrap_or((name, ""));
    let rest = rest.split('_').filter(|word| !word.is_empty());
    rest.fold(first.to_owned(), |name, word| name + &word[..1].to_uppercase() + &word[1..])
}

fn add(query: &mut Vec<(String, String)>, name: String, value: Value) {
    match value {
        Value::Object(members) => {
            members.into_iter().for_each(|(member, value)| add(query, format!("{name}.{member}"), value));
        }
        Value::Array(items) => items.into_iter().for_each(|item| add(query, name.clone(), item)),
        value => query.push((name, text(value))),
    }
}

fn text(value: Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text,
        other => other.to_string(),
    }
}
