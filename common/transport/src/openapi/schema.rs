//! The schemas of messages and enums, made when they are asked for first.

use prost_reflect::{EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor, OneofDescriptor};
use proto::option::{self, ALWAYS_PRINTED};
use serde_json::{Map, Value, json};

use super::{
    comment::Comments,
    name::{Names, Way},
    value,
};
use crate::page::{DEFAULT_LIMIT, LARGEST_LIMIT};

/// The schemas that the document holds.
pub(super) struct Schemas<'a> {
    comments: &'a Comments,
    names: &'a Names,
    made: Map<String, Value>,
}

impl<'a> Schemas<'a> {
    pub(super) fn new(comments: &'a Comments, names: &'a Names) -> Self {
        Self { comments, names, made: Map::new() }
    }

    /// All that were asked for, by name.
    pub(super) fn into_map(self) -> Map<String, Value> {
        self.made
    }

    /// A reference to the schema of a message.
    pub(super) fn message(&mut self, message: &MessageDescriptor, way: Way) -> Value {
        let name = self.names.get(message.full_name(), way);
        self.once(name, |schemas| schemas.object(message, way, &[]))
    }

    /// A reference to the schema of a request message without the fields that are elsewhere.
    pub(super) fn rest_of(&mut self, message: &MessageDescriptor, elsewhere: &[&str]) -> Value {
        let name = self.names.get(message.full_name(), Way::Request);
        self.once(name, |schemas| schemas.object(message, Way::Request, elsewhere))
    }

    /// The schema of a field as it stands in an object, in requests without `null`.
    pub(super) fn field(&mut self, field: &FieldDescriptor, way: Way) -> Value {
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
        if field.is_list() && rules.max_items > 0 && way == Way::Request {
            schema["maxItems"] = json!(rules.max_items);
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
            schema["maximum"] = json!(LARGEST_LIMIT);
            schema["default"] = json!(DEFAULT_LIMIT);
        }
        schema
    }

    fn item(&mut self, field: &FieldDescriptor, way: Way) -> Value {
        let rules = option::rules(field);
        match field.kind() {
            Kind::Message(message) if message.package_name() != "google.protobuf" => {
                let reference = self.message(&message, way);
                if rules.empty_allowed && way == Way::Request {
                    return json!({ "anyOf": [reference, { "type": "object", "maxProperties": 0 }] });
                }
                reference
            }
            Kind::Enum(kind) => {
                let mut reference = self.enumeration(&kind);
                if let Some(name) = value::excluded(&kind, &rules).filter(|_| way == Way::Request) {
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

    /// Makes a schema unless it is there, or is just being made because it holds itself.
    fn once(&mut self, name: String, make: impl FnOnce(&mut Self) -> Value) -> Value {
        let reference = json!({ "$ref": format!("#/components/schemas/{name}") });
        if !self.made.contains_key(&name) {
            self.made.insert(name.clone(), Value::Null);
            let schema = make(self);
            self.made.insert(name, schema);
        }
        reference
    }

    fn object(&mut self, message: &MessageDescriptor, way: Way, elsewhere: &[&str]) -> Value {
        let (mut properties, mut required) = (Map::new(), vec![]);
        for field in message.fields().filter(|field| !elsewhere.contains(&field.name())) {
            let rules = option::rules(&field);
            let mut schema = self.field(&field, way);
            let is_required = match way {
                Way::Request => value::is_required(&field, &rules),
                Way::Answer => !field.supports_presence() && ALWAYS_PRINTED.contains(&field.name()),
            };
            if is_required {
                required.push(field.json_name().to_owned());
            } else if way == Way::Request {
                schema = nullable(schema);
            }
            properties.insert(field.json_name().to_owned(), schema);
        }
        let mut schema = json!({ "type": "object", "properties": properties });
        let comment = self.comments.of_message(message);
        if !comment.is_empty() {
            schema["description"] = json!(comment);
        }
        if !required.is_empty() {
            schema["required"] = json!(required);
        }
        if way == Way::Request {
            schema["additionalProperties"] = json!(false);
        }
        let choices = message.oneofs().filter(|oneof| !oneof.is_synthetic());
        constrain(&mut schema, choices.map(|oneof| choice(&oneof, way)).collect());
        schema
    }
}

/// The schema that allows `null` too, which is the same as leaving the member out.
fn nullable(mut schema: Value) -> Value {
    if let Some(constant) = schema.get("const").cloned() {
        schema["enum"] = json!([constant, null]);
        schema.as_object_mut().map(|schema| schema.remove("const"));
    }
    if let Some(kind) = schema.get("type").cloned() {
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

/// What a oneof says of the object that has its members: exactly one, or at most one.
fn choice(oneof: &OneofDescriptor, way: Way) -> (&'static str, Value) {
    let members: Vec<FieldDescriptor> = oneof.fields().collect();
    if option::is_required(oneof) {
        return ("oneOf", members.iter().map(|member| present(&[member], way)).collect());
    }
    let pairs = members.iter().enumerate().flat_map(|(place, first)| {
        let later = members.get(place + 1..).unwrap_or_default();
        later.iter().map(move |second| present(&[first, second], way))
    });
    match <[Value; 1]>::try_from(pairs.collect::<Vec<_>>()) {
        Ok([pair]) => ("not", pair),
        Err(pairs) => ("not", json!({ "anyOf": pairs })),
    }
}

/// That members are there, and are not `null` where that may be.
fn present(members: &[&FieldDescriptor], way: Way) -> Value {
    let names: Vec<&str> = members.iter().map(|member| member.json_name()).collect();
    if way == Way::Answer {
        return json!({ "required": names });
    }
    let types =
        members.iter().map(|member| (member.json_name().to_owned(), json!({ "type": value::json_type(member) })));
    json!({ "required": names, "properties": types.collect::<Map<_, _>>() })
}

/// Adds constraints to a schema; several of one kind must all hold.
fn constrain(schema: &mut Value, constraints: Vec<(&'static str, Value)>) {
    for (keyword, constraint) in constraints {
        if schema.get(keyword).is_none() {
            schema[keyword] = constraint;
        } else if let Some(all) = schema["allOf"].as_array_mut() {
            all.push(json!({ keyword: constraint }));
        } else {
            schema["allOf"] = json!([{ keyword: constraint }]);
        }
    }
}
