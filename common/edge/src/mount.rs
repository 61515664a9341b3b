//! Mounts one async function per operation on every transport.

mod body;
mod fallback;
mod operation;
mod over_grpc;
mod over_http;
mod refuse;
mod wire;

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::Request,
    response::Response,
    routing::{MethodFilter, on, post},
};
use futures::FutureExt;
use http::{HeaderMap, request::Parts};
use proto::{
    object::RequestContext,
    operation::{Facts, Verb},
    shape,
};
use tokio::time::timeout;

use self::{
    operation::{Handled, Operation},
    over_grpc::Grpc,
    over_http::Http,
    wire::Wire,
};
use crate::{
    answer::Answer,
    error::{Error, Reason},
    observe::Meter,
    request_id::{identified, identify},
    trigger::Triggered,
};

pub use body::{is_plain, read as read_body};
pub use fallback::fallbacks;
pub use refuse::refuse;

/// How long a request may take from its head to its answer: longer than everything that it may wait for.
pub const LONGEST: Duration = Duration::from_mins(1);

/// Decides which requests are admitted, before their bodies are read.
pub trait Admit: Send + Sync + 'static {
    /// What handlers know of an admitted request.
    type Call: Send + 'static;

    /// Admits a request to an operation. Its header `x-request-id` holds its id.
    fn admit(&self, operation: &'static Facts, parts: &Parts)
    -> impl Future<Output = Result<Self::Call, Error>> + Send;

    /// Completes the call with the context that the body names.
    fn within(
        &self,
        call: Self::Call,
        _wanted: Option<&RequestContext>,
    ) -> impl Future<Output = Result<Self::Call, Error>> + Send {
        std::future::ready(Ok(call))
    }

    /// Whether an instance answers under the host of a request, whatever the operation.
    fn answers(&self, _parts: &Parts) -> impl Future<Output = Result<(), Error>> + Send {
        std::future::ready(Ok(()))
    }

    /// The executions that a request triggers.
    fn triggered(_: &Self::Call) -> Option<Arc<Triggered>> {
        None
    }
}

/// Mounts a handler on the gRPC path and the HTTP path of the operation that its request type belongs to.
pub fn mount<E, I, H, F>(router: Router, edge: &Arc<E>, handler: H) -> Router
where
    E: Admit,
    I: shape::Request,
    H: Fn(E::Call, I) -> F + Send + Sync + 'static,
    F: Future<Output = Result<Answer<I::Response>, Error>> + Send + 'static,
{
    mount_operation(router, edge.clone(), Handled::new(handler))
}

fn mount_operation<E: Admit>(router: Router, edge: Arc<E>, operation: Arc<dyn Operation<E::Call>>) -> Router {
    let facts = operation.facts();
    let mounted = Arc::new(Mounted { edge, operation, meter: Meter::new(facts.service, facts.method) });
    let for_grpc = mounted.clone();
    let serve_grpc = async move |request: Request| match Grpc::of(request.headers()) {
        Some(grpc) => for_grpc.serve(&grpc, request).await,
        None => refuse::refuse_of(&for_grpc.meter, request, over_grpc::unsupported()).await,
    };
    router
        .route(facts.grpc, post(serve_grpc))
        .route(facts.path, on(filter(facts.verb), async move |request| mounted.serve(&Http, request).await))
}

/// Mounts an operation that is specified but not built: both paths answer so, under known hosts.
pub fn mount_unbuilt<E: Admit>(router: Router, edge: &Arc<E>, facts: &'static Facts) -> Router {
    let (meter, edge) = (Arc::new(Meter::new(facts.service, facts.method)), edge.clone());
    let unbuilt = async move |request: Request| {
        let (parts, body) = request.into_parts();
        let not_built = || Error::new(Reason::NotImplemented, format!("{} is not built yet", facts.method));
        let error = edge.answers(&parts).await.err().unwrap_or_else(not_built);
        refuse::refuse_of(&meter, Request::from_parts(parts, body), error).await
    };
    router.route(facts.grpc, post(unbuilt.clone())).route(facts.path, on(filter(facts.verb), unbuilt))
}

struct Mounted<E: Admit> {
    edge: Arc<E>,
    operation: Arc<dyn Operation<E::Call>>,
    meter: Meter,
}

impl<E: Admit> Mounted<E> {
    async fn serve(&self, wire: &impl Wire, request: Request) -> Response {
        let (mut parts, body) = request.into_parts();
        let id = identify(&mut parts.headers);
        let span = self.meter.span(&parts.headers, &id);
        let answer = async {
            let limit = patience(&parts.headers);
            // Boxed once: the combinators around it, and axum, would copy all of it several times.
            let answer = AssertUnwindSafe(timeout(limit, Box::pin(self.answer(wire, parts, body)))).catch_unwind();
            let answer = answer.await.map_or_else(
                |_| Err(Error::internal(&Panicked)),
                |in_time| in_time.unwrap_or_else(|_| Err(too_late(self.operation.facts().only_reads()))),
            );
            match answer {
                Ok(response) => (identified(response, &id), None),
                Err(error) => {
                    let reason = error.reason();
                    (identified(wire.refuse(error.request_id(&id)), &id), Some(reason))
                }
            }
        };
        self.meter.observe(wire.transport(), span, answer).await
    }

    /// Serves a request, whatever its transport.
    async fn answer(&self, wire: &impl Wire, parts: Parts, body: Body) -> Result<Response, Error> {
        let facts = self.operation.facts();
        let call = match self.edge.admit(facts, &parts).await {
            Ok(call) => call,
            Err(error) => {
                body::discard(&parts.headers, body).await;
                return Err(error);
            }
        };
        let mut asked = wire.read(&self.operation, parts, body).await?;
        let violations = asked.request().violations();
        if !violations.is_empty() {
            return Err(Error::invalid(violations));
        }
        let call = self.edge.within(call, asked.request().named_context()).await?;
        let Some(triggered) = E::triggered(&call) else {
            return wire.write(facts, asked.answer(call).await?);
        };
        let told = Box::pin(triggered.before(asked.request())).await?;
        let mut answer = asked.answer(call).await?;
        Box::pin(triggered.after(told, answer.message.as_mut())).await?;
        wire.write(facts, answer)
    }
}

/// How long a request may take: as long as its client waits, up to the limit for all.
pub fn patience(headers: &HeaderMap) -> Duration {
    over_grpc::timeout(headers).map_or(LONGEST, |timeout| timeout.min(LONGEST))
}

/// The error for a request that was not answered in time.
pub fn too_late(only_reads: bool) -> Error {
    Error::new(
        Reason::DeadlineExceeded,
        if only_reads {
            "the request took too long"
        } else {
            "the request took too long, and it may have been executed: send it again with the same Idempotency-Key"
        },
    )
}

/// A handler panicked. The place and reason are in the log already.
#[derive(Debug, thiserror::Error)]
#[error("the handler panicked")]
struct Panicked;

fn filter(verb: Verb) -> MethodFilter {
    match verb {
        Verb::Get => MethodFilter::GET,
        Verb::Post => MethodFilter::POST,
        Verb::Patch => MethodFilter::PATCH,
        Verb::Put => MethodFilter::PUT,
        Verb::Delete => MethodFilter::DELETE,
    }
}

#[cfg(test)]
mod tests;
