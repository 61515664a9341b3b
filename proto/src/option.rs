//! Reads the options of platform/option.proto and the HTTP mapping. The build uses this file, too.

use prost_reflect::{DynamicMessage, FieldDescriptor, MethodDescriptor, OneofDescriptor, ReflectMessage, Value};

/// The rules of a field in `platform.option.Rules`; without the option everything is off.
#[derive(Debug, Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub struct Rules {
    /// The message must be set.
    pub required: bool,
    /// The least length of a string, in characters.
    pub min_len: u32,
    /// The greatest length of a string, in characters; 0 for any.
    pub max_len: u32,
    /// The string must be an absolute URI.
    pub uri: bool,
    /// A regular expression that the string must match; empty for none.
    pub pattern: String,
    /// What the pattern requires, phrased to follow the name of the field.
    pub pattern_rule: String,
    /// The string must not contain U+0000 to U+001F.
    pub no_control: bool,
    /// The enum must have another value than the unspecified one.
    pub defined: bool,
    /// The bool must be true when it is set.
    pub const_true: bool,
    /// The duration must be longer than zero.
    pub gt_zero: bool,
    /// The duration must not be negative.
    pub non_negative: bool,
    /// The longest duration; 0 for any.
    pub max_seconds: u32,
    /// How many items a list may have; 0 for any number.
    pub max_items: u32,
    /// The rules inside the message do not apply to an empty one.
    pub empty_allowed: bool,
    /// The string must be an http or https URL with a host, and without user or password.
    pub http_url: bool,
}

/// The HTTP mapping of a method.
#[derive(Debug, Clone)]
pub struct Http {
    /// The verb in lower case.
    pub verb: String,
    /// The path with parameters as `{id}`.
    pub path: String,
    /// The field that the body sets, `*` for all that are not in the path, empty for no body.
    pub body: String,
}

/// When an operation needs no permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waived {
    /// The operation always needs the permission.
    Never,
    /// The request is about the caller itself, or about the context that it belongs to.
    Own,
    /// The caller sends the token of the object.
    ByToken,
}

/// What an operation is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Matter {
    /// What the log stores.
    Logged,
    /// Authorization requests, which are pending between a browser, an app and the platform. Nodes that issue tokens
    /// answer such operations.
    UnderWay,
    /// Generations of read models.
    ReadModels,
}

/// The option `platform.option.operation` of a method: who may call it, and how it answers.
#[derive(Debug, Clone)]
pub struct Operation {
    /// The permission that the caller needs; empty for none.
    pub permission: String,
    /// The permission that the caller needs in the context of the system; empty where it is the same.
    pub system_permission: String,
    /// When no permission is needed.
    pub waived: Waived,
    /// The HTTP status of success; 0 for the default.
    pub success: u32,
    /// A further HTTP status of success; 0 for none.
    pub also: u32,
    /// The operation is about an organization: the caller's own, where the request names none.
    pub of_organization: bool,
    /// What the operation is about.
    pub matter: Matter,
    /// The operation is not built yet.
    pub not_built: bool,
}

/// The names of the fields without presence that are printed in JSON at their default, too.
pub const ALWAYS_PRINTED: [&str; 6] =
    ["applied_limit", "end_of_list", "lag", "processed_sequence", "result", "total_result"];

/// Returns the rules of a field.
pub fn rules(field: &FieldDescriptor) -> Rules {
    let Some(Value::Message(rules)) = extension(&field.options(), "platform.option.rules") else {
        return Rules::default();
    };
    Rules {
        required: flag(&rules, "required"),
        min_len: number(&rules, "min_len"),
        max_len: number(&rules, "max_len"),
        uri: flag(&rules, "uri"),
        pattern: text(&rules, "pattern"),
        pattern_rule: text(&rules, "pattern_rule"),
        no_control: flag(&rules, "no_control"),
        defined: flag(&rules, "defined"),
        const_true: flag(&rules, "const_true"),
        gt_zero: flag(&rules, "gt_zero"),
        non_negative: flag(&rules, "non_negative"),
        max_seconds: number(&rules, "max_seconds"),
        max_items: number(&rules, "max_items"),
        empty_allowed: flag(&rules, "empty_allowed"),
        http_url: flag(&rules, "http_url"),
    }
}

/// Returns an example of a field's value, as text; empty for none.
pub fn example(field: &FieldDescriptor) -> String {
    match extension(&field.options(), "platform.option.example") {
        Some(Value::String(example)) => example,
        _ => String::new(),
    }
}

/// Whether one of the fields of a oneof must be set.
pub fn is_required(oneof: &OneofDescriptor) -> bool {
    matches!(extension(&oneof.options(), "platform.option.required"), Some(Value::Bool(true)))
}

/// Returns the feature flag that enables a method; empty for none.
pub fn feature(method: &MethodDescriptor) -> String {
    match extension(&method.parent_service().options(), "platform.option.feature") {
        Some(Value::String(feature)) => feature,
        _ => String::new(),
    }
}

/// Returns the operation option of a method, where it has one.
pub fn operation(method: &MethodDescriptor) -> Option<Operation> {
    let Some(Value::Message(operation)) = extension(&method.options(), "platform.option.operation") else {
        return None;
    };
    Some(Operation {
        permission: text(&operation, "permission"),
        system_permission: text(&operation, "system_permission"),
        waived: match (flag(&operation, "self"), flag(&operation, "by_token")) {
            (true, _) => Waived::Own,
            (false, true) => Waived::ByToken,
            (false, false) => Waived::Never,
        },
        success: number(&operation, "success"),
        also: number(&operation, "also"),
        of_organization: flag(&operation, "of_organization"),
        matter: match (flag(&operation, "under_way"), flag(&operation, "of_read_models")) {
            (true, _) => Matter::UnderWay,
            (false, true) => Matter::ReadModels,
            (false, false) => Matter::Logged,
        },
        not_built: flag(&operation, "not_built"),
    })
}

/// Returns the HTTP mapping of a method, where it has one.
pub fn http(method: &MethodDescriptor) -> Option<Http> {
    let Some(Value::Message(rule)) = extension(&method.options(), "google.api.http") else {
        return None;
    };
    let verb = ["get", "put", "post", "delete", "patch"].into_iter().find(|verb| rule.has_field_by_name(verb))?;
    Some(Http { verb: verb.to_owned(), path: text(&rule, verb), body: text(&rule, "body") })
}

/// Whether a field holds a secret.
pub fn is_secret(field: &FieldDescriptor) -> bool {
    matches!(extension(&field.options(), "platform.option.secret"), Some(Value::Bool(true)))
}

fn extension(options: &DynamicMessage, name: &str) -> Option<Value> {
    let extension = options.descriptor().get_extension_by_full_name(name)?;
    options.has_extension(&extension).then(|| options.get_extension(&extension).into_owned())
}

fn flag(message: &DynamicMessage, field: &str) -> bool {
    message.get_field_by_name(field).and_then(|value| value.as_bool()).unwrap_or_default()
}

fn number(message: &DynamicMessage, field: &str) -> u32 {
    message.get_field_by_name(field).and_then(|value| value.as_u32()).unwrap_or_default()
}

fn text(message: &DynamicMessage, field: &str) -> String {
    message.get_field_by_name(field).and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}
