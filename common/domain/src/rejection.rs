//! Refusals of commands.

/// A refusal the caller can act on. Failures of the machinery are not rejections.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// Fields break their rules; all of them are named.
    #[error("{}", sentence(.0))]
    Invalid(Vec<Violation>),
    /// The resource does not exist, or the caller may not know that it does.
    #[error("{0} not found")]
    NotFound(&'static str),
    /// The resource exists already.
    #[error("{0} already exists")]
    AlreadyExists(&'static str),
    /// The resource is not in a state that allows this.
    #[error("{0}")]
    Precondition(&'static str),
    /// The field of a setting would promise what is not built yet.
    #[error("{0} {NOT_BUILT}")]
    NotBuilt(&'static str),
}

/// The rule for a setting that would promise what is not built yet.
pub const NOT_BUILT: &str = "can only be set to its current value: other values are not supported yet";

/// One field that breaks its rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The path of the field in the resource.
    pub field: &'static str,
    /// The rule, phrased to follow the field name.
    pub rule: &'static str,
}

impl Rejection {
    /// Creates a rejection of one field.
    pub fn invalid(field: &'static str, rule: &'static str) -> Self {
        Self::Invalid(vec![Violation { field, rule }])
    }
}

fn sentence(violations: &[Violation]) -> String {
    violations.iter().map(|violation| format!("{} {}", violation.field, violation.rule)).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_every_field_that_breaks_its_rule() {
        let violation = |field, rule| Violation { field, rule };
        let both = vec![violation("target.name", "must not be empty"), violation("target.url", "must be a URL")];
        let sentence = "target.name must not be empty; target.url must be a URL";
        assert_eq!(Rejection::Invalid(both).to_string(), sentence);
        let one = Rejection::Invalid(vec![violation("target.name", "must not be empty")]);
        assert_eq!(Rejection::invalid("target.name", "must not be empty"), one);
    }
}
