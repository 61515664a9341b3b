//! Rendering of metrics in the text format of Prometheus (0.0.4).

use std::{
    fmt::{Display, Write as _},
    sync::{PoisonError, atomic::Ordering::Relaxed},
};

use super::{Counter, Family, Gauge, Histogram, NANOS, Time, catalog};

/// A metric of any kind.
pub trait Metric: Sync {
    /// Returns its name.
    fn name(&self) -> &'static str;
    /// Returns its kind: `counter`, `gauge` or `histogram`.
    fn kind(&self) -> &'static str;
    /// Writes its name, kind, meaning and cells, as lines.
    fn write(&self, text: &mut String);
}

/// A kind of cell.
trait Cell: Sync {
    const KIND: &'static str;

    fn write(&self, text: &mut String, name: &str, labels: &str);
}

/// Renders all metrics of the process.
pub fn render() -> String {
    let mut text = String::with_capacity(16 * 1024);
    for metric in catalog::ALL {
        metric.write(&mut text);
    }
    text
}

impl<C: Cell> Metric for Family<C> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn kind(&self) -> &'static str {
        C::KIND
    }

    fn write(&self, text: &mut String) {
        let Self { name, help, labels: names, .. } = self;
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {}", C::KIND);
        if names.is_empty() {
            self.one();
        }
        for (values, cell) in &*self.cells.read().unwrap_or_else(PoisonError::into_inner) {
            let labels: Vec<String> =
                names.iter().zip(values).map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
            cell.write(text, name, &labels.join(","));
        }
    }
}

impl Cell for Counter {
    const KIND: &'static str = "counter";

    fn write(&self, text: &mut String, name: &str, labels: &str) {
        line(text, name, labels, self.0.load(Relaxed));
    }
}

impl Cell for Time {
    const KIND: &'static str = "counter";

    #[expect(clippy::cast_precision_loss, reason = "Prometheus knows no other numbers")]
    fn write(&self, text: &mut String, name: &str, labels: &str) {
        line(text, name, labels, self.0.load(Relaxed) as f64 / NANOS);
    }
}

impl Cell for Gauge {
    const KIND: &'static str = "gauge";

    fn write(&self, text: &mut String, name: &str, labels: &str) {
        line(text, name, labels, f64::from_bits(self.0.load(Relaxed)));
    }
}

impl Cell for Histogram {
    const KIND: &'static str = "histogram";

    #[expect(clippy::cast_precision_loss, reason = "Prometheus knows no other numbers")]
    fn write(&self, text: &mut String, name: &str, labels: &str) {
        let comma = if labels.is_empty() { "" } else { "," };
        let bounds = self.bounds.iter().map(f64::to_string).chain(["+Inf".to_owned()]);
        let mut count = 0;
        for (bound, bucket) in bounds.zip(&self.buckets) {
            count += bucket.load(Relaxed);
            line(text, &format!("{name}_bucket"), &format!("{labels}{comma}le=\"{bound}\""), count);
        }
        line(text, &format!("{name}_sum"), labels, self.sum.load(Relaxed) as f64 / self.scale);
        line(text, &format!("{name}_count"), labels, count);
    }
}

fn line(text: &mut String, name: &str, labels: &str, value: impl Display) {
    let _ =
        if labels.is_empty() { writeln!(text, "{name} {value}") } else { writeln!(text, "{name}{{{labels}}} {value}") };
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, time::Duration};

    use super::*;

    #[test]
    fn a_counter_has_its_labels_escaped() {
        static FAMILY: Family<Counter> = Family::counter("hits_total", &["of"], "Hits.");
        FAMILY.with(&["a\"\\\n"]).add(2);
        let mut text = String::new();
        FAMILY.write(&mut text);
        assert_eq!(text, "# HELP hits_total Hits.\n# TYPE hits_total counter\nhits_total{of=\"a\\\"\\\\\\n\"} 2\n");
    }

    #[test]
    fn a_metric_without_labels_is_there_before_it_is_used() {
        static FAMILY: Family<Gauge> = Family::gauge("level", &[], "Level.");
        let mut text = String::new();
        FAMILY.write(&mut text);
        assert_eq!(text.lines().last(), Some("level 0"));
    }

    #[test]
    fn buckets_add_up_and_a_bound_belongs_to_its_bucket() {
        static FAMILY: Family<Histogram> = Family::seconds("wait_seconds", &[], "Waits.");
        for millis in [1, 3, 60_000] {
            FAMILY.one().record_time(Duration::from_millis(millis));
        }
        let mut text = String::new();
        FAMILY.write(&mut text);
        let lines: HashSet<&str> = text.lines().collect();
        for line in [
            "wait_seconds_bucket{le=\"0.0005\"} 0",
            "wait_seconds_bucket{le=\"0.001\"} 1",
            "wait_seconds_bucket{le=\"0.005\"} 2",
            "wait_seconds_bucket{le=\"30\"} 2",
            "wait_seconds_bucket{le=\"+Inf\"} 3",
            "wait_seconds_sum 60.004",
            "wait_seconds_count 3",
        ] {
            assert!(lines.contains(line), "{line}: {text}");
        }
    }

    #[test]
    fn names_are_unique_and_tell_their_unit() {
        let mut seen = HashSet::new();
        for metric in catalog::ALL {
            let (name, kind) = (metric.name(), metric.kind());
            assert!(seen.insert(name), "{name} is there twice");
            assert_eq!(name.ends_with("_total"), kind == "counter", "{name}");
            assert!(name.bytes().all(|byte| byte == b'_' || byte.is_ascii_lowercase()), "{name}");
        }
    }
}
