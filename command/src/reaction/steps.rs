//! The steps of reactions on the node that writes: commands of the platform's own.

use std::{convert::Infallible, time::Duration};

use base::explain::explain;
use tokio::{sync::watch, time::sleep};
use tokio_util::sync::CancellationToken;
use view::keyring::{Keyring, KeyringFailure};

use crate::{
    turn::ClaimKeys,
    writer::{Decide, Handle, Origin, Phase, Verdict},
};

/// How long a reaction waits after a failure.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

/// Decides the steps of a reaction.
#[derive(Clone)]
pub struct Steps {
    /// The writer that decides them.
    pub writer: Handle,
    /// The keys that hash the names that become free.
    pub keyring: Keyring,
}

/// Why a step was not done.
#[derive(Debug, thiserror::Error)]
pub(super) enum StepFailure {
    #[error(transparent)]
    Keyring(#[from] KeyringFailure),
    #[error("a step was answered as a repetition, although it has no idempotency key")]
    Replayed,
    #[error("a step was refused: {0}")]
    Refused(edge::error::Error),
}

impl StepFailure {
    /// Whether there are no keys, because nothing is set up.
    fn is_before_setup(&self) -> bool {
        matches!(self, Self::Keyring(KeyringFailure::Absent { .. }))
    }
}

/// A reaction that runs on the node that writes.
pub(super) trait Reaction: Send + Sync {
    /// The warning when the reaction is interrupted.
    const TROUBLE: &'static str;
    /// Why the reaction is interrupted.
    type Failure: std::error::Error + Send + 'static;

    /// Returns what decides its steps.
    fn steps(&self) -> &Steps;

    /// Does its work until something fails.
    fn serve(&self) -> impl Future<Output = Result<Infallible, Self::Failure>> + Send;

    /// Returns the failure of a step, if it is one.
    fn of_step(failure: &Self::Failure) -> Option<&StepFailure>;
}

/// Runs a reaction whenever this node writes, until `shutdown`. A reaction that fails begins again.
pub(super) async fn work<R: Reaction>(reaction: R, shutdown: CancellationToken) {
    let mut phases = reaction.steps().writer.phases();
    loop {
        tokio::select! {
            active = phases.wait_for(|phase| *phase == Phase::Active) => {
                if active.is_err() {
                    return;
                }
            }
            () = shutdown.cancelled() => return,
        }
        let failure = tokio::select! {
            ended = reaction.serve() => ended.err(),
            () = stepped_down(&mut phases) => None,
            () = shutdown.cancelled() => return,
        };
        if let Some(failure) = failure {
            if R::of_step(&failure).is_some_and(StepFailure::is_before_setup) {
                tracing::debug!("nothing is set up yet");
            } else {
                tracing::warn!(error = explain(&failure), "{}", R::TROUBLE);
            }
        }
        tokio::select! {
            () = sleep(PAUSE) => {}
            () = shutdown.cancelled() => return,
        }
    }
}

impl Steps {
    /// Returns the keys that hash the names of an instance.
    pub(super) async fn keys(&self, instance_id: &str) -> Result<ClaimKeys, StepFailure> {
        Ok(ClaimKeys::of(&self.keyring, instance_id).await?)
    }

    /// Gives a step its turn.
    pub(super) async fn submit<C: Decide>(
        &self,
        operation: &'static str,
        instance_id: &str,
        step: C,
    ) -> Result<C::Outcome, StepFailure> {
        let origin = Origin { operation, instance_id: instance_id.into(), bytes: 0 };
        match self.writer.submit(origin, step, None).await {
            Ok(Verdict::Decided(_, outcome)) => Ok(outcome),
            Ok(Verdict::Replayed(_)) => Err(StepFailure::Replayed),
            Err(error) => Err(StepFailure::Refused(error)),
        }
    }
}

async fn stepped_down(phases: &mut watch::Receiver<Phase>) {
    // A writer that is gone does not write either.
    let _ = phases.wait_for(|phase| *phase != Phase::Active).await;
}
