//! The answer of a handler, before it is written for a transport.

/// The answer of a handler.
#[derive(Debug)]
pub struct Answer<O> {
    /// The message.
    pub message: O,
    /// The HTTP status, where it is not the operation's own.
    pub status: Option<u16>,
    /// HTTP headers, which are gRPC metadata too.
    pub metadata: Vec<(&'static str, String)>,
}

impl<O> Answer<O> {
    /// The same answer with another message.
    pub(crate) fn with<T>(self, message: impl FnOnce(O) -> T) -> Answer<T> {
        Answer { message: message(self.message), status: self.status, metadata: self.metadata }
    }
}

impl<O> From<O> for Answer<O> {
    fn from(message: O) -> Self {
        Self { message, status: None, metadata: Vec::new() }
    }
}
