//! How far a visitor sees: operators the whole platform, administrators what failed of their instance. Each asks the operations of the
//! API that are there for it, which decide again.

use edge::{
    admission::Caller,
    operate_session::{OF_INSTANCE, OF_SYSTEM, may_in_instance, may_in_system},
};
use serde_json::{Value, json};

use super::filter::{FAILED, FAILED_OF_INSTANCE, Filter};

/// How far somebody sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OperatorLevel {
    /// All instances, and what serves them.
    System,
    /// What failed of the own instance.
    Instance,
}

/// What somebody does with what has failed, and with projections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    /// Looks at it.
    Look,
    /// Has it tried again, or built anew.
    Retry,
    /// Leaves it out, or drops it.
    Discard,
    /// Looks at what is personal in it.
    Reveal,
}

impl OperatorLevel {
    /// How far a caller sees; not at all where no role permits it.
    pub(super) fn of(caller: &Caller) -> Option<Self> {
        [Self::System, Self::Instance].into_iter().find(|level| level.lets(caller, Act::Look))
    }

    /// Whether a caller may do something within this reach.
    pub(super) fn lets(self, Caller { principal, tenant, .. }: &Caller, act: Act) -> bool {
        match self {
            Self::System => may_in_system(principal, self.permission(act)),
            Self::Instance => may_in_instance(principal, &tenant.id, self.permission(act)),
        }
    }

    /// What it takes to do something.
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

    /// What failed events are narrowed by.
    pub(super) const fn filters(self) -> &'static [Filter] {
        match self {
            Self::System => FAILED,
            Self::Instance => FAILED_OF_INSTANCE,
        }
    }

    /// One failed event in the API, or what is done about it.
    pub(super) fn one(self, id: &str) -> String {
        format!("{}/{id}", self.path())
    }

    /// Where failed events are looked for, and with what.
    pub(super) fn search(self, filters: Value, (offset, limit, asc): (u64, u64, bool)) -> (String, Value) {
        let path = format!("{}/_search", self.path());
        match self {
            Self::System => {
                let query = json!({ "offset": offset.to_string(), "limit": limit, "asc": asc });
                (path, json!({ "query": query, "filters": filters }))
            }
            Self::Instance => (format!("{path}?query.offset={offset}&query.limit={limit}&query.asc={asc}"), filters),
        }
    }

    /// Where all that match are tried again, and with what.
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
