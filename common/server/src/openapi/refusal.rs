//! The errors that an operation can return, derived from its facts, and their explanations in docs/errors.md.

use std::{collections::BTreeMap, time::Duration};

use axum::response::IntoResponse;
use domain::rejection::Rejection;
use edge::error::{Error, Reason};
use futures::FutureExt;
use http::StatusCode;
use proto::operation::{Body, CREATE_APP, CREATE_ROLE, CREATE_SESSION, Facts, PATCH_SESSION, VALIDATE, Verb};
use serde_json::{Map, Value, json};

const EXPLAINED: &str = include_str!("../../../../docs/errors.md");

/// The error responses of an operation, by status.
pub(super) fn responses(facts: &Facts) -> Map<String, Value> {
    let mut by_status: BTreeMap<StatusCode, Vec<Reason>> = BTreeMap::new();
    for reason in Reason::ALL.iter().filter(|reason| may_answer(facts, **reason)) {
        by_status.entry(reason.http_status()).or_default().push(*reason);
    }
    by_status.into_iter().map(|(status, reasons)| (status.as_str().to_owned(), response(status, &reasons))).collect()
}

/// An example of each reason that one of the operations can return.
pub(super) fn examples(mounted: &[&Facts]) -> Map<String, Value> {
    let reasons = Reason::ALL.iter().filter(|reason| mounted.iter().any(|facts| may_answer(facts, **reason)));
    reasons.map(|reason| (reason.name().to_owned(), json!({ "value": body(example(*reason)) }))).collect()
}

/// Every reason with its status, cause and remedy.
pub(super) fn reasons() -> Vec<Value> {
    let explained = |reason: &Reason, what| explained(reason.name(), what).unwrap_or_default();
    let row = |reason: &Reason| {
        json!({
            "reason": reason.name(),
            "status": reason.http_status().as_u16(),
            "code": i32::from(reason.code()),
            "cause": explained(reason, "Cause"),
            "remedy": explained(reason, "Remedy"),
        })
    };
    Reason::ALL.iter().map(row).collect()
}

/// Whether an operation can return a reason; those of no operation, such as an unknown path, never.
fn may_answer(facts: &Facts, reason: Reason) -> bool {
    let (reads, names_one) = (facts.only_reads(), facts.path.contains('{'));
    match reason {
        Reason::InvalidRequest
        | Reason::UnknownParameter
        | Reason::InvalidParameter
        | Reason::InstanceNotFound
        | Reason::TokenMissing
        | Reason::TokenInvalid
        | Reason::TokenExpired
        | Reason::InsufficientScope
        | Reason::OriginNotAllowed
        | Reason::DeadlineExceeded
        | Reason::ConsistencyTokenInvalid
        | Reason::ReadModelUnavailable
        | Reason::RateLimited
        | Reason::InstanceBlocked
        | Reason::InstanceInactive
        | Reason::ExecutionFailed
        | Reason::ExecutionLoop
        | Reason::Internal => true,
        Reason::MalformedJson
        | Reason::UnknownField
        | Reason::BodyTooLarge
        | Reason::BodyTimeout
        | Reason::UnsupportedMediaType => facts.body != Body::None,
        Reason::MethodNotAllowed | Reason::RouteNotFound | Reason::NotImplemented => false,
        Reason::PermissionDenied => facts.permission.is_some(),
        Reason::FeatureDisabled => facts.feature.is_some(),
        // A put names an object that must exist, and so does a context.
        Reason::ResourceNotFound => names_one || facts.also.is_some() || facts.has_context() || names_others(facts),
        Reason::ResourceExists => !reads && facts.verb != Verb::Delete,
        Reason::ObjectLimit => facts.creates(),
        Reason::SequenceMismatch => facts.changes_one(),
        Reason::ConsistencyNotReached => reads,
        Reason::AggregateParked => reads && names_one,
        Reason::ChallengeNotFound => facts.grpc == VALIDATE.facts.grpc,
        Reason::CredentialsInvalid => [CREATE_SESSION.facts.grpc, PATCH_SESSION.facts.grpc].contains(&facts.grpc),
        Reason::SettingNotBuilt => !reads && facts.path.starts_with("/settings/"),
        Reason::NameBeingReleased => facts.grpc == CREATE_ROLE.facts.grpc,
        Reason::PreconditionFailed
        | Reason::IdempotencyKeyReused
        | Reason::IdempotencyInProgress
        | Reason::WriterUnavailable
        | Reason::OutcomeUnknown
        | Reason::CommandTooLarge => !reads,
    }
}

