use std::sync::Arc;

use axum::{Router, body::Body, response::Response};
use http::{HeaderMap, Request, StatusCode, header, request::Parts};
use http_body_util::BodyExt;
use prost::Message;
use proto::{
    action::{
        CreateTargetRequest, CreateTargetResponse, DeleteTargetRequest, DeleteTargetResponse, SearchTargetsRequest,
        SearchTargetsResponse,
    },
    operation::{CREATE_TARGET, DELETE_TARGET, Facts, GET_TARGET, OPERATIONS, SEARCH_TARGETS},
};
use serde_json::{Value, json};
use tower::ServiceExt;

use super::*;

const TARGET: &str = r#"{"name":"hook","restWebhook":{"url":"https://example.com"}}"#;

/// Admits every request that has credentials.
struct Open;

impl Admit for Open {
    type Call = String;

    async fn admit(&self, _: &'static Facts, parts: &Parts) -> Result<String, Error> {
        match parts.headers.get(header::AUTHORIZATION) {
            Some(_) => Ok(parts.headers["x-request-id"].to_str().unwrap().to_owned()),
            None => Err(Error::new(Reason::TokenMissing, "who is there")),
        }
    }

    async fn answers(&self, parts: &Parts) -> Result<(), Error> {
        match parts.headers.get(header::HOST) {
            Some(host) if host == "nobody.example" => Err(Error::new(Reason::InstanceNotFound, "nobody answers here")),
            _ => Ok(()),
        }
    }
}

/// Answers with the call as the id and the name as the key.
async fn create(call: String, request: CreateTargetRequest) -> Result<Answer<CreateTargetResponse>, Error> {
    assert_ne!(call, "panic");
    if call == "stuck" {
        std::future::pending::<()>().await;
    }
    let details = proto::object::Details { id: call, ..Default::default() };
    let message = CreateTargetResponse { details: Some(details), signing_key: request.target.unwrap().name };
    Ok(Answer { message, status: Some(202), metadata: vec![("consistency-token", "abc".to_owned())] })
}

async fn delete(_: String, request: DeleteTargetRequest) -> Result<Answer<DeleteTargetResponse>, Error> {
    let missing = Error::new(Reason::ResourceNotFound, "target not found").with("id", request.id);
    Err(missing.header("consistency-token", "abc").header("no header", "x").header("x-broken", "\n"))
}

/// Two nodes with different verbs of the same path on one port, as in a standalone platform.
fn router() -> Router {
    let edge = Arc::new(Open);
    let command = mount(mount(Router::new(), &edge, create), &edge, delete);
    let query = mount_unbuilt(Router::new(), &edge, &GET_TARGET.facts);
    let query = mount_unbuilt(query, &edge, &SEARCH_TARGETS.facts);
    fallbacks(command.merge(query))
}

