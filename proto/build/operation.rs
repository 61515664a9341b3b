//! Generates one `Operation` per rpc, and the list of them.

use std::fmt::Write;

use heck::ToShoutySnakeCase;
use prost_reflect::{DescriptorPool, FieldDescriptor, Kind, MessageDescriptor, MethodDescriptor};

use crate::{
    option::{self, Http},
    validation::rust_path,
};

/// Returns the code of all operations.
pub(crate) fn generate(pool: &DescriptorPool) -> Result<String, String> {
    let mut code = String::new();
    let mut names = vec![];
    for method in pool.services().flat_map(|service| service.methods().collect::<Vec<_>>()) {
        let name = method.name().to_shouty_snake_case();
        let facts = facts(&method).map_err(|reason| format!("{}: {reason}", method.full_name()))?;
        let (request, response) = (rust_path(method.input().full_name()), rust_path(method.output().full_name()));
        let _ = writeln!(
            code,
            "/// The operation `{}`.\n\
             pub static {name}: Operation<{request}, {response}> = Operation::new({facts});",
            method.full_name()
        );
        names.push(format!("&{name}.facts"));
    }
    let _ = writeln!(
        code,
        "/// Every operation of the platform.\npub static OPERATIONS: &[&Facts] = &[{}];",
        names.join(", ")
    );
    Ok(code)
}

fn facts(method: &MethodDescriptor) -> Result<String, String> {
    let Http { verb, path, body } = option::http(method).ok_or("no HTTP mapping")?;
    let operation = option::operation(method).ok_or("no option platform.option.operation")?;
    if operation.permission.is_empty() && operation.waived != option::Waived::Own {
        return Err("needs a permission or self".to_owned());
    }
    let service = method.parent_service();
    let mut parameters = Vec::new();
    if body != "*" {
        collect(
            &method.input(),
            "",
            &mut |name| name == body || path.contains(&format!("{{{name}}}")),
            &mut parameters,
        );
    }
    Ok(format!(
        "Facts {{ grpc: \"/{service}/{method}\", service: {service:?}, method: {method:?}, verb: Verb::{verb}, \
         path: {path:?}, body: {body}, parameters: &[{parameters}], success: {success}, \
         also: {also}, permission: {permission}, system_permission: {system_permission}, waived: Waived::{waived:?}, \
         feature: {feature}, \
         of_organization: {of_organization}, matter: Matter::{matter:?}, is_built: {is_built}, request: {request:?}, response: {response:?} }}",
        service = service.full_name(),
        method = method.name(),
        verb = heck::AsUpperCamelCase(verb),
        body = body_of(&method.input(), &body)?,
        parameters = parameters.join(", "),
        success = if operation.success == 0 { 200 } else { operation.success },
        also = if operation.also == 0 { "None".to_owned() } else { format!("Some({})", operation.also) },
        permission = optional(&operation.permission),
        system_permission = optional(&operation.system_permission),
        waived = operation.waived,
        feature = optional(&option::feature(method)),
        of_organization = operation.of_organization,
        matter = operation.matter,
        is_built = !operation.not_built,
        request = method.input().full_name(),
        response = method.output().full_name(),
    ))
}

fn body_of(request: &MessageDescriptor, body: &str) -> Result<String, String> {
    match body {
        "" => Ok("Body::None".to_owned()),
        "*" => Err("a body of all fields leaves none for the query: name one of them, or none".to_owned()),
        name => {
            let field = request.get_field_by_name(name).ok_or_else(|| format!("no field {name} for the body"))?;
            Ok(format!(
                "Body::Field {{ name: {name:?}, json_name: {:?}, repeated: {} }}",
                field.json_name(),
                field.is_list()
            ))
        }
    }
}

/// Collects every leaf field that a query parameter can set. Lists of messages cannot be set that way.
fn collect(
    message: &MessageDescriptor,
    prefix: &str,
    skip: &mut dyn FnMut(&str) -> bool,
    parameters: &mut Vec<String>,
) {
    for field in message.fields().filter(|field| !prefix.is_empty() || !skip(field.name())).collect::<Vec<_>>() {
        let path = format!("{prefix}{}", field.name());
        match (field.kind(), leaf(&field)) {
            (_, Some(kind)) => parameters
                .push(format!("Parameter {{ path: {path:?}, kind: Kind::{kind}, repeated: {} }}", field.is_list())),
            (Kind::Message(nested), None) if !field.is_list() => {
                collect(&nested, &format!("{path}."), skip, parameters);
            }
            _ => {}
        }
    }
}

fn leaf(field: &FieldDescriptor) -> Option<&'static str> {
    match field.kind() {
        Kind::Bool => Some("Bool"),
        Kind::String | Kind::Bytes => Some("Text"),
        Kind::Enum(_) => Some("Enum"),
        // Times and durations are written as text.
        Kind::Message(message) => message.full_name().starts_with("google.protobuf.").then_some("Text"),
        _ => Some("Number"),
    }
}

fn optional(text: &str) -> String {
    if text.is_empty() { "None".to_owned() } else { format!("Some({text:?})") }
}
