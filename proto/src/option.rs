//! Reads the options of platform/option.proto and the HTTP mapping.

use prost_reflect::{DynamicMessage, FieldDescriptor, MethodDescriptor, OneofDescriptor, ReflectMessage, Value};

/// What `platform.option.Rules` says of a field; everything off when it says nothing.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
pub(crate) struct Rules {
    pub(crate) required: bool,
    pub(crate) min_len: u32,
    pub(crate) max_len: u32,
    pub(crate) uri: bool,
    pub(crate) pattern: String,
    pub(crate) no_control: bool,
    pub(crate) defined: bool,
    pub(crate) const_true: bool,
    pub(crate) gt_zero: bool,
    pub(crate) non_negative: bool,
    pub(crate) max_seconds: u32,
    pub(crate) max_items: u32,
    pub(crate) empty_allowed: bool,
}

/// The HTTP mapping of a method.
pub(crate) struct Http {
    pub(crate) verb: String,
    pub(crate) path: String,
    pub(crate) body: String,
}

/// Who may call a method, and what it answers.
pub(crate) struct Operation {
    pub(crate) permission: String,
    pub(crate) authenticated: bool,
    pub(crate) success: u32,
}

pub(crate) fn rules(field: &FieldDescriptor) -> Rules {
    let Some(Value::Message(rules)) = extension(&field.options(), "platform.option.rules") else {
        return Rules::default();
    };
    Rules {
        required: flag(&rules, "required"),
        min_len: number(&rules, "min_len"),
        max_len: number(&rules, "max_len"),
        uri: flag(&rules, "uri"),
        pattern: text(&rules, "pattern"),
        no_control: flag(&rules, "no_control"),
        defined: flag(&rules, "defined"),
        const_true: flag(&rules, "const_true"),
        gt_zero: flag(&rules, "gt_zero"),
        non_negative: flag(&rules, "non_negative"),
        max_seconds: number(&rules, "max_seconds"),
        max_items: number(&rules, "max_items"),
        empty_allowed: flag(&rules, "empty_allowed"),
    }
}

pub(crate) fn is_required(oneof: &OneofDescriptor) -> bool {
    matches!(extension(&oneof.options(), "platform.option.required"), Some(Value::Bool(true)))
}

pub(crate) fn feature(method: &MethodDescriptor) -> String {
    match extension(&method.parent_service().options(), "platform.option.feature") {
        Some(Value::String(feature)) => feature,
        _ => String::new(),
    }
}

pub(crate) fn operation(method: &MethodDescriptor) -> Option<Operation> {
    let Some(Value::Message(operation)) = extension(&method.options(), "platform.option.operation") else {
        return None;
    };
    Some(Operation {
        permission: text(&operation, "permission"),
        authenticated: flag(&operation, "authenticated"),
        success: number(&operation, "success"),
    })
}

pub(crate) fn http(method: &MethodDescriptor) -> Option<Http> {
    let Some(Value::Message(rule)) = extension(&method.options(), "google.api.http") else {
        return None;
    };
    let verb = ["get", "put", "post", "delete", "patch"].into_iter().find(|verb| rule.has_field_by_name(verb))?;
    Some(Http { verb: verb.to_owned(), path: text(&rule, verb), body: text(&rule, "body") })
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
