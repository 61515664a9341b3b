//! Public documents about an instance, which clients may cache.

use axum::response::{IntoResponse, Response};
use base::secret;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use edge::precondition::none_match_has;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::Value;

/// The `Cache-Control` header of these documents.
const CACHED: &str = "public, max-age=300, must-revalidate";

/// Answers with a document, or with 304 where the client has it already (RFC 9110, section 13.1.2).
pub(crate) fn answer(request: &HeaderMap, document: &Value) -> Response {
    let content = document.to_string();
    // Weak, because answers may be compressed in transit.
    let tag = format!("W/\"{}\"", URL_SAFE_NO_PAD.encode(&secret::sha256(content.as_bytes())[..12]));
    let mut response = if none_match_has(request, &tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        ([(header::CONTENT_TYPE, "application/json")], content).into_response()
    };
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(CACHED));
    headers.insert(header::ETAG, HeaderValue::try_from(tag).expect("base64url is visible"));
    response
}
