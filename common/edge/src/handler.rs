//! Handlers: plain async functions of a node's state, the call and the request.

use std::{future::Future, sync::Arc};

use crate::call::Call;

/// Gives a handler the state of its node.
pub fn with<S, I, F>(
    state: &Arc<S>,
    handler: impl Fn(Arc<S>, Call, I) -> F + Clone + Send + Sync + 'static,
) -> impl Fn(Call, I) -> F + Clone + Send + Sync + 'static
where
    S: Send + Sync + 'static,
    F: Future + Send + 'static,
{
    let state = state.clone();
    move |call, request| handler(state.clone(), call, request)
}
