//! Reads a tree of JSON values as a message, and describes faults in terms of JSON rather than of Rust.

use std::fmt;

use serde::{
    Deserializer,
    de::{
        self, DeserializeOwned, DeserializeSeed, Expected, MapAccess, SeqAccess, Unexpected, Visitor,
        value::StrDeserializer,
    },
};
use serde_json::{Map, Value, map};

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

/// A step of a path from an object or an array to what is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Segment {
    Member(String),
    Item(usize),
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
    I::deserialize(Node(Value::Object(request))).map_err(|Misread { why, mut path }| {
        path.reverse();
        Unread { path, why }
    })
}

/// The path in the names of the proto file: `filters[0].in_ids`.
pub(super) fn field(path: &[Segment]) -> String {
    path.iter().fold(String::new(), |path, segment| match segment {
        Segment::Item(index) => format!("{path}[{index}]"),
        Segment::Member(key) => within(&path, &snake_case(key)),
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

/// A fault on its way from the value that has it to the whole message.
#[derive(Debug)]
struct Misread {
    why: Fault,
    /// The steps that it has gone through, the innermost first.
    path: Vec<Segment>,
}

impl From<Fault> for Misread {
    fn from(why: Fault) -> Self {
        Self { why, path: vec![] }
    }
}

impl Misread {
    fn within(mut self, segment: Segment) -> Self {
        self.path.push(segment);
        self
    }
}

impl fmt::Display for Misread {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.why.fmt(formatter)
    }
}

impl std::error::Error for Misread {}

impl de::Error for Misread {
    /// Only faults of numbers arrive here, with messages about Rust.
    fn custom<T: fmt::Display>(_: T) -> Self {
        Fault::Value("must be a whole number in the range of its type".to_owned()).into()
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Fault::Value(format!("must be {}, not {}", plain(expected), kind(found))).into()
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Fault::Value(format!("must be {}", plain(expected))).into()
    }

    fn unknown_variant(_: &str, variants: &'static [&'static str]) -> Self {
        Fault::Value(format!("{ONE_OF}{}", variants.join(", "))).into()
    }

    fn unknown_field(name: &str, _: &'static [&'static str]) -> Self {
        Fault::Unknown(name.to_owned()).into()
    }

    fn duplicate_field(name: &'static str) -> Self {
        Fault::Twice(name.to_owned()).into()
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

impl<'de> Deserializer<'de> for Node {
    type Error = Misread;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misread> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(value),
            Value::Number(number) => match (unsigned(&number), number.as_i64(), number.as_f64()) {
                (Some(value), _, _) => visitor.visit_u64(value),
                (None, Some(value), _) => visitor.visit_i64(value),
                (None, None, value) => visitor.visit_f64(value.unwrap_or(f64::NAN)),
            },
            Value::String(text) => visitor.visit_string(text),
            Value::Array(items) => visitor.visit_seq(Items { left: items.into_iter(), at: 0 }),
            Value::Object(members) => visitor.visit_map(Members { left: members.into_iter(), at: None }),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Misread> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Misread> {
        visitor.visit_newtype_struct(self)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct enum identifier ignored_any
    }
}

/// The items of an array that are still to be read.
struct Items {
    left: std::vec::IntoIter<Value>,
    at: usize,
}

impl<'de> SeqAccess<'de> for Items {
    type Error = Misread;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Misread> {
        let Some(item) = self.left.next() else { return Ok(None) };
        let read = seed.deserialize(Node(item)).map_err(|misread| misread.within(Segment::Item(self.at)))?;
        self.at += 1;
        Ok(Some(read))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.left.len())
    }
}

/// The members of an object that are still to be read.
struct Members {
    left: map::IntoIter,
    /// The name that was read, and its value, which is read next.
    at: Option<(String, Value)>,
}

impl<'de> MapAccess<'de> for Members {
    type Error = Misread;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Misread> {
        let Some((name, value)) = self.left.next() else { return Ok(None) };
        match seed.deserialize(StrDeserializer::new(&name)) {
            Ok(read) => {
                self.at = Some((name, value));
                Ok(Some(read))
            }
            Err(misread) => Err(Misread::within(misread, Segment::Member(name))),
        }
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Misread> {
        let (name, value) = self.at.take().unwrap_or_default();
        seed.deserialize(Node(value)).map_err(|misread| misread.within(Segment::Member(name)))
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
