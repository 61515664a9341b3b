//! The headers that every answer has, wherever it is from.

use axum::body::Body;
use edge::precondition::none_match_has;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};

/// For how long browsers use TLS only: two years.
const STRICT: HeaderValue = HeaderValue::from_static("max-age=63072000");

/// Completes the headers of an answer. Those that are set already stay.
pub(super) fn complete(headers: &mut HeaderMap, has_tls: bool) {
    let is_compressed = headers.contains_key(header::CONTENT_ENCODING);
    if let Some(tag) = headers.get_mut(header::ETAG).filter(|_| is_compressed) {
        weaken(tag);
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.entry(header::X_CONTENT_TYPE_OPTIONS).or_insert(HeaderValue::from_static("nosniff"));
    if has_tls {
        headers.entry(header::STRICT_TRANSPORT_SECURITY).or_insert(STRICT);
    }
}

/// The `If-None-Match` of a GET request; few requests have one.
pub(super) fn none_match<B>(request: &Request<B>) -> Option<HeaderMap> {
    let values = request.headers().get_all(header::IF_NONE_MATCH);
    let is_asked = request.method() == Method::GET && values.iter().next().is_some();
    is_asked.then(|| values.iter().map(|value| (header::IF_NONE_MATCH, value.clone())).collect())
}

/// Leaves out the body that the client has already (RFC 9110, section 15.4.5).
pub(super) fn leave_out(known: &HeaderMap, answer: &mut Response<Body>) {
    let tag = answer.headers().get(header::ETAG).and_then(|tag| tag.to_str().ok());
    if answer.status() == StatusCode::OK && tag.is_some_and(|tag| none_match_has(known, tag)) {
        *answer.status_mut() = StatusCode::NOT_MODIFIED;
        *answer.body_mut() = Body::empty();
        for name in [header::CONTENT_TYPE, header::CONTENT_LENGTH, header::CONTENT_ENCODING] {
            answer.headers_mut().remove(name);
        }
    }
}

/// Weakens a tag: a compressed answer is not byte for byte what a strong one stands for (RFC 9110, section 8.8.1).
fn weaken(tag: &mut HeaderValue) {
    if tag.as_bytes().starts_with(b"\"")
        && let Ok(weak) = HeaderValue::from_bytes(&[b"W/", tag.as_bytes()].concat())
    {
        *tag = weak;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn completed(headers: &[(&'static str, &'static str)], has_tls: bool) -> Vec<(String, String)> {
        let header = |(name, value): &(&'static str, &'static str)| {
            (http::HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        let mut headers: HeaderMap = headers.iter().map(header).collect();
        complete(&mut headers, has_tls);
        let text = |value: &HeaderValue| value.to_str().unwrap().to_owned();
        let mut headers: Vec<_> = headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        headers.sort();
        headers
    }

    fn listed(headers: &[(&str, &str)]) -> Vec<(String, String)> {
        headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn an_answer_is_neither_stored_nor_guessed_at() {
        let common = [("cache-control", "no-store"), ("x-content-type-options", "nosniff")];
        assert_eq!(completed(&[], false), listed(&common));
        let strict = ("strict-transport-security", "max-age=63072000");
        assert_eq!(completed(&[], true), listed(&[common[0], strict, common[1]]));
        let told = completed(&[("cache-control", "max-age=300")], false);
        assert_eq!(told, listed(&[("cache-control", "max-age=300"), common[1]]));
    }

    #[test]
    fn what_the_client_has_is_left_out() {
        for (method, given, status) in [
            (Method::GET, "\"7\"", 304),
            (Method::GET, "\"6\", W/\"7\"", 304),
            (Method::GET, "*", 304),
            (Method::GET, "\"8\"", 200),
            (Method::POST, "\"7\"", 200),
        ] {
            let request = Request::builder().method(&method).header("if-none-match", given).body(()).unwrap();
            let mut answer = Response::builder().header("etag", "\"7\"").body(Body::from("{}")).unwrap();
            if let Some(known) = none_match(&request) {
                leave_out(&known, &mut answer);
            }
            assert_eq!(answer.status().as_u16(), status, "{method} {given}");
            assert_eq!(http_body::Body::is_end_stream(answer.body()), status == 304);
        }
        assert_eq!(none_match(&Request::get("/").body(()).unwrap()), None);
    }

    #[test]
    fn the_tag_of_a_compressed_answer_is_weak() {
        for (tag, weak) in [("\"7\"", "W/\"7\""), ("W/\"7\"", "W/\"7\"")] {
            let told = completed(&[("etag", tag), ("content-encoding", "gzip")], false);
            assert!(told.contains(&("etag".to_owned(), weak.to_owned())), "{told:?}");
        }
        assert!(completed(&[("etag", "\"7\"")], false).contains(&("etag".to_owned(), "\"7\"".to_owned())));
    }
}
