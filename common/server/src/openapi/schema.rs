//! The schemas of messages and enums, made on first use.

use edge::page::Limits;
use prost_reflect::{EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor, OneofDescriptor};
use proto::{
    KEY,
    option::{self, ALWAYS_PRINTED},
};
use serde_json::{Map, Value, json};

use super::{
    comment::Comments,
    name::{Direction, Names},
    value,
};

/// The schemas that the document holds.
pub(super) struct Schemas<'a> {
    comments: &'a Comments,
    names: &'a Names,
    limits: Limits,
    made: Map<String, Value>,
}

impl<'a> Schemas<'a> {
    pub(super) fn new(comments: &'a Comments, names: &'a Names, limits: Limits) -> Self {
        Self { comments, names, limits, made: Map::new() }
    }

    /// All schemas that were used, by name.
    pub(super) fn into_map(self) -> Map<String, Value> {
        self.made
    }

    /// A reference to the schema of a message.
    pub(super) fn message(&mut self, message: &MessageDescriptor, way: Direction) -> Value {
        let name = self.names.get(message.full_name(), way);
        self.once(name, |schemas| schemas.object(message, way, &[]))
    }

    /// A reference to the schema of a request message without the fields that are elsewhere.
    pub(super) fn rest_of(&mut self, message: &MessageDescriptor, elsewhere: &[&str]) -> Value {
        let name = self.names.get(message.full_name(), Direction::Request);
        self.once(name, |schemas| schemas.object(message, Direction::Request, elsewhere))
    }

    /// The schema of a field within an object, in requests without `null`.
    pub(super) fn field(&mut self, field: &FieldDescriptor, way: Direction) -> Value {
        let mut schema = if field.is_map() {
            let entry = field.kind().as_message().map(MessageDescriptor::map_entry_value_field);
            let values = entry.map_or(json!(true), |entry| self.item(&entry, way));
            json!({ "type": "object", "additionalProperties": values })
        } else if field.is_list() {
            json!({ "type": "array", "items": self.item(field, way) })
        } else {
            self.item(field, way)
        };
        let rules = option::rules(field);
        if field.is_list() && rules.max_items > 0 && way == Direction::Request {
            schema["maxItems"] = json!(rules.max_items);
        }
        if field.is_map() && way == Direction::Request {
            schema["maxProperties"] = json!(rules.max_items);
            schema["propertyNames"] = json!({ "pattern": KEY, "maxLength": 100 });
        }
        let comment = self.comments.of_field(field);
        if !comment.is_empty() {
            schema["description"] = json!(comment);
        }
        let example = option::example(field);
        if !example.is_empty() && !field.is_list() {
            schema["examples"] = json!([super::example::item(field)]);
        }
        if field.full_name() == "platform.object.v3alpha.ListQuery.limit" {
            schema["maximum"] = json!(self.limits.largest);
            schema["default"] = json!(self.limits.default);
        }
        schema
    }

    fn item(&mut self, field: &FieldDescriptor, way: Direction) -> Value {
        let rules = option::rules(field);
        match field.kind() {
            Kind::Message(message) if message.package_name() != "google.protobuf" => {
                let reference = self.message(&message, way);
                if rules.empty_allowed && way == Direction::Request {
                    return json!({ "anyOf": [reference, { "type": "object", "maxProperties": 0 }] });
                }
                reference
            }
            Kind::Enum(kind) => {
                let mut reference = self.enumeration(&kind);
                if let Some(name) = value::excluded(&kind, &rules).filter(|_| way == Direction::Request) {
                    reference["not"] = json!({ "const": name });
                }
                reference
            }
            _ => value::scalar(field, way),
        }
    }

    fn enumeration(&mut self, kind: &EnumDescriptor) -> Value {
        let name = self.names.plain(kind.full_name());
        self.once(name, |schemas| {
            let mut schema = value::names(kind);
            schema["description"] = json!(schemas.comments.of_enum(kind));
            schema
        })
    }

