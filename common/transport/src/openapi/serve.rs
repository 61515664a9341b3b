//! Answers with the document and the page, to anybody.

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use serde_json::Value;
use store::secret;

use super::page;
use crate::observe::{Meter, observed};

/// A file that does not change while the process runs.
struct File {
    content: Bytes,
    kind: &'static str,
    tag: String,
    policy: Option<String>,
}

pub(super) fn routes(document: &Value, page: &str) -> Router {
    let document = Arc::new(File::new(document.to_string(), "application/json", None));
    let page = Arc::new(File::new(page.to_owned(), "text/html; charset=utf-8", Some(page::policy())));
    Router::new()
        .route("/openapi.json", get(async move |headers: HeaderMap| document.answer(&headers)))
        .route("/docs", get(async move |headers: HeaderMap| page.answer(&headers)))
        .layer(axum::middleware::from_fn_with_state(Arc::new(Meter::new("none", "openapi")), observed))
}

impl File {
    fn new(content: String, kind: &'static str, policy: Option<String>) -> Self {
        // Weak, because answers may be compressed on their way.
        let tag = format!("W/\"{}\"", URL_SAFE_NO_PAD.encode(&secret::sha256(content.as_bytes())[..12]));
        Self { content: content.into(), kind, tag, policy }
    }

    fn answer(&self, request: &HeaderMap) -> Response {
        let mut response = if self.is_known(request) {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            Response::new(Body::from(self.content.clone()))
        };
        let headers = response.headers_mut();
        let mut set = |name, value: &str| HeaderValue::from_str(value).map(|value| headers.insert(name, value)).ok();
        set(header::CONTENT_TYPE, self.kind);
        set(header::ETAG, &self.tag);
        set(header::CACHE_CONTROL, "no-cache");
        set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
        set(header::REFERRER_POLICY, "no-referrer");
        if let Some(policy) = &self.policy {
            set(header::CONTENT_SECURITY_POLICY, policy);
        }
        response
    }

    /// Whether the client has the file already (RFC 9110, section 13.1.2).
    fn is_known(&self, request: &HeaderMap) -> bool {
        let known = request.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
        known.flat_map(|value| value.split(',')).any(|tag| {
            let tag = tag.trim();
            tag == "*" || tag.trim_start_matches("W/") == self.tag.trim_start_matches("W/")
        })
    }
}
