//! Log lines for machines: one JSON object each, with the node, and with the fields of the enclosing spans.

use std::{
    fmt::{self, Write as _},
    io::Write as _,
};

use base::clock;
use serde_json::{Map, Value};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{
    Layer,
    layer::Context,
    registry::{LookupSpan, SpanRef},
};

/// Writes lines to standard error.
pub(super) struct Lines {
    /// The role and the name of the node.
    node: Option<(&'static str, String)>,
}

/// The fields of a span, or of a line.
#[derive(Default)]
struct Fields(Vec<(&'static str, Value)>);

impl Lines {
    pub(super) fn new(node: Option<(&'static str, String)>) -> Self {
        Self { node }
    }

    /// Returns the line of an event. Fields of the event take precedence over those of a span, and those of an inner
    /// span over those of an outer one.
    fn line<'a, S>(&self, event: &Event<'_>, spans: impl Iterator<Item = SpanRef<'a, S>>) -> Map<String, Value>
    where
        S: Subscriber + for<'b> LookupSpan<'b> + 'a,
    {
        let mut line = Map::new();
        let metadata = event.metadata();
        line.insert("timestamp".to_owned(), clock::now().to_string().into());
        line.insert("level".to_owned(), metadata.level().as_str().into());
        if let Some((role, node)) = &self.node {
            line.insert("role".to_owned(), (*role).into());
            line.insert("node".to_owned(), node.as_str().into());
        }
        line.insert("target".to_owned(), metadata.target().into());
        let mut fields = Fields::default();
        event.record(&mut fields);
        line.extend(fields.0.into_iter().map(|(name, value)| (name.to_owned(), value)));
        for span in spans {
            if let Some(Fields(fields)) = span.extensions().get() {
                for (name, value) in fields {
                    line.entry(*name).or_insert_with(|| value.clone());
                }
            }
        }
        line
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Lines {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Fields>()
        {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut line = Value::Object(self.line(event, context.event_scope(event).into_iter().flatten())).to_string();
        line.push('\n');
        // There is nowhere left to report that this failed.
        let _ = std::io::stderr().lock().write_all(line.as_bytes());
    }
}

impl Fields {
    fn set(&mut self, field: &Field, value: impl Into<Value>) {
        // These fields are for traces only.
        if field.name().starts_with("otel.") {
            return;
        }
        match self.0.iter_mut().find(|(name, _)| *name == field.name()) {
            Some((_, known)) => *known = value.into(),
            None => self.0.push((field.name(), value.into())),
        }
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, value);
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = String::new();
        // A value whose `Debug` fails is logged as far as it was written.
        let _ = write!(text, "{value:?}");
        self.set(field, text);
    }
}
