//! Operations: the properties of each rpc, as defined in the proto files.

use std::marker::PhantomData;

pub use crate::option::{Matter, Waived};

/// The properties of an operation that do not depend on its types.
#[derive(Debug, PartialEq, Eq)]
pub struct Facts {
    /// The gRPC path, `/package.Service/Method`.
    pub grpc: &'static str,
    /// The full name of the service.
    pub service: &'static str,
    /// The name of the method in the service.
    pub method: &'static str,
    /// The HTTP verb.
    pub verb: Verb,
    /// The HTTP path, with parameters as `{id}`.
    pub path: &'static str,
    /// The part of the request that the HTTP body sets.
    pub body: Body,
    /// The query parameters: every leaf field that is neither in the path nor in the body.
    pub parameters: &'static [Parameter],
    /// The HTTP status of success.
    pub success: u16,
    /// A further HTTP status of success.
    pub also: Option<u16>,
    /// The permission that the caller needs. Without one nobody may call, unless the operation is about the caller itself.
    pub permission: Option<&'static str>,
    /// The permission that the caller needs in the context of the system, where that is another one.
    pub system_permission: Option<&'static str>,
    /// When the caller needs no permission.
    pub waived: Waived,
    /// The feature flag that enables the operation.
    pub feature: Option<&'static str>,
    /// Whether the operation is about an organization: the caller's own, where the request names none.
    pub of_organization: bool,
    /// What the operation is about.
    pub matter: Matter,
    /// Whether the operation is built; nodes answer others with an error.
    pub is_built: bool,
    /// The full name of the request message.
    pub request: &'static str,
    /// The full name of the response message.
    pub response: &'static str,
}

impl Facts {
    /// Whether the request may name a context.
    pub fn has_context(&self) -> bool {
        self.parameters.iter().any(|parameter| parameter.path.starts_with("ctx."))
    }

    /// Whether the caller needs no permission for what is its own.
    pub fn is_self(&self) -> bool {
        self.waived == Waived::Own
    }

    /// Whether a caller without any role may call it.
    pub fn is_for_any_caller(&self) -> bool {
        self.waived != Waived::Never
    }

    /// Returns the permission that the caller needs, in the context of the system or in any other.
    pub fn permission_in(&self, is_system: bool) -> Option<&'static str> {
        self.system_permission.filter(|_| is_system).or(self.permission)
    }

    /// Whether a caller may call it for a user without a permission: only an operation about the caller itself permits
    /// that, and only for the caller.
    pub fn gives(&self, caller_id: &str, user_id: Option<&str>) -> bool {
        self.is_self() && user_id == Some(caller_id)
    }

    /// Whether it is about what the log stores. Only such operations can have idempotency keys, be waited for, or name
    /// an object by a sequence.
    pub fn is_logged(&self) -> bool {
        self.matter == Matter::Logged
    }

    /// Whether it changes one object, which its path or its context names.
    pub fn changes_one(&self) -> bool {
        !self.only_reads() && self.is_logged() && (self.path.contains("{id}") || self.verb == Verb::Patch)
    }

    /// Whether it may create an object.
    pub fn creates(&self) -> bool {
        [Some(self.success), self.also].contains(&Some(201))
    }

    /// Whether the operation only reads.
    pub fn only_reads(&self) -> bool {
        self.verb == Verb::Get || self.path.ends_with("/_search")
    }
}

/// An HTTP verb that operations are mapped to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// Reads.
    Get,
    /// Creates, searches, or does something else than the other verbs.
    Post,
    /// Changes the fields that are given.
    Patch,
    /// Replaces.
    Put,
    /// Deletes.
    Delete,
}

impl Verb {
    /// Returns the HTTP method (RFC 9110, section 9).
    pub const fn method(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Patch => "PATCH",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }
}

/// The part of a request that the HTTP body sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Body {
    /// There is no body.
    None,
    /// Exactly one field.
    Field {
        /// Its name in the proto file.
        name: &'static str,
        /// Its name in JSON.
        json_name: &'static str,
        /// Whether it is a list.
        repeated: bool,
    },
}

/// A field that a query parameter sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter {
    /// The path of the field in the request, dotted, in the names of the proto file: `query.limit`.
    pub path: &'static str,
    /// The type of its value.
    pub kind: Kind,
    /// Whether it may be given more than once.
    pub repeated: bool,
}

