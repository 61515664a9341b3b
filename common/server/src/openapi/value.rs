//! The schema of one value: its type, and in requests its rules.

use prost_reflect::{EnumDescriptor, FieldDescriptor, Kind};
use proto::option::{self, Rules};
use serde_json::{Value, json};

use super::{duration, name::Direction};

/// The schema of a value that is neither a message nor an enum.
pub(super) fn scalar(field: &FieldDescriptor, way: Direction) -> Value {
    // Answers contain values that met the rules when they were written.
    let rules = if way == Direction::Request { option::rules(field) } else { Rules::default() };
    match field.kind() {
        Kind::Message(kind) if kind.full_name() == "google.protobuf.Timestamp" => {
            json!({ "type": "string", "format": "date-time" })
        }
        Kind::Message(kind) if kind.full_name() == "google.protobuf.Struct" => json!({ "type": "object" }),
        Kind::Message(_) => span(&rules, way),
        Kind::Bool if rules.const_true => json!({ "type": "boolean", "const": true }),
        Kind::Bool => json!({ "type": "boolean" }),
        Kind::Bytes => json!({ "type": "string", "contentEncoding": "base64" }),
        Kind::Uint64 | Kind::Fixed64 => json!({ "type": "string", "format": "uint64", "pattern": "^[0-9]{1,20}$" }),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => {
            json!({ "type": "string", "format": "int64", "pattern": "^-?[0-9]{1,19}$" })
        }
        Kind::Uint32 | Kind::Fixed32 => {
            json!({ "type": "integer", "format": "uint32", "minimum": 0, "maximum": u32::MAX })
        }
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => {
            json!({ "type": "integer", "format": "int32", "minimum": i32::MIN, "maximum": i32::MAX })
        }
        Kind::Double | Kind::Float => json!({ "type": "number" }),
        _ if rules.empty_allowed => json!({ "anyOf": [text(&rules), { "type": "string", "const": "" }] }),
        _ => text(&rules),
    }
}

/// The names of an enum's values.
pub(super) fn names(kind: &EnumDescriptor) -> Value {
    let names: Vec<String> = kind.values().map(|value| value.name().to_owned()).collect();
    json!({ "type": "string", "enum": names })
}

/// The type that a value has in JSON.
pub(super) fn json_type(field: &FieldDescriptor) -> &'static str {
    match field.kind() {
        Kind::Message(kind) if kind.full_name() == "google.protobuf.Struct" => "object",
        Kind::Message(kind) if kind.package_name() == "google.protobuf" => "string",
        Kind::Message(_) => "object",
        Kind::Bool => "boolean",
        Kind::Uint32 | Kind::Fixed32 | Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => "integer",
        Kind::Double | Kind::Float => "number",
        _ => "string",
    }
}

/// Whether a request must have the field.
pub(super) fn is_required(field: &FieldDescriptor, rules: &Rules) -> bool {
    if field.is_list() || field.is_map() || is_choice(field) {
        return false;
    }
    match field.kind() {
        _ if field.supports_presence() => rules.required,
        Kind::String if rules.empty_allowed => false,
        Kind::String => rules.min_len > 0 || rules.uri || rules.http_url || !rules.pattern.is_empty(),
        Kind::Bool => rules.const_true,
        Kind::Enum(kind) => excluded(&kind, rules).is_some(),
        _ => false,
    }
}

/// Whether the field is a member of a oneof.
pub(super) fn is_choice(field: &FieldDescriptor) -> bool {
    field.containing_oneof().is_some_and(|oneof| !oneof.is_synthetic())
}

/// The value of an enum that the rules exclude.
pub(super) fn excluded(kind: &EnumDescriptor, rules: &Rules) -> Option<String> {
    let default = kind.default_value();
    (rules.defined && default.name().ends_with("_UNSPECIFIED")).then(|| default.name().to_owned())
}

/// A pattern that every URL with a host and without a user matches; its format covers the rest.
const HTTP_URL: &str = "^[Hh][Tt][Tt][Pp][Ss]?://[^/?#@]+([/?#].*)?$";

fn text(rules: &Rules) -> Value {
    let mut schema = json!({ "type": "string" });
    if rules.min_len > 0 {
        schema["minLength"] = json!(rules.min_len);
    }
    if rules.max_len > 0 {
        schema["maxLength"] = json!(rules.max_len);
    }
    if rules.uri {
        schema["format"] = json!("uri");
    }
    if rules.http_url {
        schema["pattern"] = json!(HTTP_URL);
    }
    match (rules.no_control, rules.pattern.is_empty()) {
        (true, true) => schema["pattern"] = json!("^[^\\u0000-\\u001F]*$"),
        (true, false) => {
            schema["pattern"] = json!(rules.pattern);
            schema["not"] = json!({ "type": "string", "pattern": "[\\u0000-\\u001F]" });
        }
        (false, false) => schema["pattern"] = json!(rules.pattern),
        (false, true) => {}
    }
    schema
}

fn span(rules: &Rules, way: Direction) -> Value {
    let may_be_negative = way == Direction::Request && !rules.gt_zero && !rules.non_negative;
    let pattern = duration::pattern(rules.max_seconds, may_be_negative);
    let mut schema = json!({ "type": "string", "pattern": pattern });
    if rules.gt_zero {
        schema["not"] = json!({ "type": "string", "pattern": "^0(\\.0+)?s$" });
    }
    schema
}
