//! The report of the doctor, one line per check.

use serde_json::{Value, json};

use crate::output;

/// The results of the checks so far; as text each is printed at once.
pub(super) struct Report {
    json: bool,
    checks: Vec<Value>,
    failed: usize,
}

impl Report {
    /// Returns an empty report, which is printed as text, or collected for JSON.
    pub(super) fn new(json: bool) -> Self {
        Self { json, checks: vec![], failed: 0 }
    }

    /// Adds a check without a fault.
    pub(super) fn ok(&mut self, check: &'static str, found: impl Into<String>) {
        self.line("ok", check, &found.into(), "");
    }

    /// Adds a check of something that works, but should be changed.
    pub(super) fn warn(&mut self, check: &'static str, found: impl Into<String>, remedy: &str) {
        self.line("warn", check, &found.into(), remedy);
    }

    /// Adds a check of something that does not work, or not safely. The remedy is empty where `found` has it already.
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

    /// Returns how many checks have failed.
    pub(super) fn failed(&self) -> usize {
        self.failed
    }

    /// Returns the complete report.
    pub(super) fn json(&self) -> Value {
        json!({ "ok": self.failed == 0, "checks": self.checks })
    }
}
