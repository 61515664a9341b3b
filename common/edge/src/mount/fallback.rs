//! Answers to requests that no operation is mounted for.

use axum::{
    Router,
    extract::Request,
    response::{IntoResponse, Redirect, Response},
    routing::get,
};
use http::Method;
use proto::operation::{Facts, Matter, OPERATIONS};

use super::{over_grpc::Grpc, refuse::refuse};
use crate::error::{Error, Reason};

/// The paths of OpenID Connect nodes, which are not operations.
const OIDC: [&str; 3] = ["/oauth/", "/oidc/", "/.well-known/"];

/// The path of the pages for operators, which are not operations either. Nodes that have them answer every path below
/// it.
const PAGES: &str = "/ui/operate";

/// Answers unknown paths and methods like everything else, and redirects `/`. This comes last: axum applies these
/// answers to the routes that exist by then, and routers that both have such answers cannot be merged.
pub fn fallbacks(router: Router) -> Router {
    let router = router.route("/", get(async || Redirect::temporary("/ui/login").into_response()));
    router.fallback(not_found).method_not_allowed_fallback(not_allowed)
}

async fn not_found(request: Request) -> Response {
    let is_grpc = Grpc::of(request.headers()).is_some();
    let (reason, what) = if is_grpc { (Reason::NotImplemented, "method") } else { (Reason::RouteNotFound, "path") };
    let path = request.uri().path();
    let message = match role_elsewhere(request.method(), path, is_grpc) {
        Some(role) => format!("this node does not serve {path}: {role} nodes do"),
        None => format!("there is no {what} {path}"),
    };
    refuse(request, Error::new(reason, message)).await
}

async fn not_allowed(request: Request) -> Response {
    let (path, method) = (request.uri().path(), request.method());
    let message = match role(method, path, false) {
        Some(role) => format!("this node does not serve {method} {path}: {role} nodes do"),
        None => format!("{path} has no method {method}"),
    };
    refuse(request, Error::new(Reason::MethodNotAllowed, message)).await
}

/// The role whose nodes have a path that this node lacks.
fn role_elsewhere(method: &Method, path: &str, is_grpc: bool) -> Option<&'static str> {
    let is_page = path.strip_prefix(PAGES).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    if is_page { Some("query") } else { role(method, path, is_grpc) }
}

/// The role whose nodes answer what this node does not.
fn role(method: &Method, path: &str, is_grpc: bool) -> Option<&'static str> {
    if OIDC.iter().any(|beginning| path.starts_with(beginning)) {
        return Some("oidc");
    }
    let is_it = |facts: &&&Facts| {
        let is_called =
            if is_grpc { facts.grpc == path } else { *method == facts.verb.method() && fits(facts.path, path) };
        facts.is_built && is_called
    };
    OPERATIONS.iter().find(is_it).map(|facts| role_of(facts))
}

/// Whether a path matches a pattern with parameters such as `{id}`. No parameter begins as verbs such as `_search` do.
fn fits(pattern: &str, path: &str) -> bool {
    let (mut pattern, mut path) = (pattern.split('/'), path.split('/'));
    let is_parameter = |given: &str| !given.is_empty() && !given.starts_with('_');
    loop {
        match (pattern.next(), path.next()) {
            (None, None) => return true,
            (Some(wanted), Some(given)) if wanted == given || wanted.starts_with('{') && is_parameter(given) => {}
            _ => return false,
        }
    }
}

/// The role whose nodes answer an operation: reads are recognised by their names (docs/operations.md).
fn role_of(facts: &Facts) -> &'static str {
    if facts.matter == Matter::UnderWay {
        return "oidc";
    }
    let reads = ["Get", "Search", "List", "Resolve"].iter().any(|verb| facts.method.starts_with(verb));
    if reads { "query" } else { "command" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_role_is_named_that_answers() {
        let of = |method: &str, path: &str| role_elsewhere(&method.parse().unwrap(), path, false);
        assert_eq!(of("POST", "/resources/v3alpha/targets"), Some("command"));
        assert_eq!(of("GET", "/resources/v3alpha/targets/7"), Some("query"));
        assert_eq!(of("POST", "/resources/v3alpha/targets/_search"), Some("query"));
        assert_eq!(of("POST", "/oauth/v2/token"), Some("oidc"));
        assert_eq!(of("GET", "/resources/v3alpha/auth_requests/7-a"), Some("oidc"));
        assert_eq!(of("POST", "/resources/v3alpha/auth_requests/7-a/_finish"), Some("oidc"));
        assert_eq!(of("GET", "/ui/operate"), Some("query"));
        assert_eq!(of("GET", "/ui/operate/failed/7"), Some("query"));
        assert_eq!(role(&Method::DELETE, "/ui/operate", false), None, "whoever has the path has no such method");
        assert_eq!(of("PUT", "/resources/v3alpha/users/7/metadata/plan"), Some("command"));
        assert_eq!(of("PUT", "/resources/v3alpha/users/7/metadata/_search"), None, "it is a verb, and no key");
        for nowhere in [
            "/",
            "/x",
            "/resources/v3alpha/targets/_search",
            "/ui/static/gone.css",
            "/ui/operated",
            "/resources/v3alpha/targets/",
            "/resources/v3alpha/targets/7/8",
        ] {
            assert_eq!(of("GET", nowhere), None, "{nowhere}");
        }
        let method = "/platform.resources.action.v3alpha.PlatformActions/CreateTarget";
        assert_eq!(role(&Method::POST, method, true), Some("command"));
        let method = "/platform.resources.auth_request.v3alpha.PlatformAuthRequests/GetAuthRequest";
        assert_eq!(role(&Method::POST, method, true), Some("oidc"));
    }
}
