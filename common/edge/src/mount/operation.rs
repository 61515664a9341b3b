//! Operations as the transports see them: requests are read and answers written without knowledge of their types.

use std::{marker::PhantomData, sync::Arc};

use futures::{FutureExt, future::BoxFuture};
use prost::DecodeError;
use proto::{operation::Facts, shape};
use serde_json::{Map, Value};

use crate::{
    answer::Answer,
    error::Error,
    json::{self, Unread},
    message::{AnyMessage, AnyRequest},
};

/// An operation with its handler.
pub(super) trait Operation<C>: Send + Sync {
    /// The facts about the operation.
    fn facts(&self) -> &'static Facts;

    /// Reads a request in protobuf.
    ///
    /// # Errors
    /// When it is not of the operation's type.
    fn decode(self: Arc<Self>, message: &[u8]) -> Result<Box<dyn Invocation<C>>, DecodeError>;

    /// Reads a request that is a tree of JSON values.
    ///
    /// # Errors
    /// When it is not of the operation's type.
    fn read(self: Arc<Self>, tree: Map<String, Value>) -> Result<Box<dyn Invocation<C>>, Unread>;
}

/// A request with the handler that answers it.
pub(super) trait Invocation<C>: Send + Sync {
    /// The request.
    fn request(&mut self) -> &mut dyn AnyRequest;

    /// Answers it by the handler.
    fn answer(self: Box<Self>, call: C) -> BoxFuture<'static, Result<Answer<Box<dyn AnyMessage>>, Error>>;
}

/// A handler, with the type of request that it answers.
pub(super) struct Handled<I, H> {
    handler: H,
    request: PhantomData<fn() -> I>,
}

struct Request<I, H> {
    message: I,
    handled: Arc<Handled<I, H>>,
}

impl<I, H> Handled<I, H> {
    pub(super) fn new(handler: H) -> Arc<Self> {
        Arc::new(Self { handler, request: PhantomData })
    }
}

impl<C, I, H, F> Operation<C> for Handled<I, H>
where
    C: 'static,
    I: shape::Request,
    H: Fn(C, I) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Answer<I::Response>, Error>> + Send + 'static,
{
    fn facts(&self) -> &'static Facts {
        &I::OPERATION.facts
    }

    fn decode(self: Arc<Self>, message: &[u8]) -> Result<Box<dyn Invocation<C>>, DecodeError> {
        Ok(Box::new(Request { message: I::decode(message)?, handled: self }))
    }

    fn read(self: Arc<Self>, tree: Map<String, Value>) -> Result<Box<dyn Invocation<C>>, Unread> {
        Ok(Box::new(Request { message: json::message::<I>(tree)?, handled: self }))
    }
}

impl<C, I, H, F> Invocation<C> for Request<I, H>
where
    I: shape::Request,
    H: Fn(C, I) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Answer<I::Response>, Error>> + Send + 'static,
{
    fn request(&mut self) -> &mut dyn AnyRequest {
        &mut self.message
    }

    fn answer(self: Box<Self>, call: C) -> BoxFuture<'static, Result<Answer<Box<dyn AnyMessage>>, Error>> {
        let Self { message, handled } = *self;
        let answer = (handled.handler)(call, message);
        answer.map(|answer| answer.map(|answer| answer.with(|message| Box::new(message) as Box<_>))).boxed()
    }
}
