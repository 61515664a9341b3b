//! Traces to an OpenTelemetry collector (OTLP over gRPC).

use std::time::Duration;

use base::trace::{self, Hooks};
use opentelemetry::{
    Context, KeyValue,
    trace::{
        Link, SpanContext, SpanId, SpanKind, TraceContextExt as _, TraceFlags, TraceId, TraceState, TracerProvider as _,
    },
};
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::{
    Resource,
    trace::{Sampler, SamplingResult, SdkTracer, SdkTracerProvider, ShouldSample},
};
use tracing::{Span, Subscriber};
use tracing_opentelemetry::{OpenTelemetryLayer, OpenTelemetrySpanExt as _};
use tracing_subscriber::registry::LookupSpan;
use url::Url;

use crate::Failure;

/// How long exporting the last spans may take.
const END_LIMIT: Duration = Duration::from_secs(2);

/// The export of spans, which goes on as long as this lives.
pub(crate) struct Exporting(SdkTracerProvider);

impl Exporting {
    /// Exports the remaining spans.
    pub(crate) async fn end(self) {
        let ended = tokio::task::spawn_blocking(move || self.0.shutdown_with_timeout(END_LIMIT)).await;
        if !matches!(ended, Ok(Ok(()))) {
            tracing::warn!("the last traces were not exported");
        }
    }
}

/// Starts exporting the spans of a node: those of traces that their sender records, and this share of the others.
pub(super) fn start<S>(
    role: &'static str,
    name: &str,
    endpoint: &Url,
    share: f64,
) -> Result<(Exporting, OpenTelemetryLayer<S, SdkTracer>), Failure>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    if endpoint.scheme() != "http" {
        return Err("the --otlp-endpoint must be http://host:port, OTLP over gRPC, of a collector nearby".into());
    }
    let exporter = SpanExporter::builder().with_tonic().with_endpoint(endpoint.as_str()).build()?;
    let attributes = [KeyValue::new("service.instance.id", name.to_owned()), KeyValue::new("platform.role", role)];
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let resource =
        Resource::builder().with_service_name("platform").with_attributes(attributes).with_attribute(version).build();
    let sampler = Sampler::ParentBased(Box::new(Roots { requests: Sampler::TraceIdRatioBased(share) }));
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_sampler(sampler)
        .with_resource(resource)
        .build();
    let layer = OpenTelemetryLayer::new(provider.tracer("platform"));
    let layer = layer.with_location(false).with_threads(false).with_tracked_inactivity(false).with_target(false);
    trace::install(Hooks { adopt, link, context });
    Ok((Exporting(provider), layer))
}

/// The sampler of traces that begin here: a share of those of requests, and all of those of batches, whose spans are
/// made only where a recorded trace leads to them.
#[derive(Debug, Clone)]
struct Roots {
    requests: Sampler,
}

impl ShouldSample for Roots {
    fn should_sample(
        &self,
        parent: Option<&Context>,
        trace_id: TraceId,
        name: &str,
        kind: &SpanKind,
        attributes: &[KeyValue],
        links: &[Link],
    ) -> SamplingResult {
        let sampler = if *kind == SpanKind::Consumer { &Sampler::AlwaysOn } else { &self.requests };
        sampler.should_sample(parent, trace_id, name, kind, attributes, links)
    }
}

fn adopt(span: &Span, traceparent: &str) {
    if let Some(parent) = read(traceparent) {
        // This fails where the span is not recorded.
        let _ = span.set_parent(Context::new().with_remote_span_context(parent));
    }
}

fn link(span: &Span, traceparent: &str) {
    if let Some(linked) = read(traceparent) {
        span.add_link(linked);
    }
}

/// Returns the `traceparent` of a span, if it is recorded; events store no other.
fn context(span: &Span) -> Option<String> {
    let context = span.context();
    let own = context.span().span_context().clone();
    let (trace, span, flags) = (own.trace_id(), own.span_id(), own.trace_flags().to_u8());
    (own.is_valid() && own.is_sampled()).then(|| format!("00-{trace}-{span}-{flags:02x}"))
}

/// Parses a `traceparent` (W3C Trace Context, section 3.2).
fn read(traceparent: &str) -> Option<SpanContext> {
    let mut parts = traceparent.split('-').skip(1);
    let (trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?);
    let (trace, span) = (TraceId::from_hex(trace).ok()?, SpanId::from_hex(span).ok()?);
    let flags = TraceFlags::new(u8::from_str_radix(flags, 16).ok()?);
    let context = SpanContext::new(trace, span, flags, true, TraceState::default());
    context.is_valid().then_some(context)
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn a_traceparent_of_zeros_names_nothing() {
        let whole = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let context = read(whole).unwrap();
        assert!(context.is_sampled() && context.is_remote());
        assert_eq!(context.span_id().to_string(), "00f067aa0ba902b7");
        for nothing in ["", "00-00000000000000000000000000000000-00f067aa0ba902b7-01", &whole[..52]] {
            assert!(read(nothing).is_none(), "{nothing}");
        }
    }
}