/// The type of the value of a query parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`.
    Bool,
    /// A number.
    Number,
    /// Text, which includes times and durations.
    Text,
    /// The name of an enum value, or its number.
    Enum,
}

/// An operation from request `I` to response `O`.
#[derive(Debug)]
pub struct Operation<I, O> {
    /// The properties that do not depend on its types.
    pub facts: Facts,
    types: PhantomData<fn(I) -> O>,
}

impl<I, O> Operation<I, O> {
    /// Returns an operation with these facts.
    pub const fn new(facts: Facts) -> Self {
        Self { facts, types: PhantomData }
    }
}

include!(concat!(env!("OUT_DIR"), "/operations.rs"));

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_verb_and_path_is_mapped_once() {
        let shape = |facts: &Facts| (facts.verb, facts.path.replace("{id}", "{}"));
        let shapes: HashSet<_> = OPERATIONS.iter().map(|facts| shape(facts)).collect();
        assert_eq!(shapes.len(), OPERATIONS.len());
    }

    #[test]
    fn what_is_about_the_caller_alone_takes_no_role() {
        let open: Vec<_> = OPERATIONS.iter().filter(|facts| facts.is_self()).map(|facts| facts.method).collect();
        let is_of_settings = |method: &str| method.starts_with("Resolve") && method != "ResolveFeatures";
        let is_open = |method: &&str| is_of_settings(method) || ["EndUserSessions", "SetPassword"].contains(method);
        let all: Vec<_> = OPERATIONS.iter().map(|facts| facts.method).filter(is_open).collect();
        assert_eq!(open, all);
    }

    #[test]
    fn the_system_may_need_a_permission_of_its_own() {
        let facts = &SET_FEATURES.facts;
        let needed = [true, false].map(|is_system| facts.permission_in(is_system).unwrap_or_default());
        assert_eq!(needed, ["system.feature.write", "iam.feature.write"]);
        assert_eq!(SET_LANGUAGES.facts.permission_in(true), Some("policy.write"));
    }

    #[test]
    fn an_operation_about_the_caller_gives_nothing_on_others() {
        let without = || Facts { permission: None, ..GET_USER.facts };
        let (own, unsaid) = (Facts { waived: Waived::Own, ..without() }, without());
        let by_token = Facts { waived: Waived::ByToken, ..without() };
        assert!(!by_token.gives("1", Some("1")) && by_token.is_for_any_caller(), "the token decides");
        assert!(own.gives("1", Some("1")) && !own.gives("1", Some("2")) && !own.gives("1", None));
        assert!(!unsaid.gives("1", Some("1")) && !unsaid.is_for_any_caller(), "it does not say so");
        assert!(!GET_USER.facts.gives("1", Some("1")), "roles decide");
    }

    #[test]
    fn resources_and_settings_are_behind_their_flags() {
        for facts in OPERATIONS {
            let flag = match facts.path.split('/').nth(1) {
                // So that a flag can be switched on.
                _ if facts.path.ends_with("/features") => None,
                Some("resources") => Some("multitenancy_resources_api"),
                Some("settings") => Some("multitenancy_settings"),
                _ => None,
            };
            assert_eq!(facts.feature, flag, "{}", facts.grpc);
        }
    }

    #[test]
    fn a_search_takes_its_filters_as_body_and_the_rest_as_parameters() {
        let facts = &SEARCH_TARGETS.facts;
        assert_eq!(facts.body, Body::Field { name: "filters", json_name: "filters", repeated: true });
        let parameters: Vec<_> = facts.parameters.iter().map(|parameter| (parameter.path, parameter.kind)).collect();
        let expected = [
            ("query.offset", Kind::Number),
            ("query.limit", Kind::Number),
            ("query.asc", Kind::Bool),
            ("sorting_column", Kind::Enum),
        ];
        assert_eq!(parameters, expected);
    }

    #[test]
    fn only_what_reads_needs_a_permission_to_read() {
        for facts in OPERATIONS.iter().filter(|facts| facts.is_logged()) {
            let reads = facts.permission.is_none_or(|permission| permission.rsplit('.').next() == Some("read"));
            assert_eq!(facts.only_reads(), reads, "{}", facts.grpc);
        }
    }

    #[test]
    fn a_create_answers_201() {
        assert_eq!((CREATE_TARGET.facts.success, GET_TARGET.facts.success), (201, 200));
        assert_eq!((PUT_EXECUTION.facts.also, CREATE_TARGET.facts.also), (Some(200), None));
    }
}
