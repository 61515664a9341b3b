//! The health of a node for gRPC clients and load balancers: grpc.health.v1.

use axum::Router;
use proto::operation::Facts;
use tokio_util::sync::CancellationToken;
use tonic_health::{ServingStatus, server::health_reporter};
use tonic_web::GrpcWebLayer;
use tower::{Layer, ServiceExt};

use crate::stream::{bound_request, bound_response};

/// Reports `SERVING` for the node and for every mounted service, until `stopping` is cancelled.
pub async fn health(mounted: &[&'static Facts], stopping: CancellationToken) -> Router {
    let (reporter, service) = health_reporter();
    let mut services: Vec<&str> = mounted.iter().map(|facts| facts.service).collect();
    services.push("");
    services.sort_unstable();
    services.dedup();
    for name in &services {
        reporter.set_service_status(name, ServingStatus::Serving).await;
    }
    tokio::spawn(async move {
        stopping.cancelled().await;
        for name in services {
            reporter.set_service_status(name, ServingStatus::NotServing).await;
        }
    });
    let service = ServiceExt::<http::Request<_>>::map_response(service.map_request(bound_request), bound_response);
    Router::new().route_service("/grpc.health.v1.Health/{rpc}", GrpcWebLayer::new().layer(service))
}

#[cfg(test)]
mod tests {
    use axum::{body::Body, http::Request};
    use http_body_util::BodyExt;
    use tower::ServiceExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_watches_is_let_go_after_a_while() {
        let router = health(&[], CancellationToken::new()).await;
        let request = Request::post("/grpc.health.v1.Health/Watch").version(axum::http::Version::HTTP_2);
        let request = request.header("content-type", "application/grpc");
        let response = router.oneshot(request.body(Body::from(vec![0; 5])).unwrap()).await.unwrap();
        let watched = tokio::time::timeout(std::time::Duration::from_hours(1), response.into_body().collect()).await;
        let watched = watched.expect("it ends").unwrap();
        assert_eq!(watched.trailers().unwrap()["grpc-status"], "4");
    }

    #[tokio::test]
    async fn a_browser_may_ask_too() {
        let router = health(&[], CancellationToken::new()).await;
        for (kind, path) in [("application/grpc-web", "Check"), ("application/grpc-web+proto", "Check")] {
            let request = Request::post(format!("/grpc.health.v1.Health/{path}")).header("content-type", kind);
            let response = router.clone().oneshot(request.body(Body::from(vec![0; 5])).unwrap()).await.unwrap();
            assert_eq!(response.status(), 200, "{kind}");
            let body = response.into_body().collect().await.unwrap().to_bytes();
            assert!(body.starts_with(&[0, 0, 0, 0, 2, 8, 1]), "{kind}: {body:?}");
            assert!(String::from_utf8_lossy(&body).contains("grpc-status:0"), "{kind}: {body:?}");
        }
    }
}
