//! The faults of a request, gathered so that all of them are reported at once.

use proto::{MOST_VIOLATIONS, Rule, Violation};

use crate::error::{Error, FieldFault, Reason};

/// The longest name of a client's own that is returned, in characters.
const LONGEST_NAME: usize = 200;

/// A name that a client has made up, shortened to be returned.
pub(super) fn shortened_name(name: &str) -> String {
    match name.char_indices().nth(LONGEST_NAME) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

/// A fault of a request.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) reason: Reason,
    pub(super) field: FieldFault,
    /// The metadata key of its path, for programs.
    pub(super) path_as: Option<&'static str>,
}

impl Fault {
    /// A fault that is reported as the field and its rule.
    pub(super) fn invalid(field: String, rule: impl Into<Rule>) -> Self {
        FieldFault::new(field, rule).into()
    }
}

impl From<FieldFault> for Fault {
    fn from(field: FieldFault) -> Self {
        Self { reason: Reason::InvalidRequest, field, path_as: None }
    }
}

/// The faults that were found so far.
#[derive(Debug, Default)]
pub(super) struct Faults(Vec<Fault>);

impl Faults {
    /// Adds a fault, unless the field has one already.
    pub(super) fn add(&mut self, fault: Fault) {
        if !self.are_enough() && !self.concern(&fault.field.path()) {
            self.0.push(fault);
        }
    }

    pub(super) fn are_none(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn are_enough(&self) -> bool {
        self.0.len() >= MOST_VIOLATIONS
    }

    /// Whether this field has a fault.
    pub(super) fn concern(&self, field: &str) -> bool {
        self.0.iter().any(|fault| fault.field.path() == field)
    }

    /// Adds the rules that a readable part breaks. Unreadable fields are missing there and break none; those in `unset`
    /// have an unspecified value instead, and if a rule refuses that, too, the rule is reported.
    pub(super) fn add_rules(&mut self, violations: Vec<Violation>, unset: &[String]) {
        let told = self.0.len();
        for violation in violations {
            if unset.contains(&violation.field) {
                if let Some(fault) = self.0[..told].iter_mut().find(|fault| fault.field.path() == violation.field) {
                    fault.field = FieldFault::from(violation);
                }
                continue;
            }
            if !self.are_enough() && !self.0[..told].iter().any(|fault| violation.follows_from(&fault.field.path())) {
                self.0.push(FieldFault::from(violation).into());
            }
        }
    }

    /// Returns all faults as one error, under the reason of the first.
    pub(super) fn into_error(self) -> Error {
        let reason = self.0.first().map_or(Reason::InvalidRequest, |fault| fault.reason);
        let path_as = self.0.first().and_then(|fault| fault.path_as);
        let error = Error::of_fields(reason, self.0.into_iter().map(|fault| fault.field).collect());
        path_as.into_iter().fold(error, Error::with_path)
    }
}
