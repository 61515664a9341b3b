//! Serves the document and the page to anybody.

use std::{
    io::Write,
    sync::{Arc, LazyLock},
};

use axum::{
    Router,
    body::Body,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use base::secret;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use edge::{
    error::Error,
    observe::{Meter, observed},
    precondition::none_match_has,
};
use flate2::{Compression, write::GzEncoder};
use tokio::task::spawn_blocking;

use super::page;

/// A file that does not change while the process runs, and is compressed only once.
struct File {
    content: Bytes,
    compressed: Option<Bytes>,
    kind: &'static str,
    tag: String,
    policy: Option<String>,
}

/// The document and the page.
struct Files {
    document: File,
    page: File,
}

/// Serves the results of `make`, which takes long and must not delay the start of a node.
pub(super) fn routes(make: impl FnOnce() -> (String, String) + Send + 'static) -> Router {
    let files = Arc::new(LazyLock::new(Box::new(move || {
        let (document, page) = make();
        Files {
            document: File::new(document, "application/json", None),
            page: File::new(page, "text/html; charset=utf-8", Some(page::policy())),
        }
    }) as Box<dyn FnOnce() -> Files + Send>));
    let answer = |which: fn(&Files) -> &File| {
        let files = files.clone();
        get(async move |headers: HeaderMap| {
            let files = files.clone();
            let answer = move || which(&files).answer(&headers);
            spawn_blocking(answer).await.map_err(|failure| Error::internal(&failure))
        })
    };
    Router::new()
        .route("/openapi.json", answer(|files| &files.document))
        .route("/docs", answer(|files| &files.page))
        .layer(axum::middleware::from_fn_with_state(Arc::new(Meter::new("none", "openapi")), observed))
}

impl File {
    fn new(content: String, kind: &'static str, policy: Option<String>) -> Self {
        // Weak, because answers may be compressed on their way.
        let tag = format!("W/\"{}\"", URL_SAFE_NO_PAD.encode(&secret::sha256(content.as_bytes())[..12]));
        Self { compressed: compressed(content.as_bytes()), content: content.into(), kind, tag, policy }
    }

    fn answer(&self, request: &HeaderMap) -> Response {
        let is_known = none_match_has(request, &self.tag);
        let compressed = self.compressed.as_ref().filter(|_| !is_known && takes_gzip(request));
        let mut response = if is_known {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            Response::new(Body::from(compressed.unwrap_or(&self.content).clone()))
        };
        let headers = response.headers_mut();
        let mut set = |name, value: &str| HeaderValue::from_str(value).map(|value| headers.insert(name, value)).ok();
        set(header::CONTENT_TYPE, self.kind);
        set(header::ETAG, &self.tag);
        set(header::CACHE_CONTROL, "no-cache");
        set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
        set(header::REFERRER_POLICY, "no-referrer");
        set(header::VARY, "accept-encoding");
        if compressed.is_some() {
            set(header::CONTENT_ENCODING, "gzip");
        }
        if let Some(policy) = &self.policy {
            set(header::CONTENT_SECURITY_POLICY, policy);
        }
        response
    }
}

fn compressed(content: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(content).and_then(|()| encoder.finish()).ok().map(Bytes::from)
}

/// Whether the client takes gzip (RFC 9110, section 12.5.3).
fn takes_gzip(request: &HeaderMap) -> bool {
    let lines = request.get_all(header::ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    lines.flat_map(|line| line.split(',')).any(|coding| {
        let (name, weight) = coding.split_once(';').unwrap_or((coding, ""));
        let weight = weight.trim().strip_prefix("q=").map(str::parse::<f32>);
        name.trim().eq_ignore_ascii_case("gzip") && weight.is_none_or(|weight| weight.is_ok_and(|weight| weight > 0.0))
    })
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;
    use http_body_util::BodyExt;

    use super::*;

    #[tokio::test]
    async fn a_file_is_compressed_for_those_who_take_it() {
        let content = "{}".repeat(10_000);
        let file = File::new(content.clone(), "application/json", None);
        for (takes, is_compressed) in [
            ("gzip", true),
            ("br, GZIP;q=0.5", true),
            ("gzip;q=0", false),
            ("gzip;q=x", false),
            ("br", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT_ENCODING, takes.parse().unwrap())]);
            let (parts, body) = file.answer(&headers).into_parts();
            let body = body.collect().await.unwrap().to_bytes();
            assert_eq!(parts.headers.contains_key(header::CONTENT_ENCODING), is_compressed, "{takes}");
            assert_eq!(parts.headers[header::VARY], "accept-encoding");
            let mut text = String::new();
            if is_compressed {
                GzDecoder::new(&body[..]).read_to_string(&mut text).unwrap();
            } else {
                text = String::from_utf8(body.to_vec()).unwrap();
            }
            assert_eq!(text, content, "{takes}");
        }
    }
}
