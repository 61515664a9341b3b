//! Values that only one aggregate may hold.

/// The scope in which a claim is unique.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Once per instance.
    Instance,
    /// Once in the entire system.
    System,
}

/// A value that only one aggregate may hold. It leaves the core in clear and reaches the log only as a keyed hash.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Claim {
    /// The kind of the value, for example `organization_name`.
    pub kind: &'static str,
    /// The scope in which it is unique.
    pub scope: Scope,
    /// The value, as the caller wrote it.
    pub value: String,
    /// Whether values that differ in case only count as equal.
    pub folds: bool,
    /// Whether the value already is the keyed hash, because the core never sees what was hashed.
    pub is_hashed: bool,
}

impl Claim {
    /// Creates a claim that is unique within its instance, compared as written.
    pub fn instance(kind: &'static str, value: impl Into<String>) -> Self {
        Self { kind, scope: Scope::Instance, value: value.into(), folds: false, is_hashed: false }
    }

    /// Creates a claim that is unique within its instance, ignoring case.
    pub fn folded(kind: &'static str, value: impl Into<String>) -> Self {
        Self { folds: true, ..Self::instance(kind, value) }
    }

    /// Creates a claim that is unique within its instance, of which the core has only the keyed hash, as text.
    pub fn hashed(kind: &'static str, hash: impl Into<String>) -> Self {
        Self { is_hashed: true, ..Self::instance(kind, hash) }
    }

    /// Creates a claim that is unique in the system, compared as written.
    pub fn system(kind: &'static str, value: impl Into<String>) -> Self {
        Self { scope: Scope::System, ..Self::instance(kind, value) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_says_where_it_is_unique_and_whether_case_counts() {
        let found = [Claim::instance("a", "X"), Claim::folded("b", "Y"), Claim::system("c", "Z")];
        let claim =
            |kind, scope, value: &str, folds| Claim { kind, scope, value: value.to_owned(), folds, is_hashed: false };
        let expected = [
            claim("a", Scope::Instance, "X", false),
            claim("b", Scope::Instance, "Y", true),
            claim("c", Scope::System, "Z", false),
        ];
        assert_eq!(found, expected);
        let hashed = Claim { is_hashed: true, ..claim("d", Scope::Instance, "H", false) };
        assert_eq!(Claim::hashed("d", "H"), hashed);
    }
}
