//! Traces across processes: the W3C `traceparent` of a request, stored in its events and linked to by projections.
//!
//! This costs nothing unless the process exports traces: then [`install`] sets the functions that do so.

use std::{collections::HashSet, sync::OnceLock, time::Duration};

use jiff::Timestamp;
use tracing::Span;

use crate::clock;

/// How many requests the span of a batch links to at most.
const MOST_LINKS: usize = 32;
/// The age from which a record is not linked: it is being read again, and traces of it ended long ago.
const OLD: Duration = Duration::from_mins(1);

/// The functions of an exporter of traces. The texts are `traceparent`s.
#[derive(Debug, Clone, Copy)]
pub struct Hooks {
    /// Makes a span part of a trace.
    pub adopt: fn(&Span, &str),
    /// Links a span to another one.
    pub link: fn(&Span, &str),
    /// Returns the `traceparent` of a span, so that others can become part of its trace.
    pub context: fn(&Span) -> Option<String>,
}

static HOOKS: OnceLock<Hooks> = OnceLock::new();

/// Starts exporting traces.
pub fn install(hooks: Hooks) {
    let _ = HOOKS.set(hooks);
}

/// Whether this process exports traces.
pub fn is_exported() -> bool {
    HOOKS.get().is_some()
}

/// Makes a span that has not been entered yet part of the trace of a request.
pub fn adopt(span: &Span, traceparent: &str) {
    if let Some(hooks) = HOOKS.get() {
        (hooks.adopt)(span, traceparent);
    }
}

/// Returns the `traceparent` for what a request leads to: that of the span if traces are exported, else the given one.
pub fn context(given: Option<&str>) -> String {
    let own = HOOKS.get().and_then(|hooks| (hooks.context)(&Span::current()));
    own.unwrap_or_else(|| given.unwrap_or_default().to_owned())
}

/// Returns the span of a batch, made by `span` and linked to the requests that led to it, by the `traceparent`s of
/// their events; an empty span if none of them is recorded.
pub fn linked<'a>(
    committed_at: Timestamp,
    contexts: impl IntoIterator<Item = &'a str>,
    span: impl FnOnce() -> Span,
) -> Span {
    let Some(hooks) = HOOKS.get() else { return Span::none() };
    if clock::now().duration_since(committed_at).unsigned_abs() > OLD {
        return Span::none();
    }
    let sampled: HashSet<&str> = contexts.into_iter().filter(|context| is_sampled(context)).take(MOST_LINKS).collect();
    if sampled.is_empty() {
        return Span::none();
    }
    let span = span();
    for context in sampled {
        (hooks.link)(&span, context);
    }
    span
}

/// Returns the trace id of a well-formed `traceparent`.
pub fn trace_id(traceparent: &str) -> Option<&str> {
    traceparent.get(3..35)
}

/// Whether the sender of a `traceparent` records the trace.
fn is_sampled(traceparent: &str) -> bool {
    let flags = traceparent.get(53..).and_then(|flags| u8::from_str_radix(flags, 16).ok());
    flags.is_some_and(|flags| flags & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_tell_who_is_sampled() {
        let of = |flags: &str| format!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-{flags}");
        assert!(is_sampled(&of("01")) && is_sampled(&of("03")));
        assert!(!is_sampled(&of("00")) && !is_sampled(&of("02")) && !is_sampled(&of("")) && !is_sampled(""));
        assert_eq!(trace_id(&of("01")), Some("4bf92f3577b34da6a3ce929d0e0e4736"));
        assert_eq!(trace_id(""), None);
    }

    #[test]
    fn without_an_exporter_the_given_context_is_kept() {
        assert_eq!(context(Some("given")), "given");
        assert_eq!(context(None), "");
        assert!(linked(clock::now(), [], || unreachable!("nobody asks for a span")).is_none());
    }
}
