//! Files that pages name by their digest, so that browsers can cache them for ever.

use std::sync::Arc;

use axum::{Router, body::Body, response::Response, routing::get};
use base::secret;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{HeaderValue, header};

/// A file.
#[derive(Debug, Clone)]
pub struct Asset {
    /// The path, with the digest of the content.
    pub path: String,
    content: Arc<str>,
    kind: &'static str,
}

impl Asset {
    /// A file in a folder, with its content. The extension of its name determines the media type.
    pub fn new(folder: &str, name: &str, content: impl Into<Arc<str>>) -> Self {
        let content = content.into();
        let (name, ending) = name.rsplit_once('.').unwrap_or((name, ""));
        let digest = URL_SAFE_NO_PAD.encode(&secret::sha256(content.as_bytes())[..12]);
        let kind = match ending {
            "css" => "text/css; charset=utf-8",
            "js" => "text/javascript; charset=utf-8",
            "svg" => "image/svg+xml",
            _ => "application/octet-stream",
        };
        Self { path: format!("{folder}{name}.{digest}.{ending}"), content, kind }
    }

    /// The answer to a request for it.
    pub fn answer(&self) -> Response {
        answer(self.kind, self.content.to_string())
    }
}

/// An immutable answer of a media type.
pub fn answer(kind: &'static str, content: impl Into<Body>) -> Response {
    let mut response = Response::new(content.into());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    // A picture that is opened by itself must not run scripts either.
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    response
}

/// Serves files to anybody.
pub fn routes(assets: &[Asset]) -> Router {
    assets.iter().fold(Router::new(), |router, asset| {
        let served = asset.clone();
        router.route(&asset.path, get(async move || served.answer()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_content_is_another_file() {
        let (one, same, other) =
            (Asset::new("/b/", "a.css", "x"), Asset::new("/b/", "a.css", "x"), Asset::new("/b/", "a.css", "y"));
        assert!(one.path.starts_with("/b/a.") && one.path.rsplit('.').next() == Some("css"));
        assert_eq!(one.path, same.path);
        assert_ne!(one.path, other.path);
    }
}
