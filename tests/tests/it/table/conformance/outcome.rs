//! The outcomes of calls, in one form for all transports, so that they can be compared.

use std::collections::BTreeMap;

use edge::error::Reason;
use http::HeaderMap;
use proto::wellknown::Duration;
use serde_json::{Value, json};
use tonic::Status;
use tonic_types::{ErrorDetail, StatusExt};

/// The headers and metadata that belong to a transport, not to the answer.
const OF_TRANSPORTS: [&str; 10] = [
    "content-length",
    "content-type",
    "date",
    "grpc-message",
    "grpc-status",
    "grpc-status-details-bin",
    "retry-after",
    "transfer-encoding",
    "vary",
    "www-authenticate",
];

/// The metadata whose value is the same for two equal calls about two objects.
const SAME_FOR_ALL: [&str; 3] = ["idempotency-replayed", "preference-applied", "x-request-id"];

/// The members whose values differ between two equal calls about two objects.
const OF_ONE_OBJECT: [&str; 31] = [
    "callbackUrl",
    "changeDate",
    "clientId",
    "clientSecret",
    "creationDate",
    "dnsRecord",
    "expirationDate",
    "failedEventCount",
    "httpUrl",
    "id",
    "issuer",
    "jwk",
    "loginUrl",
    "oneTimePassword",
    "organizationId",
    "pem",
    "previousValidUntil",
    "processed",
    "lag",
    "lagSeconds",
    "processedSequence",
    "projectId",
    "sequence",
    "sessionToken",
    "signingKey",
    "signsFrom",
    "timestamp",
    "token",
    "userId",
    "verifiedAt",
    "waiting",
];

/// The outcome of a call.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Outcome {
    /// The message or the error, as JSON.
    pub(super) result: Result<Value, Value>,
    /// The metadata that is not the transport's own.
    pub(super) metadata: BTreeMap<String, String>,
}

impl Outcome {
    pub(super) fn new(result: Result<Value, Value>, headers: &HeaderMap) -> Self {
        let own = headers.iter().filter(|(name, _)| !OF_TRANSPORTS.contains(&name.as_str()));
        let metadata = own.map(|(name, value)| (name.to_string(), value.to_str().unwrap_or_default().to_owned()));
        Self { result, metadata: metadata.collect() }
    }

    /// Returns the reason of an error; empty for a success.
    pub(super) fn reason(&self) -> &str {
        let details = self.result.as_ref().err().and_then(|error| error["details"].as_array());
        let info = details.into_iter().flatten().find_map(|detail| detail["reason"].as_str());
        info.unwrap_or_default()
    }

    /// Returns the outcome without what depends on the object.
    pub(super) fn of_any_object(mut self) -> Self {
        let (Ok(body) | Err(body)) = &mut self.result;
        redact(body);
        for (name, value) in &mut self.metadata {
            if !SAME_FOR_ALL.contains(&name.as_str()) {
                "...".clone_into(value);
            }
        }
        self
    }

    /// Returns the outcome without a member of the message, given by its path.
    pub(super) fn without(mut self, path: &[&str]) -> Self {
        if let (Ok(body), Some((name, above))) = (&mut self.result, path.split_last()) {
            let holder = above.iter().try_fold(body, |value, name| value.get_mut(*name));
            holder.and_then(Value::as_object_mut).map(|members| members.remove(*name));
        }
        self
    }
}

fn redact(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(redact),
        Value::Object(members) => {
            for (name, member) in members {
                match member {
                    Value::String(text) if name == "message" => *text = text.replace(|c: char| c.is_ascii_digit(), ""),
                    Value::String(_) if OF_ONE_OBJECT.contains(&name.as_str()) => *member = json!("..."),
                    _ => redact(member),
                }
            }
        }
        _ => {}
    }
}

/// Returns a gRPC error in its form over HTTP, where fields have their names in JSON.
pub(super) fn of_status(status: &Status) -> Value {
    let mut message = status.message().to_owned();
    for detail in status.get_error_details_vec() {
        let ErrorDetail::BadRequest(bad) = detail else { continue };
        for it in bad.field_violations {
            let (field, description) = in_json(&it.field, &it.description);
            message = message.replace(&it.description, &description);
            // A path is a word of the message.
            let word = |word: &str| if word == it.field { field.clone() } else { word.to_owned() };
            message = message.split(' ').map(word).collect::<Vec<_>>().join(" ");
        }
    }
    let details: Vec<Value> = status.get_error_details_vec().iter().map(detail).collect();
    sorted(json!({ "code": i32::from(status.code()), "message": message, "details": details }))
}

/// The beginning of the path in a JSON object of the caller's own.
const DATA: &str = ".data.";

/// Returns a violation with the names of fields in JSON.
fn in_json(field: &str, description: &str) -> (String, String) {
    let camel = |name: &str| {
        let mut words = name.split('_');
        let first = words.next().unwrap_or_default().to_owned();
        words.fold(first, |name, word| name + &word[..1].to_uppercase() + &word[1..])
    };
    // What is in a JSON object of the caller's own has the same name everywhere.
    let field = match field.split_once(DATA) {
        Some((above, own)) => format!("{}{DATA}{own}", camel(above)),
        None => camel(field),
    };
    match description.strip_prefix("is required: one of ") {
        Some(members) => (field, format!("is required: one of {}", camel(members))),
        None => (field, description.to_owned()),
    }
}

/// Returns an error with its details in a fixed order.
pub(super) fn sorted(mut error: Value) -> Value {
    if let Some(details) = error["details"].as_array_mut() {
        details.sort_by_key(|detail| detail["@type"].to_string());
    }
    error
}

fn detail(detail: &ErrorDetail) -> Value {
    let (kind, mut members) = match detail {
        ErrorDetail::ErrorInfo(info) => {
            ("ErrorInfo", json!({ "reason": info.reason, "domain": info.domain, "metadata": info.metadata }))
        }
        ErrorDetail::BadRequest(bad) => {
            let violations = bad.field_violations.iter();
            let violations: Vec<Value> =
                violations.map(|it| in_json(&it.field, &it.description)).map(violation).collect();
            ("BadRequest", json!({ "fieldViolations": violations }))
        }
        ErrorDetail::RetryInfo(retry) => {
            let delay = retry.retry_delay.and_then(|delay| Duration::try_from(delay).ok());
            ("RetryInfo", json!({ "retryDelay": delay }))
        }
        ErrorDetail::RequestInfo(request) => ("RequestInfo", json!({ "requestId": request.request_id })),
        other => panic!("no error has such details: {other:?}"),
    };
    members["@type"] = json!(format!("type.googleapis.com/google.rpc.{kind}"));
    members
}

fn violation((field, description): (String, String)) -> Value {
    json!({ "field": field, "description": description })
}

/// Returns the entry of the table of reasons for an error.
pub(super) fn reason_named(reason: &str) -> Reason {
    let found = Reason::ALL.iter().find(|known| known.name() == reason);
    *found.unwrap_or_else(|| panic!("{reason:?} is no reason"))
}
