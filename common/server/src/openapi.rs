//! The description of the HTTP API (OpenAPI 3.1), and a page to read and try it.
//!
//! Both are made at the first request for one, from the descriptors and the build's facts about each operation. What
//! all operations share (security, headers, the form of errors) is in assets/openapi.json.

mod comment;
mod duration;
mod example;
mod header;
mod name;
mod operation;
mod page;
mod refusal;
mod schema;
mod serve;
mod value;

use std::collections::BTreeMap;

use axum::Router;
use edge::page::Limits;
use prost_reflect::{DescriptorPool, MessageDescriptor, ServiceDescriptor};
use proto::operation::Facts;
use serde_json::{Value, json};

use self::{comment::Comments, name::Names, schema::Schemas};

const SHARED: &str = include_str!("../assets/openapi.json");
const VALID: &str = "the descriptors come from the build, which has read them";

/// Serves the description of the mounted operations at `/openapi.json` and the page at `/docs`. `further` is a
/// description of endpoints that are not operations, in the same form.
pub fn routes(mounted: &[&'static Facts], further: &'static str, limits: Limits) -> Router {
    let mounted = mounted.to_vec();
    serve::routes(move || {
        let document = document(&mounted, further, limits);
        let page = page::page(&document);
        (document.to_string(), page)
    })
}

/// The description of these operations, and of what `further` describes.
#[expect(clippy::missing_panics_doc, reason = "the tests build the document, and the input is fixed")]
pub fn document(mounted: &[&Facts], further: &str, limits: Limits) -> Value {
    let source = Source::new();
    let names = Names::of(&source.pool);
    let mut schemas = Schemas::new(&source.comments, &names, limits);
    let mut document: Value = serde_json::from_str(SHARED).expect("the file is JSON");
    let mut services: BTreeMap<String, Value> = BTreeMap::new();
    for facts in mounted {
        document["paths"][facts.path][facts.verb.method().to_ascii_lowercase()] =
            operation::operation(facts, &source, &mut schemas);
        services.entry(source.tag(facts)).or_insert_with(|| source.about(facts));
    }
    let tags: Vec<Value> =
        services.into_iter().map(|(name, about)| json!({ "name": name, "description": about })).collect();
    let components = json!({ "schemas": schemas.into_map(), "examples": refusal::examples(mounted) });
    merge(&mut document, json!({ "tags": tags, "components": components, "x-reasons": refusal::reasons() }));
    merge(&mut document, serde_json::from_str(further).expect("it is embedded, and JSON"));
    document
}

/// The descriptors and their comments.
struct Source {
    pool: DescriptorPool,
    comments: Comments,
}

impl Source {
    fn new() -> Self {
        let pool = DescriptorPool::decode(proto::DESCRIPTORS).expect(VALID);
        Self { comments: Comments::of(&pool), pool }
    }

    fn message(&self, full_name: &str) -> MessageDescriptor {
        self.pool.get_message_by_name(full_name).expect(VALID)
    }

    fn service(&self, facts: &Facts) -> ServiceDescriptor {
        self.pool.get_service_by_name(facts.service).expect(VALID)
    }

    /// The comment of an operation.
    fn comment(&self, facts: &Facts) -> String {
        let service = self.service(facts);
        let method = service.methods().find(|method| method.name() == facts.method).expect(VALID);
        self.comments.at(&service.parent_file(), method.path()).to_owned()
    }

    /// The tag of the operations of one service.
    fn tag(&self, facts: &Facts) -> String {
        self.service(facts).name().to_owned()
    }

    /// The comment of the proto file on a service.
    fn about(&self, facts: &Facts) -> Value {
        let service = self.service(facts);
        json!(self.comments.at(&service.parent_file(), service.path()))
    }
}

/// Merges one document into another: objects member by member, lists by appending.
fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (Value::Array(into), Value::Array(from)) => into.extend(from),
        (into, from) => *into = from,
    }
}

#[cfg(test)]
mod tests;
