//! The observability of requests: a span, metrics, and a line in the log when a request is answered.
//!
//! Metrics are looked up by name when an operation is mounted or answers with a code for the first time; a request
//! costs a few atomic additions.

use std::{
    sync::{Arc, OnceLock},
    time::Instant,
};

use axum::{
    extract::{Request, State},
    middleware::Next,
    response::Response,
};
use base::{
    metric::{
        Counter, Gauge, GaugeGuard, Histogram,
        catalog::{REQUEST_DURATION, REQUESTS, REQUESTS_IN_FLIGHT},
    },
    trace,
};
use http::{HeaderMap, StatusCode};
use tonic::Code;
use tracing::{Instrument, Span, field::Empty};

use crate::{
    error::{Reason, Refused},
    header,
    request_id::{identified, identify},
};

/// The transport of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// HTTP, with JSON or a form.
    Http,
    /// gRPC, for browsers too.
    Grpc,
}

/// The metrics of an operation.
#[derive(Debug)]
pub struct Meter {
    service: &'static str,
    method: &'static str,
    http: Cells,
    grpc: Cells,
}

/// The metrics of an operation on one transport.
#[derive(Debug)]
struct Cells {
    transport: &'static str,
    in_flight: &'static Gauge,
    duration: OnceLock<&'static Histogram>,
    /// Answered requests, by code.
    answered: [OnceLock<&'static Counter>; CODES.len()],
}

/// A request that is being answered. If it is dropped before, its client has cancelled it.
struct Running<'a> {
    meter: &'a Meter,
    transport: Transport,
    begun: Instant,
    code: Code,
    _held: GaugeGuard,
}

/// The names of gRPC's codes, by number.
const CODES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

impl Meter {
    /// The metrics of a method.
    pub fn new(service: &'static str, method: &'static str) -> Self {
        Self { service, method, http: Cells::new("http"), grpc: Cells::new("grpc") }
    }

    /// The span that everything about a request belongs to. Its instance is recorded when it is known.
    pub(crate) fn span(&self, headers: &HeaderMap, request_id: &str) -> Span {
        let given = header::trace_context(headers);
        let (operation, trace_id) = (self.method, given.and_then(trace::trace_id));
        // The level is that of errors, so that a line about a request names it whatever `RUST_LOG` is.
        if !trace::is_exported() {
            return tracing::error_span!(
                "request",
                operation,
                request_id,
                trace_id,
                instance = Empty,
                sequence = Empty
            );
        }
        let span = tracing::error_span!(
            "request",
            operation,
            request_id,
            trace_id,
            instance = Empty,
            sequence = Empty,
            rpc.service = self.service,
            reason = Empty,
            otel.name = operation,
            otel.kind = "server",
            otel.status_code = Empty,
        );
        if let Some(given) = given {
            trace::adopt(&span, given);
        }
        span
    }

    /// Answers a request in its span and counts it. Over gRPC an error has the HTTP status of a success, so its reason
    /// is returned beside the response.
    pub(crate) async fn observe(
        &self,
        transport: Transport,
        span: Span,
        answer: impl Future<Output = (Response, Option<Reason>)>,
    ) -> Response {
        let mut running = self.begin(transport);
        async {
            let (response, reason) = answer.await;
            running.code = reason.map_or_else(|| code_of(response.status()), Reason::code);
            let status = reason.map_or_else(|| response.status(), Reason::http_status);
            let name = reason.map(Reason::name).or_else(|| response.extensions().get().map(|Refused(name)| *name));
            log_answer(status, name, running.begun);
            response
        }
        .instrument(span)
        .await
    }

    fn begin(&self, transport: Transport) -> Running<'_> {
        let held = self.cells(transport).in_flight.hold();
        Running { meter: self, transport, begun: Instant::now(), code: Code::Cancelled, _held: held }
    }

    fn cells(&self, transport: Transport) -> &Cells {
        match transport {
            Transport::Http => &self.http,
            Transport::Grpc => &self.grpc,
        }
    }
}

impl Cells {
    fn new(transport: &'static str) -> Self {
        let in_flight = REQUESTS_IN_FLIGHT.with(&[transport]);
        Self { transport, in_flight, duration: OnceLock::new(), answered: [const { OnceLock::new() }; CODES.len()] }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let (Meter { service, method, .. }, cells) = (self.meter, self.meter.cells(self.transport));
        let code = self.code as usize;
        let labels = || [cells.transport, service, method, CODES[code]];
        cells.answered[code].get_or_init(|| REQUESTS.with(&labels())).count();
        let duration = cells.duration.get_or_init(|| REQUEST_DURATION.with(&labels()[..3]));
        duration.record_time(self.begun.elapsed());
    }
}

/// Writes one line for each request: a failure of the platform is a warning, an error of the client is not.
fn log_answer(status: StatusCode, reason: Option<&str>, begun: Instant) {
    let status = status.as_u16();
    if status >= 500 && status != 501 {
        let duration_ms = millis(begun);
        Span::current().record("reason", reason).record("otel.status_code", "ERROR");
        tracing::warn!(status, reason, duration_ms, "a request was not served");
    } else {
        tracing::debug!(status, reason, duration_ms = millis(begun), "a request was answered");
    }
}

fn millis(begun: Instant) -> f64 {
    (begun.elapsed().as_secs_f64() * 1e6).round() / 1e3
}

/// The code for a status; the endpoints of OAuth have no other.
fn code_of(status: StatusCode) -> Code {
    match status.as_u16() {
        200..=399 => Code::Ok,
        401 => Code::Unauthenticated,
        403 => Code::PermissionDenied,
        404 => Code::NotFound,
        405 | 501 => Code::Unimplemented,
        409 => Code::Aborted,
        429 => Code::ResourceExhausted,
        503 => Code::Unavailable,
        400..=499 => Code::InvalidArgument,
        _ => Code::Internal,
    }
}

/// A middleware for routes that are not operations: their requests and answers get an id, a span and metrics, too.
pub async fn observed(State(meter): State<Arc<Meter>>, mut request: Request, next: Next) -> Response {
    let id = identify(request.headers_mut());
    let span = meter.span(request.headers(), &id);
    let answer = async { (identified(next.run(request).await, &id), None) };
    meter.observe(Transport::Http, span, answer).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_codes() {
        for (number, name) in (0..).zip(CODES) {
            let plain = format!("{:?}", Code::from_i32(number)).to_uppercase();
            assert_eq!(name.replace('_', ""), plain);
        }
    }

    #[test]
    fn a_request_is_counted_once_whatever_becomes_of_it() {
        let meter = Meter::new("test.Counted", "Once");
        let count = |code: &str| {
            let text = base::metric::render();
            let line = format!("service=\"test.Counted\",method=\"Once\",code=\"{code}\"}} ");
            text.lines().find_map(|found| found.split_once(&line)?.1.parse::<u64>().ok())
        };
        drop(meter.begin(Transport::Http));
        let mut running = meter.begin(Transport::Http);
        running.code = Code::NotFound;
        drop(running);
        assert_eq!((count("CANCELLED"), count("NOT_FOUND"), count("OK")), (Some(1), Some(1), None));
    }
}
