//! Headers of responses.

use serde_json::{Map, Value, json};

/// References to these headers.
pub(super) fn references(names: &[&str]) -> Value {
    let reference = |name: &&str| ((*name).to_owned(), json!({ "$ref": format!("#/components/headers/{name}") }));
    names.iter().map(reference).collect::<Map<_, _>>().into()
}