/// Whether created objects name others, which must exist.
fn names_others(facts: &Facts) -> bool {
    [CREATE_ROLE.facts.service, CREATE_APP.facts.service].contains(&facts.service)
}

fn response(status: StatusCode, reasons: &[Reason]) -> Value {
    let names: Vec<String> = reasons.iter().map(|reason| format!("`{}`", reason.name())).collect();
    let examples = reasons.iter().map(|reason| {
        let name = reason.name();
        (name.to_owned(), json!({ "$ref": format!("#/components/examples/{name}") }))
    });
    let mut headers = vec!["X-Request-Id"];
    match status {
        StatusCode::UNAUTHORIZED => headers.push("WWW-Authenticate"),
        StatusCode::SERVICE_UNAVAILABLE => headers.push("Retry-After"),
        StatusCode::CONFLICT if reasons.contains(&Reason::NameBeingReleased) => headers.push("Retry-After"),
        StatusCode::TOO_MANY_REQUESTS => headers.extend(["Retry-After", "RateLimit", "RateLimit-Policy"]),
        _ => {}
    }
    json!({
        "description": format!("{}: {}", status.canonical_reason().unwrap_or_default(), names.join(", ")),
        "headers": super::header::references(&headers),
        "content": { "application/json": {
            "schema": { "$ref": "#/components/schemas/Error" },
            "examples": examples.collect::<Map<_, _>>(),
        } },
    })
}

/// An error with the reason, as it is made in practice.
fn example(reason: Reason) -> Error {
    let error = match reason {
        Reason::InvalidRequest => {
            Error::invalid(vec![proto::Violation::new("target.name", "must have 1 to 200 characters")])
        }
        Reason::ResourceNotFound => Rejection::NotFound("target").into(),
        Reason::ResourceExists => Rejection::AlreadyExists("organization").into(),
        Reason::PermissionDenied => edge::refusal::permission_denied("action.target.write"),
        Reason::FeatureDisabled => edge::refusal::feature_disabled("multitenancy_resources_api"),
        reason => Error::new(reason, reason.name().to_lowercase().replace('_', " ")),
    };
    let error = match reason.http_status() {
        StatusCode::TOO_MANY_REQUESTS if reason == Reason::ObjectLimit => error,
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => error.retry_after(Duration::from_secs(1)),
        _ => error,
    };
    error.request_id("RdF2A3LcvS0zrxAAibPt8l")
}

/// The body that the error has over HTTP.
fn body(error: Error) -> Value {
    let body = axum::body::to_bytes(error.into_response().into_body(), usize::MAX);
    // The body is in memory already.
    let body = body.now_or_never().and_then(Result::ok).unwrap_or_default();
    serde_json::from_slice(&body).unwrap_or_default()
}

/// The text of docs/errors.md under the heading of a reason.
fn explained(reason: &str, what: &str) -> Option<String> {
    let (_, text) = EXPLAINED.split_once(&format!("\n### {reason}\n"))?;
    let text = text.split_once("\n#").map_or(text, |(text, _)| text);
    let (_, item) = text.split_once(&format!("- **{what}:**"))?;
    let item = item.split_once("\n- ").map_or(item, |(item, _)| item);
    Some(item.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use proto::operation::{CREATE_TARGET, DELETE_TARGET, GET_TARGET};

    use super::*;

    #[test]
    fn every_reason_is_explained() {
        for row in reasons() {
            for what in ["cause", "remedy"] {
                assert!(row[what].as_str().is_some_and(|text| text.ends_with('.') && text.len() > 8), "{row}");
            }
        }
    }

    #[test]
    fn an_operation_answers_what_can_happen_to_it() {
        let statuses =
            |facts: &Facts| responses(facts).keys().map(|status| status.parse().unwrap()).collect::<Vec<u16>>();
        assert_eq!(statuses(&GET_TARGET.facts), [400, 401, 403, 404, 429, 500, 503, 504]);
        assert_eq!(statuses(&DELETE_TARGET.facts), [400, 401, 403, 404, 409, 412, 429, 500, 503, 504]);
        assert_eq!(statuses(&CREATE_TARGET.facts), [400, 401, 403, 404, 408, 409, 413, 415, 429, 500, 503, 504]);
    }

    #[test]
    fn an_example_is_the_error_itself() {
        let examples = examples(&[&GET_TARGET.facts]);
        let found = &examples["RESOURCE_NOT_FOUND"]["value"];
        assert_eq!(found["message"], "target not found");
        assert_eq!(found["details"][0]["metadata"], json!({ "resource": "target" }));
        assert!(!examples.contains_key("WRITER_UNAVAILABLE"));
    }
}
