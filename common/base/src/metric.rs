//! Counters, gauges and histograms: one static each, an atomic addition to use, rendered for Prometheus on request.
//!
//! All metrics are defined in [`catalog`]. Users of a metric with labels get its cell once and retain it; a cell lives
//! as long as the process, so labels have few values: never an instance, a user or an id.

pub mod catalog;
mod text;

use std::{
    sync::{
        OnceLock, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

pub use text::{Metric, render};

/// A metric with its cells, one for each combination of labels.
pub struct Family<C: 'static> {
    name: &'static str,
    help: &'static str,
    labels: &'static [&'static str],
    make: fn() -> C,
    cells: RwLock<Vec<(Vec<String>, &'static C)>>,
    /// The cell without labels.
    only: OnceLock<&'static C>,
}

/// A value that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

/// Time that only grows, in nanoseconds.
#[derive(Debug, Default)]
pub struct Time(AtomicU64);

/// A value that goes up and down.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

/// The distribution of a value.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [f64],
    /// One per bound, and one for the values above them.
    buckets: Box<[AtomicU64]>,
    /// In units of `1 / scale`.
    sum: AtomicU64,
    scale: f64,
}

/// Keeps a gauge one higher until it is dropped.
#[derive(Debug)]
pub struct GaugeGuard(&'static Gauge);

/// Bounds for waiting times of clients, in seconds.
const SECONDS: &[f64] = &[0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0];
/// Bounds for numbers.
const NUMBERS: &[f64] = &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0];
/// Nanoseconds per second: even the sum of centuries fits.
const NANOS: f64 = 1e9;

impl<C> Family<C> {
    const fn new(name: &'static str, labels: &'static [&'static str], help: &'static str, make: fn() -> C) -> Self {
        Self { name, help, labels, make, cells: RwLock::new(Vec::new()), only: OnceLock::new() }
    }

    /// Returns the cell for these values of its labels, to be looked up once and retained.
    pub fn with(&self, values: &[&str]) -> &'static C {
        debug_assert_eq!(values.len(), self.labels.len(), "{} has other labels", self.name);
        let found = |cells: &[(Vec<String>, &'static C)]| {
            cells.iter().find(|(labels, _)| labels == values).map(|(_, cell)| *cell)
        };
        if let Some(cell) = found(&self.cells.read().unwrap_or_else(PoisonError::into_inner)) {
            return cell;
        }
        let mut cells = self.cells.write().unwrap_or_else(PoisonError::into_inner);
        found(&cells).unwrap_or_else(|| {
            let cell: &'static C = Box::leak(Box::new((self.make)()));
            cells.push((values.iter().map(|value| (*value).to_owned()).collect(), cell));
            cell
        })
    }

    /// Returns the only cell of a metric without labels.
    pub fn one(&self) -> &'static C {
        self.only.get_or_init(|| self.with(&[]))
    }
}

impl Family<Counter> {
    const fn counter(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Self {
        Self::new(name, labels, help, Counter::default)
    }
}

impl Family<Time> {
    const fn time(name: &'static str, help: &'static str) -> Self {
        Self::new(name, &[], help, Time::default)
    }
}

impl Family<Gauge> {
    const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Self {
        Self::new(name, labels, help, Gauge::default)
    }
}

impl Family<Histogram> {
    const fn seconds(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Self {
        Self::new(name, labels, help, || Histogram::new(SECONDS, NANOS))
    }

    const fn numbers(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Self {
        Self::new(name, labels, help, || Histogram::new(NUMBERS, 1.0))
    }
}

impl Counter {
    /// Counts one.
    pub fn count(&self) {
        self.add(1);
    }

    /// Adds a number.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Relaxed);
    }

    /// Takes over a count from elsewhere.
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }
}

impl Time {
    /// Takes over a time that was measured elsewhere.
    pub fn set(&self, time: Duration) {
        self.0.store(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Relaxed);
    }
}

impl Gauge {
    /// Sets the value.
    pub fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Relaxed);
    }

    /// Sets the value to a whole number; above 2^53 it is not exact.
    #[expect(clippy::cast_precision_loss, reason = "Prometheus knows no other numbers")]
    pub fn set_integer(&self, value: u64) {
        self.set(value as f64);
    }

    /// Sets the value to 1 or 0.
    pub fn set_bool(&self, value: bool) {
        self.set(f64::from(u8::from(value)));
    }

    /// Returns the value.
    pub fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Relaxed))
    }

    /// Adds one until the guard is dropped.
    pub fn hold(&'static self) -> GaugeGuard {
        self.change(1.0);
        GaugeGuard(self)
    }

    fn change(&self, by: f64) {
        // The closure always returns a value, so this never fails.
        let _ = self.0.fetch_update(Relaxed, Relaxed, |bits| Some((f64::from_bits(bits) + by).to_bits()));
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.change(-1.0);
    }
}

impl Histogram {
    fn new(bounds: &'static [f64], scale: f64) -> Self {
        let buckets = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, buckets, sum: AtomicU64::new(0), scale }
    }

    /// Records a value.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a float that is out of range saturates"
    )]
    pub fn record(&self, value: f64) {
        let bucket = self.bounds.partition_point(|bound| *bound < value);
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.sum.fetch_add((value * self.scale) as u64, Relaxed);
    }

    /// Records a number.
    #[expect(clippy::cast_precision_loss, reason = "a number of events or bytes is far below 2^53")]
    pub fn record_number(&self, value: usize) {
        self.record(value as f64);
    }

    /// Records a duration.
    pub fn record_time(&self, time: Duration) {
        self.record(time.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_the_same_for_the_same_labels() {
        static FAMILY: Family<Counter> = Family::counter("f", &["a", "b"], "");
        FAMILY.with(&["1", "2"]).count();
        FAMILY.with(&["1", "2"]).add(2);
        FAMILY.with(&["2", "1"]).count();
        assert_eq!(FAMILY.with(&["1", "2"]).0.load(Relaxed), 3);
        assert!(!std::ptr::eq(FAMILY.with(&["1", "2"]), FAMILY.with(&["2", "1"])));
    }

    #[test]
    fn what_is_held_is_given_back() {
        static FAMILY: Family<Gauge> = Family::gauge("g", &[], "");
        let (first, second) = (FAMILY.one().hold(), FAMILY.one().hold());
        assert!((f64::from_bits(FAMILY.one().0.load(Relaxed)) - 2.0).abs() < f64::EPSILON);
        drop((first, second));
        assert!(f64::from_bits(FAMILY.one().0.load(Relaxed)).abs() < f64::EPSILON);
    }
}
