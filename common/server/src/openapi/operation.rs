//! The description of one operation: parameters, body, answers.

use prost_reflect::{FieldDescriptor, MessageDescriptor};
use proto::{
    operation::{Body, Facts, Parameter, Verb, Waived},
    option,
};
use serde_json::{Value, json};

use super::{Source, example, header::references, name::Direction, refusal, schema::Schemas, value};

const JSON: &str = "application/json";

/// Describes an operation.
pub(super) fn operation(facts: &Facts, source: &Source, schemas: &mut Schemas<'_>) -> Value {
    let (request, answer) = (source.message(facts.request), source.message(facts.response));
    let comment = source.comment(facts);
    let mut responses = refusal::responses(facts);
    for status in [Some(facts.success), facts.also].into_iter().flatten() {
        responses.insert(status.to_string(), success(facts, &answer, schemas));
    }
    let mut operation = json!({
        "operationId": facts.method,
        "tags": [source.tag(facts)],
        "summary": comment.split_inclusive(". ").next().unwrap_or_default().trim().trim_end_matches('.'),
        "description": description(facts, &comment),
        "parameters": parameters(facts, &request, schemas),
        "responses": responses,
        "x-grpc": facts.grpc,
    });
    if let Some(body) = body(facts, &request, schemas) {
        operation["requestBody"] = body;
    }
    for (name, value) in [("x-permission", facts.permission), ("x-feature", facts.feature)] {
        if let Some(value) = value {
            operation[name] = json!(value);
        }
    }
    operation
}

fn description(facts: &Facts, comment: &str) -> String {
    let permission = match (facts.permission, facts.waived) {
        (Some(permission), Waived::Never) => {
            let in_system = facts.system_permission.map(|needed| format!(", in the system `{needed}`"));
            format!("The caller needs the permission `{permission}`{}.", in_system.unwrap_or_default())
        }
        (Some(permission), Waived::ByToken) => {
            format!("The caller shows the token of the object, or needs the permission `{permission}`.")
        }
        (Some(permission), Waived::Own) if !facts.has_context() => {
            format!("The caller needs no permission for itself, and the permission `{permission}` for others.")
        }
        (Some(permission), Waived::Own) => {
            format!("The caller belongs to the context, or needs the permission `{permission}` there.")
        }
        (None, _) => "It is about the caller itself, who needs no permission.".to_owned(),
    };
    let feature = facts.feature.map_or_else(String::new, |feature| format!(" Behind the feature flag `{feature}`."));
    format!("{comment}\n\n{permission}{feature}")
}

fn parameters(facts: &Facts, request: &MessageDescriptor, schemas: &mut Schemas<'_>) -> Vec<Value> {
    let mut parameters: Vec<Value> = in_path(facts.path)
        .filter_map(|name| request.get_field_by_name(name))
        .map(|field| parameter("path", field.name(), &field, schemas))
        .collect();
    for Parameter { path, .. } in facts.parameters {
        if let Some((name, field)) = leaf(request, path) {
            parameters.push(parameter("query", &name, &field, schemas));
        }
    }
    let mut shared = vec!["X-Request-Id"];
    if facts.only_reads() {
        shared.extend(["Consistency-Token", "Consistency-Wait"]);
    } else if facts.is_logged() {
        shared.extend(["Idempotency-Key", "Prefer"]);
        if facts.changes_one() {
            shared.push("If-Match");
        }
    }
    if facts.has_context() {
        shared.push("X-Platform-Orgid");
    }
    parameters.extend(shared.iter().map(|name| json!({ "$ref": format!("#/components/parameters/{name}") })));
    parameters
}

/// The names of the parameters in a path.
pub(super) fn in_path(path: &str) -> impl Iterator<Item = &str> {
    path.split('{').skip(1).filter_map(|rest| rest.split('}').next())
}

fn parameter(place: &str, name: &str, field: &FieldDescriptor, schemas: &mut Schemas<'_>) -> Value {
    let mut schema = schemas.field(field, Direction::Request);
    let description = schema.as_object_mut().and_then(|schema| {
        schema.remove("examples");
        schema.remove("description")
    });
    let mut parameter = json!({ "name": name, "in": place, "schema": schema, "example": example::field(field) });
    if let Some(description) = description {
        parameter["description"] = description;
    }
    // A field of a nested message is required only if that message is present.
    if place == "path" || !name.contains('.') && value::is_required(field, &option::rules(field)) {
        parameter["required"] = json!(true);
    }
    parameter
}

/// The field at a dotted path, and the path in JSON names.
fn leaf(request: &MessageDescriptor, path: &str) -> Option<(String, FieldDescriptor)> {
    let (mut message, mut names) = (request.clone(), vec![]);
    let mut parts = path.split('.').peekable();
    while let Some(part) = parts.next() {
        let field = message.get_field_by_name(part)?;
        names.push(field.json_name().to_owned());
        if parts.peek().is_none() {
            return Some((names.join("."), field));
        }
        message = field.kind().as_message()?.clone();
    }
    None
}

fn body(facts: &Facts, request: &MessageDescriptor, schemas: &mut Schemas<'_>) -> Option<Value> {
    let elsewhere: Vec<&str> = in_path(facts.path).collect();
    let whole = example::message(request);
    Some(match facts.body {
        Body::None => return None,
        Body::Field { name, json_name, repeated } => {
            let field = request.get_field_by_name(name)?;
            let mut schema = schemas.field(&field, Direction::Request);
            let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
            let mut body = if repeated {
                let object = schemas.rest_of(request, &elsewhere);
                let schema = json!({ "anyOf": [schema, object, { "type": "null" }] });
                let examples = json!({
                    "array": { "summary": "The list itself", "value": whole[json_name] },
                    "object": { "summary": "An object of fields", "value": without(whole, request, &elsewhere) },
                });
                json!({ "content": { JSON: { "schema": schema, "examples": examples } } })
            } else {
                json!({ "required": true, "content": { JSON: { "schema": schema, "example": whole[json_name] } } })
            };
            if let Some(description) = description {
                body["description"] = description;
            }
            body
        }
    })
}

fn without(mut example: Value, request: &MessageDescriptor, elsewhere: &[&str]) -> Value {
    for field in elsewhere.iter().filter_map(|name| request.get_field_by_name(name)) {
        example.as_object_mut().map(|example| example.remove(field.json_name()));
    }
    example
}

fn success(facts: &Facts, answer: &MessageDescriptor, schemas: &mut Schemas<'_>) -> Value {
    let mut names = vec!["X-Request-Id", "Consistency-Token", "RateLimit", "RateLimit-Policy"];
    if !facts.only_reads() && facts.is_logged() {
        names.extend(["Idempotency-Replayed", "Preference-Applied"]);
    }
    let is_one =
        facts.is_logged() && if facts.only_reads() { facts.path.contains("{id}") } else { facts.verb != Verb::Delete };
    if is_one {
        names.push("ETag");
    }
    json!({
        "description": "Success",
        "headers": references(&names),
        "content": { JSON: { "schema": schemas.message(answer, Direction::Answer), "example": example::message(answer) } },
    })
}
