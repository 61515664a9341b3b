//! Traces: exported to a collector, part of the trace that a request came with, and followed into the read models.

use std::sync::{Arc, Mutex};

use opentelemetry_proto::tonic::{
    collector::trace::v1::{
        ExportTraceServiceRequest, ExportTraceServiceResponse,
        trace_service_server::{TraceService, TraceServiceServer},
    },
    common::v1::{KeyValue, any_value::Value},
    resource::v1::Resource,
    trace::v1::{Span, status::StatusCode},
};
use reqwest::Method;
use tests::{
    client::{TARGETS, send, target},
    eventually, hex,
    platform::Platform,
};
use tokio::net::TcpListener;
use tonic::{Request, Response, Status, transport::Server};

/// A collector that stores the spans that it gets.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<(Resource, Span)>>>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let mut kept = self.0.lock().expect("nobody panics");
        for of_resource in request.into_inner().resource_spans {
            let resource = of_resource.resource.unwrap_or_default();
            let spans = of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
            kept.extend(spans.map(|span| (resource.clone(), span)));
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Collector {
    /// Starts a collector, and returns it with its address.
    async fn start() -> (Self, String) {
        let collector = Self::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("there are free ports");
        let address = listener.local_addr().expect("it listens");
        let incoming = tonic::transport::server::TcpIncoming::from(listener);
        let served = Server::builder().add_service(TraceServiceServer::new(collector.clone()));
        tokio::spawn(served.serve_with_incoming(incoming));
        (collector, format!("http://{address}"))
    }

    /// Returns the collected spans.
    fn spans(&self) -> Vec<(Resource, Span)> {
        self.0.lock().expect("nobody panics").clone()
    }

    /// Waits for a span.
    async fn span(&self, what: &str, is_meant: impl Fn(&Span) -> bool) -> (Resource, Span) {
        let probe = || std::future::ready(self.spans().into_iter().find(|(_, span)| is_meant(span)));
        eventually(what, probe).await
    }
}

fn attribute(attributes: &[KeyValue], name: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == name)?;
    match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text.clone()),
        Value::IntValue(number) => Some(number.to_string()),
        other => Some(format!("{other:?}")),
    }
}

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";
const UNSAMPLED: &str = "11111111111111111111111111111111";

#[tokio::test]
async fn a_trace_goes_from_the_request_to_the_read_models() {
    let (collector, endpoint) = Collector::start().await;
    let flags = ["--otlp-endpoint", &endpoint, "--otlp-sample", "0"].map(str::to_owned);
    let platform = Platform::start_with(&flags, &[("OTEL_BSP_SCHEDULE_DELAY", "100")]).await;
    platform.ready().await;
    let client = platform.client().await;
    let create = |name: &str, trace: &str, flags: &str| {
        let request = client.request(Method::POST, TARGETS).json(&target(name));
        request.header("traceparent", format!("00-{trace}-{PARENT}-{flags}"))
    };
    assert_eq!(send(create("unfollowed", UNSAMPLED, "00")).await.status, 201);
    assert_eq!(send(create("followed", TRACE, "01").header("x-request-id", "traced")).await.status, 201);

    let is_request = |span: &Span| span.name == "CreateTarget" && hex(&span.trace_id) == TRACE;
    let (resource, request) = collector.span("the span of the request", is_request).await;
    assert_eq!(hex(&request.parent_span_id), PARENT, "it is part of the caller's trace");
    assert_eq!(attribute(&request.attributes, "request_id").as_deref(), Some("traced"));
    assert_eq!(attribute(&request.attributes, "instance"), Some(platform.bootstrap.instance_id.clone()));
    let node = std::fs::read_to_string(platform.data().join("node-id")).expect("it has a name");
    for (name, value) in [
        ("service.name", "platform"),
        ("service.instance.id", node.trim()),
        ("platform.role", "standalone"),
        ("service.version", env!("CARGO_PKG_VERSION")),
    ] {
        assert_eq!(attribute(&resource.attributes, name).as_deref(), Some(value), "{name}");
    }
    for projection in ["history", "targets", "targets_index"] {
        let is_projection = |span: &Span| {
            span.name == "project" && attribute(&span.attributes, "projection").as_deref() == Some(projection)
        };
        let (_, span) = collector.span(projection, is_projection).await;
        let links: Vec<_> = span.links.iter().map(|link| (hex(&link.trace_id), link.span_id.clone())).collect();
        assert_eq!(links, [(TRACE.to_owned(), request.span_id.clone())], "{projection} follows the request only");
        assert_ne!(hex(&span.trace_id), TRACE, "a batch has many requests and is part of none");
    }
    let unwanted = |span: &Span| {
        let is_request = span.name != "project" && hex(&span.trace_id) != TRACE;
        is_request || hex(&span.trace_id) == UNSAMPLED
    };
    let spans = collector.spans();
    assert_eq!(spans.iter().find(|(_, span)| unwanted(span)), None, "nobody asked for these");
}

#[tokio::test]
async fn what_was_not_served_is_an_error_in_its_trace_and_the_last_spans_are_sent() {
    let (collector, endpoint) = Collector::start().await;
    let flags = ["--otlp-endpoint", &endpoint].map(str::to_owned);
    // They are sent at the end only.
    let mut platform = Platform::start_with(&flags, &[("OTEL_BSP_SCHEDULE_DELAY", "600000")]).await;
    platform.ready().await;
    let client = platform.client().await;
    let consistency = send(client.request(Method::POST, TARGETS).json(&target("one"))).await.consistency();
    let secrets = tests::secrets::Secrets::of(&platform).await;
    let future = secrets.consistency(&consistency, 1_000_000).await;
    let get = client.request(Method::GET, &format!("{TARGETS}/1")).header("consistency-wait", "10ms");
    assert_eq!(send(get.header("consistency-token", future)).await.status, 503);
    assert!(collector.spans().is_empty());
    platform.stop().await;
    let (_, failed) = collector.span("the failed one", |span| span.name == "GetTarget").await;
    assert_eq!(failed.status.map(|status| status.code), Some(StatusCode::Error as i32));
    assert_eq!(attribute(&failed.attributes, "reason").as_deref(), Some("CONSISTENCY_NOT_REACHED"));
    let (_, served) = collector.span("the other one", |span| span.name == "CreateTarget").await;
    assert_ne!(served.status.map(|status| status.code), Some(StatusCode::Error as i32));
}
