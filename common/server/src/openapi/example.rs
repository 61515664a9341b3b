//! Examples of messages: from the proto files, or else suggested by types and rules.

use prost_reflect::{EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};
use proto::option;
use serde_json::{Map, Value, json};

const ID: &str = "117486514211913728";

/// An example of a message with every field, and with the first member of each oneof.
pub(super) fn message(message: &MessageDescriptor) -> Value {
    let is_shown = |field: &FieldDescriptor| {
        field.containing_oneof().and_then(|oneof| oneof.fields().next()).is_none_or(|first| first == *field)
    };
    let members = message.fields().filter(is_shown).map(|field| (field.json_name().to_owned(), self::field(&field)));
    Value::Object(members.collect::<Map<_, _>>())
}

/// An example of a field, in a list if it is repeated.
pub(super) fn field(field: &FieldDescriptor) -> Value {
    if let Some(entry) = field.kind().as_message().filter(|_| field.is_map()) {
        return json!({ "name": item(&entry.map_entry_value_field()) });
    }
    let item = item(field);
    if field.is_list() { json!([item]) } else { item }
}

/// An example of a field that is not repeated, or of one item.
pub(super) fn item(field: &FieldDescriptor) -> Value {
    let shown = option::example(field);
    match field.kind() {
        Kind::Message(kind) => match kind.full_name() {
            "google.protobuf.Timestamp" => json!(or(shown, || "2026-11-21T04:49:27.897215Z".to_owned())),
            "google.protobuf.Duration" => json!(or(shown, || duration(field))),
            // For properties of settings that may not have just any value.
            _ if !shown.is_empty() => serde_json::from_str(&shown).unwrap_or_default(),
            _ => message(&kind),
        },
        Kind::Bool => json!(shown != "false"),
        Kind::Enum(kind) => json!(or(shown, || constant(&kind))),
        Kind::String => json!(or(shown, || text(field))),
        Kind::Bytes => json!(or(shown, || "aGVsbG8=".to_owned())),
        Kind::Uint64 | Kind::Int64 | Kind::Fixed64 | Kind::Sfixed64 | Kind::Sint64 => {
            json!(or(shown, || "18".to_owned()))
        }
        Kind::Double | Kind::Float => json!(shown.parse().unwrap_or(1.5)),
        _ => json!(shown.parse().unwrap_or(1)),
    }
}

fn or(shown: String, otherwise: impl FnOnce() -> String) -> String {
    if shown.is_empty() { otherwise() } else { shown }
}

fn text(field: &FieldDescriptor) -> String {
    let name = field.name();
    let is_id = ["id", "ids"].iter().any(|id| name == *id || name.ends_with(&format!("_{id}")));
    match () {
        () if option::rules(field).uri || option::rules(field).http_url => "https://example.com".to_owned(),
        () if is_id || matches!(name, "targets" | "includes") => ID.to_owned(),
        () => name.replace('_', " "),
    }
}

fn duration(field: &FieldDescriptor) -> String {
    match option::rules(field).max_seconds {
        0 => "10s".to_owned(),
        max => format!("{}s", max.min(10)),
    }
}

/// The first value that is not the unspecified one.
fn constant(kind: &EnumDescriptor) -> String {
    kind.values().nth(1).unwrap_or_else(|| kind.default_value()).name().to_owned()
}

#[cfg(test)]
mod tests {
    use prost_reflect::DescriptorPool;

    use super::*;

    #[test]
    fn an_example_has_one_of_each_oneof() {
        let pool = DescriptorPool::decode(proto::DESCRIPTORS).unwrap();
        let target = pool.get_message_by_name("platform.resources.action.v3alpha.Target").unwrap();
        let webhook = json!({ "url": "https://example.com/hook" });
        let expected = json!({ "name": "order hook", "restWebhook": webhook, "timeout": "10s", "isAsync": true });
        assert_eq!(message(&target), expected);
    }
}
