//! Errors as gRPC statuses and as JSON bodies; both carry the same google.rpc details.

use axum::{
    Json,
    response::{IntoResponse, Response},
};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use serde_json::{Value, json};
use tonic::{Status, metadata::MetadataMap};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt};

use super::{Error, FieldFault, Reason, Refused, fault::Names};

const DOMAIN: &str = "platform";

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        let (code, _) = error.codes();
        let metadata: std::collections::HashMap<String, String> =
            error.metadata(Names::Proto).into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let message = error.message(Names::Proto).into_owned();
        let told = *error.0;
        let mut details = ErrorDetails::with_error_info(told.reason.name(), DOMAIN, metadata);
        if !told.fields.is_empty() {
            let violation =
                |fault: &FieldFault| FieldViolation::new(fault.field(Names::Proto), fault.description(Names::Proto));
            details.set_bad_request(told.fields.iter().map(violation).collect::<Vec<_>>());
        }
        if let Some(delay) = told.retry_after {
            details.set_retry_info(Some(delay));
        }
        if let Some(id) = told.request_id {
            details.set_request_info(id, "");
        }
        let headers = MetadataMap::from_headers(header_map(told.headers));
        Self::with_error_details_and_metadata(code, message, details, headers)
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let (reason, (code, status)) = (self.0.reason, self.codes());
        let body = json!({ "code": i32::from(code), "message": self.message(Names::Json), "details": self.details() });
        let mut response = (status, Json(body)).into_response();
        let headers = response.headers_mut();
        let of_any = (status == StatusCode::UNAUTHORIZED).then_some("Bearer");
        if let Some(challenge) = challenge(reason).or(of_any) {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        if let Some(delay) = self.0.retry_after {
            // The header has whole seconds only; zero would mean at once.
            let seconds = delay.as_secs() + u64::from(delay.subsec_nanos() > 0);
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        headers.extend(header_map(self.0.headers));
        response.extensions_mut().insert(Refused(reason.name()));
        response
    }
}

/// Headers as they travel; what cannot be a header is left out.
fn header_map(headers: Vec<(&str, String)>) -> HeaderMap {
    let travels =
        |(name, value): (&str, String)| Some((HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?));
    headers.into_iter().filter_map(travels).collect()
}

impl Error {
    fn details(&self) -> Vec<Value> {
        let told = &self.0;
        let metadata = self.metadata(Names::Json).into_iter().map(|(key, value)| (key.to_owned(), json!(value)));
        let metadata: serde_json::Map<_, _> = metadata.collect();
        let info = json!({ "reason": told.reason.name(), "domain": DOMAIN, "metadata": metadata });
        let mut details = vec![detail("ErrorInfo", info)];
        if !told.fields.is_empty() {
            let violation = |fault: &FieldFault| json!({ "field": fault.field(Names::Json), "description": fault.description(Names::Json) });
            let violations: Vec<_> = told.fields.iter().map(violation).collect();
            details.push(detail("BadRequest", json!({ "fieldViolations": violations })));
        }
        if let Some(delay) = told.retry_after.and_then(|delay| proto::wellknown::Duration::try_from(delay).ok()) {
            details.push(detail("RetryInfo", json!({ "retryDelay": delay })));
        }
        if let Some(id) = &told.request_id {
            details.push(detail("RequestInfo", json!({ "requestId": id })));
        }
        details
    }
}

fn detail(kind: &str, mut members: Value) -> Value {
    members["@type"] = json!(format!("type.googleapis.com/google.rpc.{kind}"));
    members
}

