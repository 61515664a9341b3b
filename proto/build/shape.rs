//! Generates the implementations of the traits of shapes for the messages that have them; see `src/shape.rs`.

use std::collections::BTreeMap;

use heck::{ToShoutySnakeCase, ToSnakeCase, ToUpperCamelCase};
use prost_reflect::{DescriptorPool, FieldDescriptor, Kind, MessageDescriptor, MethodDescriptor};

use crate::{option, validation::rust_path};

/// The messages with the details of resources and of settings, and their Rust types.
const DETAILS: [(&str, &str); 2] = [
    ("platform.object.v3alpha.Details", "crate::object::Details"),
    ("platform.settings.object.v3alpha.Details", "crate::object_settings::Details"),
];

/// Returns the code, by package.
pub(crate) fn generate(pool: &DescriptorPool) -> BTreeMap<String, String> {
    let mut packages: BTreeMap<String, String> = BTreeMap::new();
    for method in pool.services().flat_map(|service| service.methods().collect::<Vec<_>>()) {
        let (request, response) = (method.input(), method.output());
        let mut code = vec![Some(request_impl(&method)), identified(&request), written(&response), got(&method)];
        code.extend([searched(&method), resolved(&method)]);
        packages.entry(request.package_name().to_owned()).or_default().extend(code.into_iter().flatten());
    }
    packages
}

/// Returns the code that visits the requests of all operations.
pub(crate) fn visits(pool: &DescriptorPool) -> String {
    let methods = pool.services().flat_map(|service| service.methods().collect::<Vec<_>>());
    let visits = methods.map(|method| format!("visitor.request::<{}>();", rust_path(method.input().full_name())));
    let visits = visits.collect::<Vec<_>>().join(" ");
    format!("/// Visits the request of every operation.\npub fn visit(visitor: &mut impl Visitor) {{ {visits} }}")
}

/// Implements `Request` for the request of a method: its operation, and the holder that its path names.
fn request_impl(method: &MethodDescriptor) -> String {
    let (request, response) = (rust_path(method.input().full_name()), rust_path(method.output().full_name()));
    let operation = format!("crate::operation::{}", method.name().to_shouty_snake_case());
    let holder = holder(method)
        .map_or(String::new(), |field| format!("fn holder(&self) -> Option<&str> {{ Some(&self.{field}) }} "));
    format!(
        "impl crate::shape::Request for {request} {{ type Response = {response}; {holder}\
         const OPERATION: &'static crate::operation::Operation<Self, {response}> = &{operation}; }}\n"
    )
}

/// Returns the field with the id of the holder, where the path of an operation names one.
fn holder(method: &MethodDescriptor) -> Option<String> {
    let path = option::http(method)?.path;
    let (_, named) = path.split_once('{')?;
    let (field, _) = named.split_once('}')?;
    (field != "id").then(|| field.to_owned())
}

/// Returns the names of the fields of a request, except for its holder.
fn own_names(method: &MethodDescriptor) -> Vec<String> {
    let holder = holder(method);
    names(&method.input()).into_iter().filter(|name| holder.as_ref() != Some(name)).collect()
}

/// Implements `Identified` for a request that names an object by its id.
fn identified(request: &MessageDescriptor) -> Option<String> {
    let id = request.get_field_by_name("id")?;
    let path = rust_path(request.full_name());
    (id.kind() == Kind::String && !id.is_list())
        .then(|| format!("impl crate::shape::Identified for {path} {{ fn id(&self) -> &str {{ &self.id }} }}\n"))
}

/// Implements `From` details for the response of a write that has nothing but the details.
fn written(response: &MessageDescriptor) -> Option<String> {
    let path = rust_path(response.full_name());
    let details = message(&only(response)?)?;
    let (_, details) = DETAILS.iter().find(|(name, _)| *name == details.full_name())?;
    (names(response) == ["details"]).then(|| {
        format!(
            "impl From<{details}> for {path} {{ \
             fn from(details: {details}) -> Self {{ Self {{ details: Some(details) }} }} }}\n"
        )
    })
}