    /// Makes a schema unless it exists, or is being made already because it contains itself.
    fn once(&mut self, name: String, make: impl FnOnce(&mut Self) -> Value) -> Value {
        let reference = json!({ "$ref": format!("#/components/schemas/{name}") });
        if !self.made.contains_key(&name) {
            self.made.insert(name.clone(), Value::Null);
            let schema = make(self);
            self.made.insert(name, schema);
        }
        reference
    }

    fn object(&mut self, message: &MessageDescriptor, way: Direction, elsewhere: &[&str]) -> Value {
        let (mut properties, mut required) = (Map::new(), vec![]);
        for field in message.fields().filter(|field| !elsewhere.contains(&field.name())) {
            let rules = option::rules(&field);
            let mut schema = self.field(&field, way);
            let is_required = match way {
                Direction::Request => value::is_required(&field, &rules),
                Direction::Answer => !field.supports_presence() && ALWAYS_PRINTED.contains(&field.name()),
            };
            if is_required {
                required.push(field.json_name().to_owned());
            } else if way == Direction::Request {
                schema = nullable(schema);
            }
            properties.insert(field.json_name().to_owned(), schema);
        }
        let choices: Vec<OneofDescriptor> = message.oneofs().filter(|oneof| !oneof.is_synthetic()).collect();
        let mut schema = json!({ "type": "object", "properties": properties });
        let comment = [self.comments.of_message(message).to_owned()].into_iter().chain(choices.iter().map(oneof_note));
        let description = comment.filter(|text| !text.is_empty()).collect::<Vec<_>>().join(" ");
        if !description.is_empty() {
            schema["description"] = json!(description);
        }
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        if way == Direction::Request {
            schema["additionalProperties"] = json!(false);
            let excluded: Vec<Value> = choices.iter().flat_map(excluded).collect();
            if !excluded.is_empty() {
                schema["not"] = json!({ "anyOf": excluded });
            }
        }
        schema
    }
}

/// Makes a schema allow `null`, too, which is the same as leaving the member out.
fn nullable(mut schema: Value) -> Value {
    // An enum of a constant and `null` makes generators omit the complete message.
    if schema.get("const").is_none()
        && let Some(kind) = schema.get("type").cloned()
    {
        schema["type"] = json!([kind, "null"]);
        return schema;
    }
    let mut outer = Map::new();
    if let Some(description) = schema.as_object_mut().and_then(|schema| schema.remove("description")) {
        outer.insert("description".to_owned(), description);
    }
    outer.insert("anyOf".to_owned(), json!([schema, { "type": "null" }]));
    Value::Object(outer)
}

/// Describes the rule of a oneof for the object with its members.
fn oneof_note(oneof: &OneofDescriptor) -> String {
    let names: Vec<String> = oneof.fields().map(|member| format!("`{}`", member.json_name())).collect();
    let count = if option::is_required(oneof) { "Exactly" } else { "At most" };
    format!("{count} one of {}.", names.join(", "))
}

/// The schemas that an object must not match because of a oneof, where `null` members count as absent. It is not
/// written as `oneOf`, because generators make types of that which lose the other members.
fn excluded(oneof: &OneofDescriptor) -> Vec<Value> {
    let members: Vec<FieldDescriptor> = oneof.fields().collect();
    let mut excluded = vec![];
    if option::is_required(oneof) {
        let absent = members.iter().map(|member| (member.json_name().to_owned(), json!({ "type": "null" })));
        excluded.push(json!({ "properties": absent.collect::<Map<_, _>>() }));
    }
    for (place, first) in members.iter().enumerate() {
        excluded.extend(members[place + 1..].iter().map(|second| {
            let names = [first.json_name(), second.json_name()];
            let kinds = [first, second].map(|member| json!({ "type": value::json_type(member) }));
            json!({ "required": names, "properties": { names[0]: kinds[0], names[1]: kinds[1] } })
        }));
    }
    excluded
}
