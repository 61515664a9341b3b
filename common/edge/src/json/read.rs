//! Reads a tree of JSON values as a message, and describes faults in terms of JSON rather than of Rust.

use std::fmt;

use serde::{
    Deserializer,
    de::{
        self, DeserializeOwned, Expected, IntoDeserializer, Unexpected, Visitor,
        value::{MapDeserializer, SeqDeserializer},
    },
};
use serde_json::{Map, Value};
use serde_path_to_error::Segment;

use super::{faults::shortened_name, snake_case};

/// The rule for a member that is there twice.
pub(super) const ONCE: &str = "must be set once, and not together with an alternative";

/// What precedes the values of an enumeration in a rule.
pub(super) const ONE_OF: &str = "must be one of ";

/// Why a message could not be read, and where.
#[derive(Debug)]
pub(crate) struct Unread {
    pub(super) path: Vec<Segment>,
    pub(super) why: Fault,
}

impl fmt::Display for Unread {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = shortened_name(&field(&self.path));
        match &self.why {
            // The path ends with the name.
            Fault::Unknown(_) => write!(formatter, "there is no field {field}"),
            Fault::Twice(name) => write!(formatter, "{} {ONCE}", shortened_name(&within(&field, &snake_case(name)))),
            Fault::Value(rule) => write!(formatter, "{field} {rule}"),
        }
    }
}

/// Reads a message, up to the first fault.
pub(crate) fn message<I: DeserializeOwned>(request: Map<String, Value>) -> Result<I, Unread> {
    serde_path_to_error::deserialize(Node(Value::Object(request))).map_err(
        |error: serde_path_to_error::Error<Fault>| Unread {
            path: error.path().iter().cloned().collect(),
            why: error.into_inner(),
        },
    )
}

/// The path in the names of the proto file: `filters[0].in_ids`.
pub(super) fn field(path: &[Segment]) -> String {
    path.iter().fold(String::new(), |path, segment| match segment {
        Segment::Seq { index } => format!("{path}[{index}]"),
        Segment::Map { key } => within(&path, &snake_case(key)),
        Segment::Enum { .. } | Segment::Unknown => path,
    })
}

pub(super) fn within(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

/// What is wrong with a value.
#[derive(Debug)]
pub(super) enum Fault {
    /// No member has this name.
    Unknown(String),
    /// The member is there in both spellings, or together with an alternative of its oneof.
    Twice(String),
    /// The value breaks this rule.
    Value(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(text) | Self::Twice(text) | Self::Value(text) => formatter.write_str(text),
        }
    }
}

impl std::error::Error for Fault {}

impl de::Error for Fault {
    /// Only faults of numbers arrive here, with messages about Rust.
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self::Value("must be a whole number in the range of its type".to_owned())
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::Value(format!("must be {}, not {}", plain(expected), kind(found)))
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::Value(format!("must be {}", plain(expected)))
    }

    fn unknown_variant(_: &str, variants: &'static [&'static str]) -> Self {
        Self::Value(format!("{ONE_OF}{}", variants.join(", ")))
    }

    fn unknown_field(name: &str, _: &'static [&'static str]) -> Self {
        Self::Unknown(name.to_owned())
    }

    fn duplicate_field(name: &'static str) -> Self {
        Self::Twice(name.to_owned())
    }
}

/// Rewords what a generated visitor expects.
fn plain(expected: &dyn Expected) -> String {
    let text = expected.to_string();
    match text.as_str() {
        "a boolean" => "true or false".to_owned(),
        "a sequence" => "an array".to_owned(),
        message if message.starts_with("struct ") => "an object".to_owned(),
        other => match other.strip_prefix("expected one of: ") {
            Some(values) => format!("one of {}", values.replace(['"', '[', ']'], "")),
            None => text,
        },
    }
}

fn kind(found: Unexpected<'_>) -> &'static str {
    match found {
        Unexpected::Bool(_) => "a boolean",
        Unexpected::Unsigned(_) | Unexpected::Signed(_) | Unexpected::Float(_) => "a number",
        Unexpected::Str(_) => "a string",
        Unexpected::Unit => "null",
        Unexpected::Seq => "an array",
        _ => "an object",
    }
}

/// A value to be read.
struct Node(Value);

impl IntoDeserializer<'_, Fault> for Node {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Node {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(value),
            Value::Number(number) => match (unsigned(&number), number.as_i64(), number.as_f64()) {
                (Some(value), _, _) => visitor.visit_u64(value),
                (None, Some(value), _) => visitor.visit_i64(value),
                (None, None, value) => visitor.visit_f64(value.unwrap_or(f64::NAN)),
            },
            Value::String(text) => visitor.visit_string(text),
            Value::Array(items) => visitor.visit_seq(SeqDeserializer::new(items.into_iter().map(Node))),
            Value::Object(members) => {
                visitor.visit_map(MapDeserializer::new(members.into_iter().map(|(name, value)| (name, Node(value)))))
            }
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct enum identifier ignored_any
    }
}

/// The number, if it is whole and not negative; `1.0` and `1e3` are.
fn unsigned(number: &serde_json::Number) -> Option<u64> {
    number.as_u64().or_else(|| {
        let value = number.as_f64().filter(|value| value.fract() == 0.0)?;
        format!("{value}").parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use proto::action::CreateTargetRequest;
    use serde_json::json;

    use super::*;

    #[test]
    fn why_a_message_could_not_be_read_is_said_with_its_place() {
        let unread = |request: Value| {
            let Value::Object(request) = request else { panic!("it is an object") };
            message::<CreateTargetRequest>(request).unwrap_err().to_string()
        };
        assert_eq!(unread(json!({ "target": { "nothing": 1 } })), "there is no field target.nothing");
        assert_eq!(unread(json!({ "target": { "name": 1 } })), "target.name must be a string, not a number");
        let twice = json!({ "target": { "isAsync": true, "is_async": false } });
        assert_eq!(unread(twice), format!("target.is_async {ONCE}"));
        let long = unread(json!({ "target": { "n".repeat(1000): 1 } }));
        assert!(long.len() < 300 && long.ends_with('…'), "{long}");
    }
}
