//! The id of a request: the caller's or a new one, in the headers of the request and of its answer.

use axum::response::Response;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::header::text;

/// The header of request ids.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The longest request id that is taken over from the caller, in bytes.
const REQUEST_ID_LIMIT: usize = 128;

/// Returns the id of a request, and puts it in the headers, whether or not the client sent one.
pub(crate) fn identify(headers: &mut HeaderMap) -> String {
    let id = request_id(headers);
    if let Ok(value) = HeaderValue::from_str(&id) {
        headers.insert(REQUEST_ID, value);
    }
    id
}

/// Adds the id of the request to its answer.
pub(crate) fn identified(mut response: Response, id: &str) -> Response {
    if let Ok(value) = HeaderValue::from_str(id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
}

/// The caller's request id, if it can be logged as it is; otherwise a new one.
pub fn request_id(headers: &HeaderMap) -> String {
    let given = text(headers, REQUEST_ID.as_str());
    let plain =
        |id: &&str| (1..=REQUEST_ID_LIMIT).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic());
    given.filter(plain).map_or_else(new_request_id, str::to_owned)
}

/// Makes a new id, which need not be secret.
fn new_request_id() -> String {
    std::iter::repeat_with(fastrand::alphanumeric).take(22).collect()
}
