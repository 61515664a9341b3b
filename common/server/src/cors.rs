//! What pages of other origins may do in browsers (Fetch standard, CORS protocol).
//!
//! Neither the API nor the endpoints from which apps get tokens accept cookies: without a token, a code or a secret a
//! request is refused, so pages of any origin may send requests. Whether a token is used by a page of its own app is
//! checked at admission, which knows the token; preflight requests have none. Where a person uses the authorization
//! server itself, no page of another origin may take part.

use std::time::Duration;

use axum::response::Response;
use edge::error::{Reason, Refused};
use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use tower::util::MapResponseLayer;
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

/// How long a browser may cache the answer to a preflight request.
const MAX_AGE: Duration = Duration::from_hours(2);
/// The endpoints that apps in pages use themselves: keys, tokens, revocation, and user info.
const OF_APPS: [&str; 4] = ["/oauth/v2/keys", "/oauth/v2/token", "/oauth/v2/revoke", "/oidc/v1/userinfo"];
/// The headers of an answer that a page may read.
const EXPOSED: [&str; 12] = [
    "consistency-token",
    "etag",
    "grpc-message",
    "grpc-status",
    "grpc-status-details-bin",
    "idempotency-replayed",
    "preference-applied",
    "ratelimit",
    "ratelimit-policy",
    "retry-after",
    "www-authenticate",
    "x-request-id",
];

/// The layer that hides answers from pages.
type Closing = MapResponseLayer<fn(Response) -> Response>;

/// Lets pages of every origin use the API, discovery, keys and the endpoints for apps in pages, without cookies.
pub fn cors() -> (Closing, CorsLayer) {
    let layer = CorsLayer::new()
        .allow_origin(AllowOrigin::predicate(|_, request| is_open(request.uri.path())))
        .allow_methods([Method::GET, Method::POST, Method::PUT, Method::PATCH, Method::DELETE])
        // `*` would not cover Authorization.
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers(EXPOSED.map(HeaderName::from_static))
        .max_age(MAX_AGE);
    (MapResponseLayer::new(closed_to_strangers), layer)
}

/// Lets the requesting page read an answer that was made before the CORS layer.
pub(crate) fn permit(path: &str, origin: Option<HeaderValue>, answer: &mut HeaderMap) {
    let Some(origin) = origin.filter(|_| is_open(path)) else { return };
    answer.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    answer.append(header::VARY, HeaderValue::from_static("origin"));
    if let Ok(exposed) = HeaderValue::from_str(&EXPOSED.join(",")) {
        answer.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
    }
}

/// Hides an answer from the page if the request was refused because of its origin.
fn closed_to_strangers(mut response: Response) -> Response {
    if response.extensions().get().is_some_and(|Refused(reason)| *reason == Reason::OriginNotAllowed.name()) {
        response.headers_mut().remove(header::ACCESS_CONTROL_ALLOW_ORIGIN);
        response.headers_mut().remove(header::ACCESS_CONTROL_EXPOSE_HEADERS);
    }
    response
}

fn is_open(path: &str) -> bool {
    let is_of_authorization = ["/oauth/", "/oidc/", "/login", "/ui/"].iter().any(|prefix| path.starts_with(prefix));
    !is_of_authorization || OF_APPS.contains(&path)
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse;
    use edge::error::Error;

    use super::*;

    #[test]
    fn only_what_is_refused_to_a_page_is_kept_from_it() {
        for (reason, is_read) in [(Reason::OriginNotAllowed, false), (Reason::PermissionDenied, true)] {
            let mut answer = Error::new(reason, "it is refused").into_response();
            for name in [header::ACCESS_CONTROL_ALLOW_ORIGIN, header::ACCESS_CONTROL_EXPOSE_HEADERS] {
                answer.headers_mut().insert(name, HeaderValue::from_static("*"));
            }
            let headers = closed_to_strangers(answer).headers().clone();
            assert_eq!(headers.contains_key(header::ACCESS_CONTROL_ALLOW_ORIGIN), is_read, "{reason:?}");
            assert_eq!(headers.contains_key(header::ACCESS_CONTROL_EXPOSE_HEADERS), is_read, "{reason:?}");
        }
    }

    #[test]
    fn the_authorization_server_itself_is_closed() {
        let others = ["/resources/v3alpha/targets", "/.well-known/openid-configuration", "/openapi.json"];
        for path in others.iter().chain(&OF_APPS) {
            assert!(is_open(path), "{path}");
        }
        for path in
            ["/oauth/v2/introspect", "/oauth/v2/authorize", "/oidc/v1/end_session", "/login/password", "/ui/operate"]
        {
            assert!(!is_open(path), "{path}");
        }
    }
}
