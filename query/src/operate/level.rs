//! The level of a visitor: operators see the complete platform, administrators the failures of their instance. Each
//! uses the operations of the API for that level, which check permissions again.

use edge::{
    admission::Caller,
    operate_session::{OF_INSTANCE, OF_SYSTEM, may_in_instance, may_in_system},
};
use serde_json::{Value, json};

use super::filter::{FAILED, FAILED_OF_INSTANCE, Filter};

/// What somebody can see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OperatorLevel {
    /// All instances, and what serves them.
    System,
    /// The failures of the own instance.
    Instance,
}

/// An action on failed events and on projections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    /// To look at them.
    Look,
    /// To retry failed events, or to build a projection anew.
    Retry,
    /// To discard failed events, or to drop a generation.
    Discard,
    /// To look at personal data in failed events.
    Reveal,
}

/// A part of a list of the API.
#[derive(Clone, Copy)]
pub(super) struct ListPart {
    pub(super) offset: u64,
    pub(super) limit: u64,
    /// Whether the oldest entries come first.
    pub(super) asc: bool,
}

impl ListPart {
    /// The first entry, of the newest ones.
    pub(super) const NEWEST: Self = Self { offset: 0, limit: 1, asc: false };

    /// The part as a query of the API.
    pub(super) fn query(self) -> Value {
        json!({ "offset": self.offset.to_string(), "limit": self.limit, "asc": self.asc })
    }
}

impl OperatorLevel {
    /// The level of a caller; `None` if no role permits any.
    pub(super) fn of(caller: &Caller) -> Option<Self> {
        [Self::System, Self::Instance].into_iter().find(|level| level.permits(caller, Act::Look))
    }

    /// Whether a caller may perform an action at this level.
    pub(super) fn permits(self, Caller { principal, tenant, .. }: &Caller, act: Act) -> bool {
        match self {
            Self::System => may_in_system(principal, self.permission(act)),
            Self::Instance => may_in_instance(principal, &tenant.id, self.permission(act)),
        }
    }

    /// The permission that an action requires.
    pub(super) const fn permission(self, act: Act) -> &'static str {
        match (self, act) {
            (Self::System, Act::Look) => OF_SYSTEM,
            (Self::System, Act::Retry) => "system.debug.write",
            (Self::System, Act::Discard) => "system.debug.delete",
            (Self::System, Act::Reveal) => "system.debug.reveal",
            (Self::Instance, Act::Look) => OF_INSTANCE,
            (Self::Instance, Act::Retry | Act::Discard) => "failed_event.write",
            (Self::Instance, Act::Reveal) => "failed_event.reveal",
        }
    }

    /// The filters of failed events at this level.
    pub(super) const fn filters(self) -> &'static [Filter] {
        match self {
            Self::System => FAILED,
            Self::Instance => FAILED_OF_INSTANCE,
        }
    }

    /// The path of one failed event in the API.
    pub(super) fn one(self, id: &str) -> String {
        format!("{}/{id}", self.path())
    }

    /// The path and the body of a search for failed events.
    pub(super) fn search(self, filters: Value, part: ListPart) -> (String, Value) {
        let path = format!("{}/_search", self.path());
        match self {
            Self::System => (path, json!({ "query": part.query(), "filters": filters })),
            Self::Instance => {
                let ListPart { offset, limit, asc } = part;
                (format!("{path}?query.offset={offset}&query.limit={limit}&query.asc={asc}"), filters)
            }
        }
    }

    /// The path and the body of a retry of all that match.
    pub(super) fn retry(self, filters: Value) -> (String, Value) {
        let path = format!("{}/_retry", self.path());
        match self {
            Self::System => (path, json!({ "filters": filters })),
            Self::Instance => (path, filters),
        }
    }

    const fn path(self) -> &'static str {
        match self {
            Self::System => "/system/v1/failedevents",
            Self::Instance => "/resources/v3alpha/failed_events",
        }
    }
}
