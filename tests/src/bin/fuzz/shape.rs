//! Requests that the proto files describe, and the words in them.

use std::sync::LazyLock;

use prost_reflect::{DescriptorPool, FieldDescriptor, Kind, MessageDescriptor};
use proto::{DESCRIPTORS, option};
use serde_json::{Map, Value, json};

use crate::random::Random;

/// How deeply messages are nested.
const DEEPEST: usize = 6;

static POOL: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(DESCRIPTORS).expect("the build has encoded them"));

/// The names of fields, in both spellings, and of enum values.
pub(crate) static WORDS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let messages = POOL.all_messages().filter(|message| message.full_name().starts_with("platform."));
    let fields = messages.flat_map(|message| message.fields().collect::<Vec<_>>());
    let mut words: Vec<String> = fields.flat_map(|it| [it.json_name().to_owned(), it.name().to_owned()]).collect();
    words.extend(POOL.all_enums().flat_map(|it| it.values().map(|value| value.name().to_owned()).collect::<Vec<_>>()));
    words.sort();
    words.dedup();
    words
});

/// Returns a message with this name as JSON: some of its fields, with values that its rules allow.
pub(crate) fn message(name: &str, random: &mut Random) -> Map<String, Value> {
    let descriptor = POOL.get_message_by_name(name).expect("every request is described");
    fields(&descriptor, DEEPEST, random)
}

fn fields(message: &MessageDescriptor, depth: usize, random: &mut Random) -> Map<String, Value> {
    let mut members = Map::new();
    let chosen: Vec<_> = message.oneofs().map(|it| it.fields().nth(random.below(it.fields().len()))).collect();
    for field in message.fields() {
        let is_chosen = match field.containing_oneof() {
            Some(oneof) if !field.field_descriptor_proto().proto3_optional() => chosen
                .iter()
                .flatten()
                .any(|chosen| chosen.containing_oneof().as_ref() == Some(&oneof) && *chosen == field),
            _ => !random.once_in(4),
        };
        if is_chosen && depth > 0 {
            members.insert(field.json_name().to_owned(), value(&field, depth, random));
        }
    }
    members
}

fn value(field: &FieldDescriptor, depth: usize, random: &mut Random) -> Value {
    if let Some(entry) = field.kind().as_message().filter(|_| field.is_map()) {
        return json!({ "name": single(&entry.map_entry_value_field(), depth, random) });
    }
    if field.is_list() {
        return (0..random.below(3)).map(|_| single(field, depth, random)).collect();
    }
    single(field, depth, random)
}

fn single(field: &FieldDescriptor, depth: usize, random: &mut Random) -> Value {
    let example = option::example(field);
    match field.kind() {
        Kind::Bool => json!(true),
        Kind::String | Kind::Bytes if example.is_empty() => json!("117482342049644545"),
        Kind::Enum(known) => {
            let at = random.below(known.values().len());
            json!(known.values().nth(at).map(|value| value.name().to_owned()))
        }
        Kind::Message(message) if message.full_name() == "google.protobuf.Duration" => json!("1.500s"),
        Kind::Message(message) if message.full_name() == "google.protobuf.Timestamp" => json!("2026-11-21T04:49:27.5Z"),
        Kind::Message(message) if message.full_name() == "google.protobuf.Struct" => {
            serde_json::from_str(&example).unwrap_or_else(|_| json!({}))
        }
        Kind::Message(message) => Value::Object(fields(&message, depth - 1, random)),
        Kind::Uint64 | Kind::Int64 => json!(random.below(100).to_string()),
        Kind::String | Kind::Bytes => json!(example),
        _ => json!(random.below(100)),
    }
}
