//! Calls the targets of an execution one after another: each sees the message as changed by the ones before.

use std::sync::Arc;

use base::{explain::explain, secret};
use bytes::Bytes;
use domain::resource::target::{Mode, TargetKind};
use serde_json::{Map, Value};

use crate::{
    Actions,
    client::{Call, CallFailure},
    executions::{CallableTarget, Chain},
};

/// The content that targets are called with, and that their answers change.
pub trait Content: Send {
    /// Returns the current payload.
    fn payload(&self) -> Bytes;

    /// Applies the answer of a target. Members that do not fit change nothing.
    fn merge(&mut self, answer: Map<String, Value>) -> Result<(), CallFailure>;
}

/// What triggers an execution.
#[derive(Debug, Clone, Default)]
pub struct Cause {
    /// How many calls of targets it is nested in.
    pub depth: u32,
    /// The W3C `traceparent` that it belongs to.
    pub trace_context: String,
}

/// The error when a target stops the entire execution.
#[derive(Debug)]
pub struct Interrupted {
    /// The reason.
    pub failure: CallFailure,
}

impl Actions {
    /// Calls all targets in order. A failure stops the chain if its target says so, and is logged otherwise.
    pub async fn run(&self, chain: &Chain, cause: &Cause, content: &mut impl Content) -> Result<(), Interrupted> {
        for called in chain.iter() {
            let call = Call {
                delivery_id: secret::random_text(22),
                depth: cause.depth,
                trace_context: cause.trace_context.clone(),
                body: content.payload(),
            };
            if called.target.mode == Mode::Async {
                self.detach(called, call);
                continue;
            }
            let answered = self.client.call(called, &call).await;
            if let Err(failure) = answered.and_then(|answer| take_up(called, &answer, content)) {
                log_failure(called, &failure);
                if called.target.mode == Mode::InterruptOnError {
                    return Err(Interrupted { failure });
                }
            }
        }
        Ok(())
    }

    /// Calls a target without waiting for it.
    fn detach(&self, called: &Arc<CallableTarget>, call: Call) {
        let room = match self.client.detached(called, &call) {
            Ok(room) => room,
            Err(failure) => return log_failure(called, &failure),
        };
        let (client, called) = (self.client.clone(), called.clone());
        tokio::spawn(async move {
            let _room = room;
            if let Err(failure) = client.call(&called, &call).await {
                log_failure(&called, &failure);
            }
        });
    }
}

fn take_up(called: &CallableTarget, answer: &Bytes, content: &mut impl Content) -> Result<(), CallFailure> {
    if called.target.kind == TargetKind::RestWebhook || answer.is_empty() {
        return Ok(());
    }
    content.merge(members(answer)?)
}

/// Returns the members of an answer, unless it reports that the target failed.
fn members(answer: &[u8]) -> Result<Map<String, Value>, CallFailure> {
    let value = serde_json::from_slice(answer).map_err(|error| CallFailure::Malformed(error.to_string()))?;
    let Value::Object(members) = value else {
        return Err(CallFailure::Malformed("it is not a JSON object".to_owned()));
    };
    let (status, message) = (members.get("forwardedStatusCode"), members.get("forwardedErrorMessage"));
    if status.is_none() && message.is_none() {
        return Ok(members);
    }
    let message = message.and_then(Value::as_str).filter(|message| !message.is_empty()).unwrap_or("execution failed");
    let status = status.and_then(Value::as_u64).and_then(|status| u16::try_from(status).ok());
    Err(CallFailure::Refused { status, message: message.chars().filter(|char| !char.is_control()).take(500).collect() })
}

fn log_failure(called: &CallableTarget, failure: &CallFailure) {
    let (instance, target) = (&called.instance_id, &called.id);
    tracing::warn!(instance, target, error = explain(failure), "a call of a target failed");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_may_say_that_it_is_an_error() {
        assert_eq!(members(br#"{"a":1}"#).unwrap().len(), 1);
        for malformed in ["", "[]", "1", "{", "{} {}"] {
            assert!(matches!(members(malformed.as_bytes()), Err(CallFailure::Malformed(_))), "{malformed}");
        }
        let refused = |answer: &str| match members(answer.as_bytes()) {
            Err(CallFailure::Refused { status, message }) => (status, message),
            other => panic!("{other:?}"),
        };
        let both = r#"{"forwardedStatusCode":403,"forwardedErrorMessage":"not\ntoday"}"#;
        assert_eq!(refused(both), (Some(403), "nottoday".to_owned()));
        assert_eq!(refused(r#"{"forwardedStatusCode":"x"}"#), (None, "execution failed".to_owned()));
        assert_eq!(refused(r#"{"forwardedErrorMessage":"no"}"#), (None, "no".to_owned()));
    }
}
