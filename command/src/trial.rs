//! In whose name a password is tried: of a caller of the API, or of a person on a page.

use edge::call::Call;

use crate::{reaction::delivery, turn::Cause, writer::Origin};

/// In whose name a password is tried, and where.
#[derive(Clone)]
pub(crate) struct Trial {
    pub(crate) instance_id: String,
    /// The operation, as metrics name it.
    pub(crate) operation: &'static str,
    pub(crate) cause: Cause,
}

impl Trial {
    /// Returns the trial in the name of the sender of a call.
    pub(crate) fn of(call: &Call) -> Self {
        let cause = Cause {
            actor: call.caller.id.clone(),
            trace_context: call.trace_context.clone(),
            causation_id: delivery::causation(call.depth),
            ..Cause::default()
        };
        Self { instance_id: call.tenant.id.clone(), operation: call.operation.method, cause }
    }

    /// Returns the origin of the commands of this trial.
    pub(crate) fn origin(&self) -> Origin {
        Origin { operation: self.operation, instance_id: self.instance_id.as_str().into(), bytes: 0 }
    }
}
