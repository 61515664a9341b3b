//! Executions around the handler of an operation: targets are called with the request before it, and with request and
//! response after it has succeeded, whatever the transport.

mod merged;

use std::sync::{Arc, OnceLock};

use action::{
    Actions, DEPTH, MOST_DEPTH,
    chain::{Cause, Interrupted},
    client::CallFailure,
    executions::{Chain, Matched},
};
use domain::context::OwnerType;
use http::{HeaderMap, StatusCode, header, request::Parts};
use proto::operation::Facts;
use serde_json::{Map, Value, json};
use view::directory::{Principal, Tenant};

use self::merged::Merged;
use crate::{
    error::{Error, Reason},
    header::{one, trace_context},
    message::{AnyMessage, AnyRequest},
};

/// The headers of a request that targets get.
const TOLD: [header::HeaderName; 5] = [
    header::CONTENT_TYPE,
    header::HOST,
    header::ORIGIN,
    header::HeaderName::from_static("x-forwarded-for"),
    header::HeaderName::from_static("x-forwarded-host"),
];

/// The executions of one call.
pub struct Triggered {
    actions: Actions,
    operation: &'static Facts,
    matched: Matched,
    cause: Cause,
    /// What targets get in addition to the messages.
    about: Map<String, Value>,
    /// The request as it came, encoded, if targets have changed it.
    asked: OnceLock<Vec<u8>>,
}

impl std::fmt::Debug for Triggered {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Triggered").field("about", &self.about).finish_non_exhaustive()
    }
}

/// A request that was admitted, and may trigger executions.
#[derive(Clone, Copy)]
pub(crate) struct Trigger<'a> {
    pub(crate) operation: &'static Facts,
    pub(crate) tenant: &'a Tenant,
    pub(crate) caller: &'a Principal,
    pub(crate) parts: &'a Parts,
}

impl Triggered {
    /// The executions of a call that was admitted.
    pub(crate) fn of(actions: &Actions, trigger: Trigger<'_>, cause: impl FnOnce() -> Cause) -> Option<Arc<Self>> {
        let Trigger { operation, tenant, caller, parts } = trigger;
        let matched = actions.executions.call(&tenant.id, operation.service, operation.grpc)?;
        let organization = (caller.owner.kind == OwnerType::Organization).then_some(&caller.owner.id);
        let about = json!({
            "fullMethod": operation.grpc,
            "instanceID": tenant.id,
            "orgID": organization,
            "projectID": tenant.instance.platform_project_id,
            "userID": caller.id,
            "headers": header_values(parts),
        });
        let Value::Object(about) = about else { return None };
        let asked = OnceLock::new();
        Some(Arc::new(Self { actions: actions.clone(), operation, matched, cause: cause(), about, asked }))
    }

    /// Calls the targets of the request, whose answers may change it. A changed request is validated again. Returns the
    /// form of the request that the targets of the response get.
    pub(crate) async fn before(&self, request: &mut dyn AnyRequest) -> Result<Value, Error> {
        if let Some(chain) = &self.matched.request {
            let as_it_came = request.to_protobuf();
            let mut content = Merged::new(request, self.operation.request, merged::REQUEST, self.about.clone())?;
            self.run(chain, &mut content).await?;
            if content.is_changed {
                let _ = self.asked.set(as_it_came);
                let violations = request.violations();
                if !violations.is_empty() {
                    return Err(Error::invalid(violations));
                }
            }
        }
        match self.matched.response {
            Some(_) => merged::to_json(request, self.operation.request),
            None => Ok(Value::Null),
        }
    }

    /// The request as it came, encoded, if targets have changed it.
    pub fn original_request(&self) -> Option<&[u8]> {
        self.asked.get().map(Vec::as_slice)
    }

    /// Calls the targets of the response, whose answers may change it.
    pub(crate) async fn after(&self, request: Value, response: &mut dyn AnyMessage) -> Result<(), Error> {
        if let Some(chain) = &self.matched.response {
            let mut about = self.about.clone();
            about.insert("request".to_owned(), request);
            let mut content = Merged::new(response, self.operation.response, "response", about)?;
            self.run(chain, &mut content).await?;
        }
        Ok(())
    }

    async fn run(&self, chain: &Chain, content: &mut Merged<'_>) -> Result<(), Error> {
        self.actions.run(chain, &self.cause, content).await.map_err(interrupted)
    }
}

/// The error for a caller whose request a target stopped: it reveals only what the target chose to.
fn interrupted(interrupted: Interrupted) -> Error {
    let CallFailure::Refused { status, message } = interrupted.failure else {
        return Error::new(Reason::ExecutionFailed, "execution failed");
    };
    let error = Error::new(Reason::ExecutionFailed, message);
    let status = status.filter(|status| (400..500).contains(status)).and_then(|it| StatusCode::from_u16(it).ok());
    match status {
        Some(status) => error.forwarded(status),
        None => error,
    }
}

/// The number of calls of targets that a request is nested in.
///
/// # Errors
/// When there are too many, or the header cannot be understood.
pub fn depth(headers: &HeaderMap) -> Result<u32, Error> {
    let depth = match one(headers, DEPTH) {
        Ok(None) => Some(0),
        Ok(Some(depth)) => depth.parse().ok(),
        Err(_) => None,
    };
    let too_deep = || Error::new(Reason::ExecutionLoop, "executions call the platform in a loop");
    depth.filter(|depth| *depth <= MOST_DEPTH).ok_or_else(too_deep)
}

/// The trace that a request belongs to, or a new one.
pub fn trace_of(headers: &HeaderMap) -> String {
    base::trace::context(trace_context(headers))
}

/// The headers that targets get, each with its values.
fn header_values(parts: &Parts) -> Map<String, Value> {
    let mut told = Map::new();
    for name in TOLD {
        let values: Vec<&str> = parts.headers.get_all(&name).iter().filter_map(|value| value.to_str().ok()).collect();
        if !values.is_empty() {
            told.insert(name.as_str().to_owned(), json!(values));
        }
    }
    if let Some(authority) = parts.uri.authority() {
        told.entry("host").or_insert_with(|| json!([authority.as_str()]));
    }
    told
}
