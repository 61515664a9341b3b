//! The management port of a node.

use std::collections::BTreeMap;

use serde_json::Value;

/// A management port.
#[derive(Debug, Clone)]
pub struct Management {
    base: String,
}

/// The type and the labels of a metric, as the node prints them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    /// `counter`, `gauge` or `histogram`.
    pub kind: String,
    /// The names of its labels, without the bounds of buckets.
    pub labels: Vec<String>,
}

impl Management {
    /// Returns the port at an address.
    pub fn at(address: &str) -> Self {
        Self { base: format!("http://{}", address.trim()) }
    }

    /// Gets a path, and returns status and text if there is an answer.
    pub async fn get(&self, path: &str) -> Option<(u16, String)> {
        let http = reqwest::Client::builder().no_proxy().timeout(std::time::Duration::from_secs(5)).build().ok()?;
        let answer = http.get(format!("{}{path}", self.base)).send().await.ok()?;
        Some((answer.status().as_u16(), answer.text().await.ok()?))
    }

    /// Returns the status and the body of `/readyz`.
    pub async fn readiness(&self) -> Option<(u16, Value)> {
        let (status, text) = self.get("/readyz").await?;
        Some((status, serde_json::from_str(&text).ok()?))
    }

    /// Returns the state of a part of the node.
    pub async fn check(&self, name: &str) -> Option<Value> {
        let (_, readiness) = self.readiness().await?;
        readiness["checks"].as_array()?.iter().find(|check| check["name"] == name).cloned()
    }

    /// Returns the metrics as text.
    pub async fn metrics(&self) -> String {
        self.get("/metrics").await.expect("the node answers").1
    }

    /// Returns the sum of a metric over all series with these labels, written as in `code="OK"`; 0 where there is none.
    pub async fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        self.cells(name, labels).await.into_iter().sum()
    }

    /// Returns the values of all series of a metric with these labels.
    pub async fn cells(&self, name: &str, labels: &[&str]) -> Vec<f64> {
        let text = self.metrics().await;
        let cells = text.lines().filter_map(|line| {
            let (cell, value) = line.strip_prefix(name)?.rsplit_once(' ')?;
            let is_meant =
                (cell.is_empty() || cell.starts_with('{')) && labels.iter().all(|label| cell.contains(label));
            is_meant.then(|| value.parse::<f64>().ok()).flatten()
        });
        cells.collect()
    }

    /// Returns every metric of the node.
    pub async fn kinds(&self) -> BTreeMap<String, Kind> {
        let text = self.metrics().await;
        let mut kinds = BTreeMap::new();
        for line in text.lines() {
            if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|line| line.split_once(' ')) {
                kinds.insert(name.to_owned(), Kind { kind: kind.to_owned(), labels: vec![] });
            } else if let Some((name, rest)) = line.split_once('{') {
                let name = family(name, &kinds);
                let labels = rest.rsplit_once('}').map_or("", |(labels, _)| labels);
                let names =
                    labels.split("\",").filter_map(|label| label.split_once('=')).map(|(name, _)| name.to_owned());
                if let Some(known) = kinds.get_mut(&name) {
                    known.labels = names.filter(|name| name != "le").collect();
                }
            }
        }
        kinds
    }
}

/// Returns the metric that a line belongs to.
pub fn family(name: &str, kinds: &BTreeMap<String, Kind>) -> String {
    let parts = ["_bucket", "_sum", "_count"].iter().filter_map(|part| name.strip_suffix(part));
    let histogram = parts.into_iter().find(|base| kinds.get(*base).is_some_and(|known| known.kind == "histogram"));
    histogram.unwrap_or(name).to_owned()
}
