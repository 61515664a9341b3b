//! What is wrong with a request, gathered so that all of it is told at once.

use proto::{MOST_VIOLATIONS, Violation};

use crate::error::{Error, Reason};

/// The longest name of a client's own that is told back, in characters.
const LONGEST_NAME: usize = 200;

/// A name that a client has made up, as it is told back.
pub(super) fn told(name: &str) -> String {
    match name.char_indices().nth(LONGEST_NAME) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

/// One thing that is wrong.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) reason: Reason,
    /// For people.
    pub(super) sentence: String,
    pub(super) violation: Violation,
    /// For programs.
    pub(super) metadata: Option<(&'static str, String)>,
}

impl Fault {
    /// A fault that is told as the field and its rule.
    pub(super) fn invalid(field: String, rule: String) -> Self {
        let sentence = format!("{field} {rule}");
        let violation = Violation { field, description: rule };
        Self { reason: Reason::InvalidRequest, sentence, violation, metadata: None }
    }
}

/// What is wrong so far.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<Fault>);

impl Faults {
    /// Adds a fault, unless one is known of the same field.
    pub(super) fn add(&mut self, fault: Fault) {
        if !self.are_enough() && !self.concern(&fault.violation.field) {
            self.0.push(fault);
        }
    }

    pub(super) fn are_none(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn are_enough(&self) -> bool {
        self.0.len() >= MOST_VIOLATIONS
    }

    /// Whether something is known of this very field.
    pub(super) fn concern(&self, field: &str) -> bool {
        self.0.iter().any(|fault| fault.violation.field == field)
    }

    /// Adds the rules that what could be read breaks. What could not be read is missing there, and breaks none.
    pub(super) fn add_rules(&mut self, violations: Vec<Violation>) {
        let told = self.0.len();
        for violation in violations {
            if !self.are_enough() && !self.0[..told].iter().any(|fault| violation.follows_from(&fault.violation.field))
            {
                self.0.push(Fault::invalid(violation.field, violation.description));
            }
        }
    }

    /// All of it, under the reason of the first.
    pub(super) fn into_error(self) -> Error {
        let reason = self.0.first().map_or(Reason::InvalidRequest, |fault| fault.reason);
        let sentences: Vec<_> = self.0.iter().map(|fault| fault.sentence.as_str()).collect();
        let mut error = Error::new(reason, sentences.join("; "));
        for (index, fault) in self.0.into_iter().enumerate() {
            if let Some((key, value)) = fault.metadata.filter(|_| index == 0) {
                error = error.with(key, value);
            }
            error = error.violations(vec![fault.violation]);
        }
        error
    }
}