async fn send(request: Request<Body>) -> (StatusCode, HeaderMap, Value) {
    let (parts, body) = router().oneshot(request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (parts.status, parts.headers, serde_json::from_slice(&body).unwrap_or_default())
}

fn post(path: &str, body: impl Into<Body>) -> Request<Body> {
    let request = Request::post(path).header("authorization", "me").header("content-type", "application/json");
    request.body(body.into()).unwrap()
}

fn reason(body: &Value) -> &str {
    body["details"][0]["reason"].as_str().unwrap_or_default()
}

async fn call(path: &str, kind: &str, message: Vec<u8>) -> Response {
    let frame = [vec![0], u32::try_from(message.len()).unwrap().to_be_bytes().to_vec(), message].concat();
    let request = Request::post(path).header("authorization", "me").header("content-type", kind);
    router().oneshot(request.body(Body::from(frame)).unwrap()).await.unwrap()
}

fn status(response: &Response) -> tonic::Status {
    tonic::Status::from_header_map(response.headers()).unwrap()
}

#[tokio::test]
async fn http_answers_with_status_metadata_and_request_id() {
    let mut request = post(CREATE_TARGET.facts.path, TARGET);
    request.headers_mut().insert("x-request-id", "7".parse().unwrap());
    let (status, headers, body) = send(request).await;
    assert_eq!((status.as_u16(), body), (202, json!({ "details": { "id": "7" }, "signingKey": "hook" })));
    for (name, value) in [("content-type", "application/json"), ("x-request-id", "7"), ("consistency-token", "abc")] {
        assert_eq!(headers[name], value);
    }
}

#[tokio::test]
async fn whoever_is_not_admitted_is_not_read() {
    let (status, headers, body) = send(Request::post(CREATE_TARGET.facts.path).body("{".into()).unwrap()).await;
    assert_eq!((status.as_u16(), reason(&body)), (401, "TOKEN_MISSING"));
    assert_eq!(headers[header::WWW_AUTHENTICATE], "Bearer");
    assert_eq!(body["details"][1]["requestId"].as_str(), headers["x-request-id"].to_str().ok());
}

#[tokio::test]
async fn all_violations_are_told_before_the_handler_is_asked() {
    let (status, _, body) = send(post(CREATE_TARGET.facts.path, r#"{"timeout":"0s"}"#)).await;
    assert_eq!((status.as_u16(), reason(&body)), (400, "INVALID_REQUEST"));
    let violations = body["details"][1]["fieldViolations"].as_array().unwrap();
    let fields: Vec<_> = violations.iter().map(|violation| violation["field"].as_str().unwrap()).collect();
    assert_eq!(fields, ["target.name", "target.timeout", "target.targetType"]);
}

#[tokio::test]
async fn the_error_of_a_handler_is_told_with_its_headers() {
    let request = Request::delete("/resources/v3alpha/targets/7").header("authorization", "me").body(Body::empty());
    let (code, headers, body) = send(request.unwrap()).await;
    assert_eq!((code.as_u16(), &body["code"], &body["message"]), (404, &json!(5), &json!("target not found")));
    assert_eq!(body["details"][0]["metadata"], json!({ "id": "7" }));
    assert_eq!((&headers["consistency-token"], headers.contains_key("x-broken")), (&"abc".parse().unwrap(), false));
    let request = DeleteTargetRequest { id: "7".to_owned() }.encode_to_vec();
    for kind in ["application/grpc", "application/grpc-web"] {
        let response = call(DELETE_TARGET.facts.grpc, kind, request.clone()).await;
        assert_eq!(status(&response).code(), tonic::Code::NotFound);
        assert_eq!(response.headers()["consistency-token"], "abc", "{kind}");
    }
}

#[tokio::test]
async fn a_panic_is_an_internal_error() {
    let mut request = post(CREATE_TARGET.facts.path, TARGET);
    request.headers_mut().insert("x-request-id", "panic".parse().unwrap());
    let (status, _, body) = send(request).await;
    assert_eq!((status.as_u16(), reason(&body)), (500, "INTERNAL"));
}

#[tokio::test]
async fn only_json_is_read() {
    for (kind, expected) in [
        (Some("application/json; charset=utf-8"), 202),
        (Some("APPLICATION/JSON"), 202),
        (Some("application/json;Charset=\"UTF-8\"; x=y"), 202),
        (Some("application/json; charset=utf-16"), 415),
        (Some("text/plain"), 415),
        (None, 415),
    ] {
        let mut request = post(CREATE_TARGET.facts.path, TARGET);
        request.headers_mut().remove("content-type");
        request.headers_mut().extend(kind.map(|kind| (header::CONTENT_TYPE, kind.parse().unwrap())));
        assert_eq!(send(request).await.0, expected, "{kind:?}");
    }
    let mut twice = post(CREATE_TARGET.facts.path, TARGET);
    twice.headers_mut().append("content-type", "text/plain".parse().unwrap());
    assert_eq!(send(twice).await.0, 415);
    let mut empty = post(CREATE_TARGET.facts.path, "");
    empty.headers_mut().remove("content-type");
    assert_eq!(reason(&send(empty).await.2), "INVALID_REQUEST");
}

#[tokio::test]
async fn a_body_that_is_coded_is_refused() {
    let codings = [("identity", 202), ("Identity, identity", 202), ("", 202), ("gzip", 415), ("identity, br", 415)];
    for (coding, expected) in codings {
        let mut request = post(CREATE_TARGET.facts.path, TARGET);
        request.headers_mut().insert("content-encoding", coding.parse().unwrap());
        let (status, headers, body) = send(request).await;
        assert_eq!(status, expected, "{coding}");
        if expected == 415 {
            assert_eq!(
                (reason(&body), headers["accept-encoding"].as_bytes()),
                ("UNSUPPORTED_MEDIA_TYPE", &b"identity"[..])
            );
            assert!(body["message"].as_str().unwrap().contains("Content-Encoding"), "{body}");
        }
    }
}

#[tokio::test]
async fn a_body_may_have_a_mebibyte() {
    let padded = |size: usize| post(CREATE_TARGET.facts.path, TARGET.to_owned() + &" ".repeat(size - TARGET.len()));
    assert_eq!(send(padded(1 << 20)).await.0, 202);
    let (status, _, body) = send(padded((1 << 20) + 1)).await;
    assert_eq!((status.as_u16(), reason(&body)), (413, "BODY_TOO_LARGE"));
}

#[tokio::test]
async fn what_is_not_there_is_told_alike() {
    let request = |verb: &str, path: &str| Request::builder().method(verb).uri(path).body(Body::empty()).unwrap();
    let (status, headers, body) = send(request("GET", "/nowhere")).await;
    assert_eq!((status.as_u16(), reason(&body), headers.contains_key("x-request-id")), (404, "ROUTE_NOT_FOUND", true));
    let (status, headers, body) = send(request("PUT", "/resources/v3alpha/targets/7")).await;
    assert_eq!((status.as_u16(), reason(&body), &body["code"]), (405, "METHOD_NOT_ALLOWED", &json!(12)));
    let allowed = headers[header::ALLOW].to_str().unwrap();
    assert!(allowed.contains("DELETE") && allowed.contains("GET"), "{allowed}");
    let (status, _, body) = send(request("GET", "/resources/v3alpha/targets/7")).await;
    assert_eq!((status.as_u16(), reason(&body)), (501, "NOT_IMPLEMENTED"));
    let mut nowhere = request("GET", "/resources/v3alpha/targets/7");
    nowhere.headers_mut().insert(header::HOST, "nobody.example".parse().unwrap());
    let (status, _, body) = send(nowhere).await;
    assert_eq!((status.as_u16(), reason(&body)), (404, "INSTANCE_NOT_FOUND"));
}

#[tokio::test]
async fn all_paths_fit_in_one_router() {
    let edge = Arc::new(Open);
    let router = OPERATIONS.iter().fold(Router::new(), |router, facts| mount_unbuilt(router, &edge, facts));
    let router = fallbacks(router);
    for facts in OPERATIONS {
        let verb = format!("{:?}", facts.verb).to_uppercase();
        let request = Request::builder().method(verb.as_str()).uri(facts.path.replace("{id}", "7"));
        let response = router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let message = serde_json::from_slice::<Value>(&body).unwrap()["message"].clone();
        assert_eq!(message, format!("{} is not built yet", facts.method));
    }
}

#[tokio::test]
async fn grpc_errors_have_details() {
    let request = CreateTargetRequest::default().encode_to_vec();
    let response = call(CREATE_TARGET.facts.grpc, "application/grpc", request).await;
    assert_eq!((response.status().as_u16(), status(&response).code()), (200, tonic::Code::InvalidArgument));
    let details = tonic_types::StatusExt::get_error_details(&status(&response));
    assert_eq!(details.bad_request().unwrap().field_violations[0].field, "target");
    assert_eq!(details.request_info().unwrap().request_id, response.headers()["x-request-id"]);
}

#[tokio::test]
async fn what_grpc_cannot_read_or_find_has_its_code() {
    let over = |path, message: Vec<u8>| async move { status(&call(path, "application/grpc", message).await).code() };
    let path = CREATE_TARGET.facts.grpc;
    assert_eq!(over(path, vec![0; 1 << 20]).await, tonic::Code::InvalidArgument);
    assert_eq!(over(path, vec![0; (1 << 20) + 1]).await, tonic::Code::ResourceExhausted);
    assert_eq!(over(GET_TARGET.facts.grpc, vec![]).await, tonic::Code::Unimplemented);
    assert_eq!(over("/platform.Nothing/Here", vec![]).await, tonic::Code::Unimplemented);
    let json = send(post(path, "{}")).await;
    assert_eq!((json.0.as_u16(), reason(&json.2)), (415, "UNSUPPORTED_MEDIA_TYPE"));
}

#[tokio::test]
async fn a_browser_finds_the_trailers_in_the_body() {
    let target = json!({ "target": serde_json::from_str::<Value>(TARGET).unwrap() });
    let request: CreateTargetRequest = serde_json::from_value(target).unwrap();
    let response = call(CREATE_TARGET.facts.grpc, "application/grpc-web+proto", request.encode_to_vec()).await;
    assert_eq!(response.headers()["content-type"], "application/grpc-web+proto");
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert!(body.ends_with(b"\x80\x00\x00\x00\x0fgrpc-status:0\r\n"));
}

#[tokio::test(start_paused = true)]
async fn a_request_has_a_bound_and_its_client_may_set_a_shorter_one() {
    let mut request = post(CREATE_TARGET.facts.path, TARGET);
    request.headers_mut().insert("x-request-id", "stuck".parse().unwrap());
    let begun = tokio::time::Instant::now();
    let (status, _, body) = send(request).await;
    assert_eq!((status.as_u16(), reason(&body), &body["code"]), (504, "DEADLINE_EXCEEDED", &json!(4)));
    assert!(body["message"].as_str().unwrap().contains("Idempotency-Key"), "{body}");
    assert_eq!(begun.elapsed().as_secs(), 60);
    let target = json!({ "target": serde_json::from_str::<Value>(TARGET).unwrap() });
    let message = serde_json::from_value::<CreateTargetRequest>(target).unwrap().encode_to_vec();
    let frame = [vec![0], u32::try_from(message.len()).unwrap().to_be_bytes().to_vec(), message].concat();
    let request = Request::post(CREATE_TARGET.facts.grpc).header("authorization", "me").header("grpc-timeout", "3S");
    let request = request.header("content-type", "application/grpc").header("x-request-id", "stuck");
    let begun = tokio::time::Instant::now();
    let response = router().oneshot(request.body(Body::from(frame)).unwrap()).await.unwrap();
    assert_eq!((status_of(&response), begun.elapsed().as_secs()), (tonic::Code::DeadlineExceeded, 3));
}

fn status_of(response: &Response) -> tonic::Code {
    status(response).code()
}

#[tokio::test(start_paused = true)]
async fn whoever_is_refused_is_not_waited_for_long() {
    let endless = || Body::from_stream(futures::stream::pending::<Result<Vec<u8>, std::io::Error>>());
    let begun = tokio::time::Instant::now();
    let refused = send(Request::post(CREATE_TARGET.facts.path).body(endless()).unwrap()).await;
    assert_eq!((refused.0.as_u16(), begun.elapsed().as_secs()), (401, 5));
    let begun = tokio::time::Instant::now();
    let asking = Request::post(CREATE_TARGET.facts.path).header("expect", "100-continue").body(endless());
    assert_eq!((send(asking.unwrap()).await.0.as_u16(), begun.elapsed().as_secs()), (401, 0));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_come_has_its_own_answer() {
    let endless = Body::from_stream(futures::stream::pending::<Result<Vec<u8>, std::io::Error>>());
    let begun = tokio::time::Instant::now();
    let (status, _, body) = send(post(CREATE_TARGET.facts.path, endless)).await;
    assert_eq!((status.as_u16(), reason(&body), begun.elapsed().as_secs()), (408, "BODY_TIMEOUT", 30));
}

async fn search(_: String, _: SearchTargetsRequest) -> Result<Answer<SearchTargetsResponse>, Error> {
    Ok(Answer { message: SearchTargetsResponse::default(), status: None, metadata: vec![] })
}

#[tokio::test]
async fn what_is_wrong_with_a_large_body_is_told_in_few_words() {
    let many = |item: &str| format!("[{}{item}]", format!("{item},").repeat((1 << 20) / (item.len() + 1) - 2));
    let members: Vec<String> = (0..60_000).map(|number| format!("\"member{number}\":1")).collect();
    let router = fallbacks(mount(Router::new(), &Arc::new(Open), search));
    for body in [
        many("{}"),
        many("1"),
        many(r#"{"a":1}"#),
        many(r#"{"inIds":{"ids":[1]}}"#),
        format!("{{{}}}", members.join(",")),
        format!("{{\"{}\":1}}", "a".repeat(1_000_000)),
        format!("{{\"{0}\":1,\"{0}\":2}}", "a".repeat(500_000)),
    ] {
        let shown: String = body.chars().take(40).collect();
        let answer = router.clone().oneshot(post(SEARCH_TARGETS.facts.path, body)).await.unwrap();
        assert_eq!(answer.status().as_u16(), 400, "{shown}");
        let told = answer.into_body().collect().await.unwrap().to_bytes();
        assert!(told.len() < 32 * 1024, "{shown}: {} bytes", told.len());
        let told: Value = serde_json::from_slice(&told).unwrap();
        let violations = told["details"][1]["fieldViolations"].as_array().map_or(0, Vec::len);
        assert!(violations <= 20, "{shown}: {violations} violations");
    }
}
