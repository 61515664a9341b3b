//! Requests and answers as nodes forward them over the bus: the original request, with its caller's token, to the node
//! that can handle it. When and by whom they are sent is not decided here.

use axum::{body::Body, extract::Request, response::Response};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, request::Parts};
use http_body_util::{BodyExt, Full};
use proto::bus;

use crate::error::{Reason, Refused};

/// The most bytes of a message in addition to its payload.
pub const FRAME: usize = 1024;

/// The subject of requests to a node. The name is encoded, since it may have characters that subjects cannot have.
pub fn subject(shard: u16, name: &str) -> String {
    format!("commands.{shard}.{}", URL_SAFE_NO_PAD.encode(name))
}

/// Packs a request for the bus.
pub fn packed(parts: &Parts, body: &Bytes) -> bus::PassedRequest {
    bus::PassedRequest {
        method: parts.method.as_str().to_owned(),
        uri: parts.uri.to_string(),
        headers: packed_headers(&parts.headers),
        body: body.clone(),
    }
}

/// Unpacks a request; `None` if it is malformed.
pub fn unpacked(packed: bus::PassedRequest) -> Option<Request> {
    let mut request =
        Request::builder().method(packed.method.as_str()).uri(packed.uri).body(packed.body.into()).ok()?;
    *request.headers_mut() = headers(packed.headers)?;
    Some(request)
}

/// Unpacks an answer; `None` if it is malformed.
pub fn response(packed: bus::PassedAnswer) -> Option<Response> {
    let trailers = headers(packed.trailers)?;
    let body = Full::new(packed.body);
    let body = if trailers.is_empty() {
        Body::new(body)
    } else {
        Body::new(body.with_trailers(async move { Some(Ok(trailers)) }))
    };
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(u16::try_from(packed.status).ok()?).ok()?;
    *response.headers_mut() = headers(packed.headers)?;
    if let Some(reason) = Reason::ALL.iter().find(|reason| reason.name() == packed.refused) {
        response.extensions_mut().insert(Refused(reason.name()));
    }
    Some(response)
}

/// Packs headers or trailers for the bus.
pub fn packed_headers(headers: &HeaderMap) -> Vec<bus::Header> {
    let packed = |(name, value): (&HeaderName, &HeaderValue)| bus::Header {
        name: name.as_str().to_owned(),
        value: Bytes::copy_from_slice(value.as_bytes()),
    };
    headers.iter().map(packed).collect()
}

fn headers(packed: Vec<bus::Header>) -> Option<HeaderMap> {
    let unpacked = |header: bus::Header| {
        Some((header.name.parse::<HeaderName>().ok()?, HeaderValue::from_maybe_shared(header.value).ok()?))
    };
    packed.into_iter().map(unpacked).collect()
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    #[test]
    fn a_request_arrives_as_it_came() {
        let request = Request::post("http://id.example:8080/a/b?c=%20d").header("x-many", "1").header("x-many", "2");
        let request = request.header("x-latin", HeaderValue::from_bytes(b"\xe9").unwrap()).body(()).unwrap();
        let (parts, ()) = request.into_parts();
        let sent = packed(&parts, &Bytes::from_static(b"\0body")).encode_to_vec();
        let (arrived, _) = unpacked(bus::PassedRequest::decode(sent.as_slice()).unwrap()).unwrap().into_parts();
        assert_eq!((&arrived.method, &arrived.uri, &arrived.headers), (&parts.method, &parts.uri, &parts.headers));
    }

    #[tokio::test]
    async fn an_answer_arrives_with_its_trailers() {
        let trailers = vec![bus::Header { name: "grpc-status".to_owned(), value: Bytes::from_static(b"0") }];
        let answer =
            bus::PassedAnswer { status: 200, body: Bytes::from_static(b"x"), trailers, ..bus::PassedAnswer::default() };
        let collected = response(answer).unwrap().into_body().collect().await.unwrap();
        assert_eq!(collected.trailers().unwrap()["grpc-status"], "0");
        assert_eq!(collected.to_bytes(), "x");
    }

    #[test]
    fn an_answer_says_why_it_refuses() {
        let refused = |reason: &str| {
            let answer = bus::PassedAnswer { status: 403, refused: reason.to_owned(), ..bus::PassedAnswer::default() };
            response(answer).unwrap().extensions().get().map(|Refused(reason)| *reason)
        };
        let known = Reason::OriginNotAllowed.name();
        assert_eq!(refused(known), Some(known));
        assert_eq!([refused(""), refused("OF_A_NEWER_BUILD")], [None, None]);
    }

    #[test]
    fn a_name_is_one_part_of_a_subject() {
        assert_eq!(subject(0, "a.b *>").split('.').count(), 3);
        assert_ne!(subject(0, "a"), subject(0, "b"));
    }
}
