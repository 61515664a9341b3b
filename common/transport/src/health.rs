//! The health of a node for gRPC clients and load balancers: grpc.health.v1.

use axum::Router;
use proto::operation::Facts;
use tokio_util::sync::CancellationToken;
use tonic_health::{ServingStatus, server::health_reporter};

/// Says `SERVING` of the node and of every service that is mounted, until `stopping`.
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
    Router::new().route_service("/grpc.health.v1.Health/{rpc}", service)
}
