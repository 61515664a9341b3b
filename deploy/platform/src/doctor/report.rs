//! What was found, one line a check.

use serde_json::{Value, json};

use crate::output;

/// The checks so far; as text each is printed at once.
pub(super) struct Report {
    json: bool,
    checks: Vec<Value>,
    failed: usize,
}

impl Report {
    /// A report that is printed as text, or kept to be printed as JSON.
    pub(super) fn new(json: bool) -> Self {
        Self { json, checks: vec![], failed: 0 }
    }

    /// All is well.
    pub(super) fn ok(&mut self, check: &'static str, found: impl Into<String>) {
        self.line("ok", check, &found.into(), "");
    }

    /// It works, and should be changed.
    pub(super) fn warn(&mut self, check: &'static str, found: impl Into<String>, remedy: &str) {
        self.line("warn", check, &found.into(), remedy);
    }

    /// It does not work, or not safely. The remedy is empty where what was found says it already.
    pub(super) fn fail(&mut self, check: &'static str, found: impl Into<String>, remedy: &str) {
        self.failed += 1;
        self.line("fail", check, &found.into(), remedy);
    }

    fn line(&mut self, status: &'static str, check: &'static str, found: &str, remedy: &str) {
        if !self.json {
            let separator = if remedy.is_empty() { "" } else { ". What to do: " };
            output::print(format_args!("{status:<5} {check:<16} {found}{separator}{remedy}"));
        }
        let remedy = Some(remedy).filter(|remedy| !remedy.is_empty());
        self.checks.push(json!({ "check": check, "status": status, "found": found, "remedy": remedy }));
    }

    /// How many checks failed.
    pub(super) fn failed(&self) -> usize {
        self.failed
    }

    /// The whole report.
    pub(super) fn json(&self) -> Value {
        json!({ "ok": self.failed == 0, "checks": self.checks })
    }
}
