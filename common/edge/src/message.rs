//! Messages without their types, so that what happens to every request and answer is compiled once, and not again for
//! each operation.

use prost::Message;
use proto::{Contextual, Validate, Violation, object::RequestContext};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value};

use crate::{
    error::Error,
    json::{Unread, message},
};

/// A message of any type.
pub(crate) trait AnyMessage: Send + Sync {
    /// Encodes it in protobuf.
    fn to_protobuf(&self) -> Vec<u8>;

    /// The length in protobuf, in bytes.
    fn protobuf_len(&self) -> usize;

    /// Appends it in JSON.
    ///
    /// # Errors
    /// When it has a value that JSON cannot express, which the serializers of proto3 do not make.
    fn write_json(&self, text: &mut Vec<u8>) -> Result<(), Error>;

    /// Replaces it by the message that a tree holds, or leaves it as it is.
    ///
    /// # Errors
    /// When the tree is not of its type.
    fn become_tree(&mut self, tree: Map<String, Value>) -> Result<(), Unread>;
}

impl<M: Message + Serialize + DeserializeOwned> AnyMessage for M {
    fn to_protobuf(&self) -> Vec<u8> {
        self.encode_to_vec()
    }

    fn protobuf_len(&self) -> usize {
        self.encoded_len()
    }

    fn write_json(&self, text: &mut Vec<u8>) -> Result<(), Error> {
        serde_json::to_writer(text, self).map_err(|failure| Error::internal(&failure))
    }

    fn become_tree(&mut self, tree: Map<String, Value>) -> Result<(), Unread> {
        *self = message(tree)?;
        Ok(())
    }
}

/// A request of any type.
pub(crate) trait AnyRequest: AnyMessage {
    /// The rules of its fields that it breaks.
    fn violations(&self) -> Vec<Violation>;

    /// The context that it names.
    fn named_context(&self) -> Option<&RequestContext>;
}

impl<M: AnyMessage + Validate + Contextual> AnyRequest for M {
    fn violations(&self) -> Vec<Violation> {
        let mut violations = Vec::new();
        self.validate("", &mut violations);
        violations
    }

    fn named_context(&self) -> Option<&RequestContext> {
        self.context()
    }
}
