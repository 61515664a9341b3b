//! The management port of a node.

use std::collections::BTreeMap;

use serde_json::Value;

/// A management port.
#[derive(Debug, Clone)]
pub struct Management {
    base: String,
}

/// What a metric is, as its node says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kind {
    /// `counter`, `gauge` or `histogram`.
    pub kind: String,
    /// The names of its labels, without the bounds of buckets.
    pub labels: Vec<String>,
}

impl Management {
    /// The port at an address.
    pub fn at(address: &str) -> Self {
        Self { base: format!("http://{}", address.trim()) }
    }

    /// What is there under a path, if somebody answers.
    pub async fn get(&self, path: &str) -> Option<(u16, String)> {
        let http = reqwest::Client::builder().no_proxy().timeout(std::time::Duration::from_secs(5)).build().ok()?;
        let answer = http.get(format!("{}{path}", self.base)).send().await.ok()?;
        Some((answer.status().as_u16(), answer.text().await.ok()?))
    }

    /// Whether the node is ready, and what it says of itself.
    pub async fn readiness(&self) -> Option<(u16, Value)> {
        let (status, text) = self.get("/readyz").await?;
        Some((status, serde_json::from_str(&text).ok()?))
    }

    /// What the node says of one of its parts.
    pub async fn check(&self, name: &str) -> Option<Value> {
        let (_, readiness) = self.readiness().await?;
        readiness["checks"].as_array()?.iter().find(|check| check["name"] == name).cloned()
    }

    /// The metrics as text.
    pub async fn metrics(&self) -> String {
        self.get("/metrics").await.expect("the node answers").1
    }

    /// The sum of a metric over all cells that have these labels, written as in `code="OK"`; 0 where there is none.
    pub async fn sum(&self, name: &str, labels: &[&str]) -> f64 {
        self.cells(name, labels).await.into_iter().sum()
    }

    /// The values of all those cells.
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

    /// Every metric that the node knows.
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

/// The metric that a line belongs to.
pub fn family(name: &str, kinds: &BTreeMap<String, Kind>) -> String {
    let parts = ["_bucket", "_sum", "_count"].iter().filter_map(|part| name.strip_suffix(part));
    let histogram = parts.into_iter().find(|base| kinds.get(*base).is_some_and(|known| known.kind == "histogram"));
    histogram.unwrap_or(name).to_owned()
}
