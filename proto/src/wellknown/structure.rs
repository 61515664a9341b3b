//! `google.protobuf.Struct`: a JSON object. A member that is null counts as absent, as everywhere in the API.
//!
//! Protobuf reads no deeply nested message, so such an object is refused in JSON, too.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::{Map, Value as Json};

/// How deep objects and arrays may be nested in JSON, the object itself counted.
const DEEPEST: usize = 16;

/// A JSON object.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Struct {
    /// Its members.
    #[prost(btree_map = "string, message", tag = "1")]
    pub fields: BTreeMap<String, Value>,
}

/// A JSON value.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Value {
    /// The kind of the value; null where it is not set.
    #[prost(oneof = "Kind", tags = "1, 2, 3, 4, 5, 6")]
    pub kind: Option<Kind>,
}

/// The kinds of JSON values.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Kind {
    /// Null.
    #[prost(int32, tag = "1")]
    Null(i32),
    /// A number.
    #[prost(double, tag = "2")]
    Number(f64),
    /// A string.
    #[prost(string, tag = "3")]
    String(String),
    /// True or false.
    #[prost(bool, tag = "4")]
    Bool(bool),
    /// An object.
    #[prost(message, tag = "5")]
    Struct(Struct),
    /// An array.
    #[prost(message, tag = "6")]
    List(ListValue),
}

/// A JSON array.
#[derive(Clone, PartialEq, prost::Message)]
pub struct ListValue {
    /// Its items.
    #[prost(message, repeated, tag = "1")]
    pub values: Vec<Value>,
}

impl From<Map<String, Json>> for Struct {
    fn from(members: Map<String, Json>) -> Self {
        Self { fields: members.into_iter().map(|(name, value)| (name, value.into())).collect() }
    }
}

impl From<Json> for Value {
    fn from(value: Json) -> Self {
        let kind = match value {
            Json::Null => Kind::Null(0),
            Json::Bool(value) => Kind::Bool(value),
            Json::Number(number) => Kind::Number(number.as_f64().unwrap_or_default()),
            Json::String(text) => Kind::String(text),
            Json::Array(items) => Kind::List(ListValue { values: items.into_iter().map(Into::into).collect() }),
            Json::Object(members) => Kind::Struct(members.into()),
        };
        Self { kind: Some(kind) }
    }
}

impl From<Struct> for Map<String, Json> {
    fn from(object: Struct) -> Self {
        let members = object.fields.into_iter().map(|(name, value)| (name, Json::from(value)));
        members.filter(|(_, value)| !value.is_null()).collect()
    }
}

impl From<Value> for Json {
    fn from(value: Value) -> Self {
        match value.kind {
            None | Some(Kind::Null(_)) => Self::Null,
            Some(Kind::Number(number)) => number.into(),
            Some(Kind::String(text)) => text.into(),
            Some(Kind::Bool(value)) => value.into(),
            Some(Kind::Struct(object)) => Self::Object(object.into()),
            Some(Kind::List(list)) => Self::Array(list.values.into_iter().map(Self::from).collect()),
        }
    }
}

impl Serialize for Struct {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Map::from(self.clone()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Struct {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Json::deserialize(deserializer)? {
            object if is_deeper(&object, DEEPEST) => {
                Err(de::Error::invalid_value(de::Unexpected::Map, &"an object that is nested at most 16 deep"))
            }
            Json::Object(members) => Ok(members.into()),
            other => Err(de::Error::invalid_type(unexpected(&other), &"an object")),
        }
    }
}

fn is_deeper(value: &Json, than: usize) -> bool {
    let is_inner_deeper = |inner: &Json| is_deeper(inner, than - 1);
    match value {
        Json::Array(items) => than == 0 || items.iter().any(is_inner_deeper),
        Json::Object(members) => than == 0 || members.values().any(is_inner_deeper),
        _ => false,
    }
}

fn unexpected(value: &Json) -> de::Unexpected<'_> {
    match value {
        Json::Null => de::Unexpected::Unit,
        Json::Bool(value) => de::Unexpected::Bool(*value),
        Json::Number(number) => de::Unexpected::Float(number.as_f64().unwrap_or_default()),
        Json::String(text) => de::Unexpected::Str(text),
        Json::Array(_) => de::Unexpected::Seq,
        Json::Object(_) => de::Unexpected::Map,
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_is_the_same_in_json_and_on_the_wire_and_null_is_nothing() {
        let text = json!({ "a": "b", "n": 1.5, "t": true, "list": [1.0, "x", [], {}], "of": { "deep": "er" } });
        let object: Struct = serde_json::from_value(text.clone()).unwrap();
        assert_eq!(Struct::decode(object.encode_to_vec().as_slice()).unwrap(), object);
        assert_eq!(serde_json::to_value(&object).unwrap(), text);
        let object: Struct = serde_json::from_value(json!({ "a": null, "of": { "b": null } })).unwrap();
        assert_eq!(serde_json::to_value(&object).unwrap(), json!({ "of": {} }));
    }

    #[test]
    fn what_is_taken_from_json_is_read_from_protobuf_again() {
        let nested = |depth: usize| (1..depth).fold(json!({}), |inner, _| json!({ "a": [inner] }));
        let deepest: Struct = serde_json::from_value(nested(8)).unwrap();
        assert_eq!(Struct::decode(deepest.encode_to_vec().as_slice()).unwrap(), deepest);
        let flat = (1..16).fold(json!({}), |inner, _| json!({ "a": inner }));
        let flat: Struct = serde_json::from_value(flat).unwrap();
        assert_eq!(Struct::decode(flat.encode_to_vec().as_slice()).unwrap(), flat);
        let error = serde_json::from_value::<Struct>(nested(9)).unwrap_err().to_string();
        assert!(error.contains("nested at most 16 deep"), "{error}");
    }

    #[test]
    fn only_an_object_is_one() {
        for other in [json!("a"), json!(1), json!([{}]), json!(true)] {
            let error = serde_json::from_value::<Struct>(other).unwrap_err().to_string();
            assert!(error.contains("an object"), "{error}");
        }
    }
}
