//! Handlers: plain async functions of a node's state, the call and the request.

use std::{future::Future, sync::Arc};

use axum::Router;
use proto::shape::Request;

use crate::{admission::Edge, answer::Answer, call::Call, error::Error, mount::mount};

/// Mounts the handlers for one kind of object.
pub type Mount<S> = fn(Mounting<S>) -> Mounting<S>;

/// The operations that a node answers, mounted one after another.
pub struct Mounting<S> {
    router: Router,
    edge: Arc<Edge>,
    state: Arc<S>,
}

impl<S: Send + Sync + 'static> Mounting<S> {
    /// Mounts handlers that share a state.
    pub fn new(router: Router, edge: &Arc<Edge>, state: &Arc<S>) -> Self {
        Self { router, edge: edge.clone(), state: state.clone() }
    }

    /// Mounts a handler on all transports; the type of its request determines the operation.
    #[must_use]
    pub fn on<I, F>(self, handler: impl Fn(Arc<S>, Call, I) -> F + Send + Sync + 'static) -> Self
    where
        I: Request,
        F: Future<Output = Result<Answer<I::Response>, Error>> + Send + 'static,
    {
        let state = self.state.clone();
        let router = mount(self.router, &self.edge, move |call, request| handler(state.clone(), call, request));
        Self { router, ..self }
    }

    /// The router with all handlers.
    pub fn router(self) -> Router {
        self.router
    }
}