/// Implements `Resolve` for a request for the settings of a context, whose response has nothing but them and their
/// details.
fn resolved(method: &MethodDescriptor) -> Option<String> {
    let (request, response) = (method.input(), method.output());
    let wanted = names(&request);
    let variant = wanted.get(1).map_or(String::new(), |name| format!("fn variant(&self) -> &str {{ &self.{name} }} "));
    let is_of_a_context = wanted.first().is_some_and(|name| name == "ctx") && wanted.len() <= 2;
    if !is_of_a_context || names(&response) != ["details", "settings"] {
        return None;
    }
    let settings = rust_path(message(&response.get_field_by_name("settings")?)?.full_name());
    Some(format!(
        "impl crate::shape::Resolve for {} {{ type Settings = {settings}; {variant}\
         fn response(details: crate::object_settings::Details, settings: {settings}) -> Self::Response {{ \
         Self::Response {{ details: Some(details), settings: Some(settings) }} }} }}\n",
        rust_path(request.full_name()),
    ))
}

/// Implements `Get` for a request for one resource, whose response has nothing else.
fn got(method: &MethodDescriptor) -> Option<String> {
    let (request, response) = (method.input(), method.output());
    let shown = only(&response)?;
    let resource = rust_path(message(&shown)?.full_name());
    (own_names(method) == ["id"] && method.name().starts_with("Get")).then(|| {
        format!(
            "impl crate::shape::Get for {} {{ type Resource = {resource}; \
             fn response(resource: {resource}) -> Self::Response {{ Self::Response {{ {}: Some(resource) }} }} }}\n",
            rust_path(request.full_name()),
            shown.name(),
        )
    })
}

/// Implements `Search` for a request for a sorted page of what filters match, each of which is a oneof.
fn searched(method: &MethodDescriptor) -> Option<String> {
    let (request, response) = (method.input(), method.output());
    let wanted: Vec<String> = own_names(method).into_iter().filter(|name| name != "ctx").collect();
    if wanted != ["query", "sorting_column", "filters"] || names(&response) != ["details", "sorting_column", "result"] {
        return None;
    }
    let column = request.get_field_by_name("sorting_column")?.kind();
    let filter = message(&request.get_field_by_name("filters")?)?;
    let choice = filter.oneofs().next()?;
    let (modules, name) = rust_path(filter.full_name()).rsplit_once("::").map(|(a, b)| (a.to_owned(), b.to_owned()))?;
    let oneof = choice.name();
    Some(format!(
        "impl crate::shape::Search for {} {{ type Column = {}; type Filter = {modules}::{}::{}; \
         type Resource = {}; \
         fn list(self) -> (Option<crate::object::ListQuery>, Self::Column, Vec<Self::Filter>) {{ \
         let column = self.sorting_column(); \
         (self.query, column, self.filters.into_iter().filter_map(|filter| filter.{oneof}).collect()) }} \
         fn response(details: crate::object::ListDetails, column: Self::Column, result: Vec<Self::Resource>) \
         -> Self::Response {{ \
         Self::Response {{ details: Some(details), sorting_column: column.into(), result }} }} }}\n",
        rust_path(request.full_name()),
        rust_path(column.as_enum()?.full_name()),
        name.to_snake_case(),
        oneof.to_upper_camel_case(),
        rust_path(message(&response.get_field_by_name("result")?)?.full_name()),
    ))
}

fn names(message: &MessageDescriptor) -> Vec<String> {
    message.fields().map(|field| field.name().to_owned()).collect()
}

/// Returns the field of a message that has only one.
fn only(message: &MessageDescriptor) -> Option<FieldDescriptor> {
    let mut fields = message.fields();
    fields.next().filter(|_| fields.next().is_none())
}

/// Returns the message type of a field.
fn message(field: &FieldDescriptor) -> Option<MessageDescriptor> {
    field.kind().as_message().cloned()
}