/// The challenge of RFC 6750, section 3.
fn challenge(reason: Reason) -> Option<&'static str> {
    match reason {
        Reason::TokenMissing => Some("Bearer"),
        Reason::TokenInvalid | Reason::TokenExpired => Some("Bearer error=\"invalid_token\""),
        Reason::InsufficientScope => {
            Some("Bearer error=\"insufficient_scope\", scope=\"openid urn:platform:iam:org:project:id:platform:aud\"")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn wire_response(error: Error) -> (http::response::Parts, Value) {
        let (parts, body) = error.into_response().into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
        (parts, serde_json::from_slice(&body).unwrap())
    }

    #[tokio::test]
    async fn a_body_has_code_message_and_all_details() {
        let error = Error::new(Reason::InvalidRequest, "target.name is wrong")
            .with("key", "value")
            .violation("target.name", "must be right")
            .request_id("7");
        let (parts, body) = wire_response(error).await;
        assert_eq!(parts.status, 400);
        let info = json!({
            "@type": "type.googleapis.com/google.rpc.ErrorInfo",
            "reason": "INVALID_REQUEST", "domain": "platform", "metadata": { "key": "value" }
        });
        let violations = json!([{ "field": "target.name", "description": "must be right" }]);
        let bad = json!({ "@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": violations });
        let request = json!({ "@type": "type.googleapis.com/google.rpc.RequestInfo", "requestId": "7" });
        assert_eq!(body, json!({ "code": 3, "message": "target.name is wrong", "details": [info, bad, request] }));
    }

    #[tokio::test]
    async fn fields_have_their_json_names_over_http_and_their_own_over_grpc() {
        let both = || {
            let members = proto::Rule::OneOf("in_ids, org_domain");
            let url = proto::Violation::new("rest_webhook.url", "must be a URL");
            Error::invalid(vec![proto::Violation::new("filters[0].in_ids", members), url])
        };
        let (_, body) = wire_response(both()).await;
        let message = "filters[0].inIds is required: one of inIds, orgDomain; restWebhook.url must be a URL";
        assert_eq!(body["message"], message);
        assert_eq!(body["details"][1]["fieldViolations"][0]["field"], "filters[0].inIds");
        assert_eq!(body["details"][1]["fieldViolations"][1]["field"], "restWebhook.url");
        assert!(Status::from(both()).message().starts_with("filters[0].in_ids is required: one of in_ids"));
    }

    #[tokio::test]
    async fn what_is_not_known_is_told_as_it_was_sent_and_what_is_by_its_name_wherever_it_is() {
        let unknown = |within: &str, sent: &str| {
            let fault = FieldFault::unknown(within.to_owned(), sent.to_owned(), "is not known");
            fault.worded("there is no field ", "")
        };
        let known = FieldFault::new("is_async", "is_async, say, must be right");
        let fields = vec![unknown("rest_webhook", "__proto__"), unknown("", "is_async"), known];
        let (_, body) = wire_response(Error::of_fields(Reason::UnknownField, fields).with_path("field")).await;
        assert_eq!(body["details"][0]["metadata"]["field"], "restWebhook.__proto__");
        let violations = body["details"][1]["fieldViolations"].as_array().unwrap();
        let fields: Vec<_> = violations.iter().map(|violation| violation["field"].as_str().unwrap()).collect();
        assert_eq!(fields, ["restWebhook.__proto__", "is_async", "isAsync"]);
        let message = "there is no field restWebhook.__proto__; there is no field is_async; isAsync is_async, say, must \
                       be right";
        assert_eq!(body["message"], message);
    }

    #[tokio::test]
    async fn a_client_is_told_to_authenticate_and_when_to_come_back() {
        let (parts, _) = wire_response(Error::new(Reason::TokenExpired, "expired")).await;
        assert_eq!(parts.headers[header::WWW_AUTHENTICATE], "Bearer error=\"invalid_token\"");
        let busy = Error::new(Reason::WriterUnavailable, "busy").retry_after(Duration::from_millis(1500));
        let (parts, body) = wire_response(busy).await;
        assert_eq!(parts.headers[header::RETRY_AFTER], "2");
        assert_eq!(body["details"][1]["retryDelay"], "1.500s");
    }

    #[test]
    fn a_status_has_the_same_details() {
        let error = Error::invalid(vec![proto::Violation::new("id", "is required")]);
        let status = Status::from(error.request_id("7"));
        let details = status.get_error_details();
        assert_eq!((status.code(), status.message()), (tonic::Code::InvalidArgument, "id is required"));
        assert_eq!(details.error_info().unwrap().reason, "INVALID_REQUEST");
        assert_eq!(details.bad_request().unwrap().field_violations[0].field, "id");
        assert_eq!(details.request_info().unwrap().request_id, "7");
    }

    #[test]
    fn an_internal_failure_stays_inside() {
        let error = Error::internal(&std::io::Error::other("password=hunter2"));
        assert!(!Status::from(error).message().contains("hunter2"));
    }
}
