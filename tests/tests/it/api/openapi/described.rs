//! The descriptions in /openapi.json, to check real requests and answers.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use jsonschema::{Draft, Registry, RegistryBuilder, Validator};
use serde_json::{Value, json};
use tests::{
    client::{Answer, send},
    instance::Instance,
};

/// The URI by which schemas refer to their document.
const DOCUMENT: &str = "urn:openapi";

/// A document with closed answers: an undescribed member is a fault.
pub(crate) struct Described {
    pub(crate) document: Value,
    validators: Validators,
    closed: Validators,
}

/// The validators of a document, each made once, because that is expensive.
struct Validators {
    /// The registry of the document, leaked for the lifetime of the test.
    registry: &'static Registry<'static>,
    made: Mutex<HashMap<String, Arc<Validator>>>,
}

/// An operation of the document.
pub(crate) struct Operation<'a> {
    pub(crate) path: &'a str,
    pub(crate) verb: &'a str,
    pub(crate) item: &'a Value,
}

impl Described {
    pub(crate) async fn of(instance: &Instance) -> Self {
        let client = instance.client().await;
        let answer = send(client.anonymous(reqwest::Method::GET, "/openapi.json")).await;
        assert_eq!(answer.status, 200);
        let mut closed = answer.body.clone();
        close(&mut closed["components"]["schemas"]);
        Self {
            validators: Validators::new(answer.body.clone()),
            closed: Validators::new(closed),
            document: answer.body,
        }
    }

    pub(crate) fn operations(&self) -> Vec<Operation<'_>> {
        let paths = self.document["paths"].as_object().expect("there are paths");
        let all = paths.iter().flat_map(|(path, item)| {
            let verbs = item.as_object().expect("a path has verbs");
            verbs.iter().map(move |(verb, item)| Operation { path, verb, item })
        });
        all.collect()
    }

    pub(crate) fn operation(&self, id: &str) -> Operation<'_> {
        let mut all = self.operations().into_iter();
        all.find(|operation| operation.item["operationId"] == id).unwrap_or_else(|| panic!("{id} is described"))
    }

    /// Returns what a reference points to, else the value itself.
    pub(crate) fn resolved<'a>(&'a self, value: &'a Value) -> &'a Value {
        match value["$ref"].as_str() {
            None => value,
            Some(reference) => {
                let target = reference.strip_prefix('#').and_then(|pointer| self.document.pointer(pointer));
                target.unwrap_or_else(|| panic!("{reference} leads nowhere"))
            }
        }
    }

    /// Fails unless the value matches the schema.
    pub(crate) fn assert_valid(&self, what: &str, schema: &Value, value: &Value) {
        assert_fits(what, &self.validators.of(schema), value);
    }

    /// Fails unless the value can be sent to the operation.
    pub(crate) fn assert_sendable(&self, id: &str, body: &Value) {
        let schema = &self.operation(id).item["requestBody"]["content"]["application/json"]["schema"];
        self.assert_valid(id, schema, body);
    }

    /// Whether the value can be sent to the operation.
    pub(crate) fn is_sendable(&self, id: &str, body: &Value) -> bool {
        let schema = &self.operation(id).item["requestBody"]["content"]["application/json"]["schema"];
        self.validators.of(schema).is_valid(body)
    }

    /// Fails unless the document describes this answer of the operation: status, headers, body, and the reason of an
    /// error.
    pub(crate) fn assert_answered(&self, id: &str, answer: &Answer) {
        let status = answer.status.as_str();
        let what = format!("{id} answers {status} {}", answer.body);
        let response = self.resolved(&self.operation(id).item["responses"][status]);
        assert!(response.is_object(), "{what}: the status is not described");
        let headers = response["headers"].as_object().into_iter().flatten();
        for (name, header) in headers.map(|(name, header)| (name, self.resolved(header))) {
            assert!(answer.headers.contains_key(name) || header["required"] != true, "{what}: without {name}");
        }
        let content = &response["content"]["application/json"];
        assert_fits(&what, &self.closed.of(&content["schema"]), &answer.body);
        if let Some(examples) = content["examples"].as_object().filter(|_| answer.status.as_u16() >= 400) {
            assert!(examples.contains_key(answer.reason()), "{what}: the reason is not described");
        }
    }
}

fn assert_fits(what: &str, validator: &Validator, value: &Value) {
    let faults: Vec<String> =
        validator.iter_errors(value).map(|fault| format!("{}: {fault}", fault.instance_path())).collect();
    assert!(faults.is_empty(), "{what}\n{}", faults.join("\n"));
}

/// A validator of a schema within a document.
impl Validators {
    fn new(document: Value) -> Self {
        let registry = Registry::new().draft(Draft::Draft202012).add(DOCUMENT, document);
        let registry = registry.and_then(RegistryBuilder::prepare).expect("the document is one of schemas");
        Self { registry: Box::leak(Box::new(registry)), made: Mutex::default() }
    }

    fn of(&self, schema: &Value) -> Arc<Validator> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.entry(schema.to_string()).or_insert_with(|| Arc::new(validator(self.registry, schema))).clone()
    }
}

fn validator(registry: &'static Registry<'static>, schema: &Value) -> Validator {
    let root = schema.to_string().replace(r##""$ref":"#/"##, &format!(r#""$ref":"{DOCUMENT}#/"#));
    let root: Value = serde_json::from_str(&root).expect("it is one still");
    jsonschema::draft202012::options()
        .with_registry(registry)
        .should_validate_formats(true)
        .should_ignore_unknown_formats(true)
        .build(&root)
        .unwrap_or_else(|fault| panic!("{schema}: {fault}"))
}

/// Makes every schema of an object refuse undescribed members.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if members.get("type") == Some(&json!("object")) && members.contains_key("properties") {
                members.entry("additionalProperties").or_insert(json!(false));
            }
            members.values_mut().for_each(close);
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}
