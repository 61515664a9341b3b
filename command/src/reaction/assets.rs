//! Removes pictures and fonts that are not shown any more: replaced ones, those of removed contexts, and those that no
//! event came to name. The node that writes does so at intervals.
//!
//! Whether one is shown is decided in a turn, which sees the entire log. A replaced file counts as shown for a while,
//! because pages that name it are still open. A file that is uploaded again is written anew first, so only the earlier
//! message is removed.

use std::{convert::Infallible, time::Duration};

use base::{explain::explain, fault};
use domain::{setting::branding::Branding, settings::Settings};
use eventlog::{
    assets::{AssetName, Assets, grace},
    log::LogFailure,
};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use view::settings::{SettingsIndex, key};

use super::steps::{self, Reaction, StepFailure, Steps};
use crate::{
    turn::{Decided, Refusal, Turn},
    writer::Decide,
};

/// How often the stored files are checked.
fn every() -> Duration {
    fault::shortened(Duration::from_hours(1), Duration::from_secs(2))
}

/// The sweep of pictures and fonts, with what it needs.
#[derive(Clone)]
pub struct AssetSweeps {
    /// The pictures and fonts.
    pub assets: Assets,
    /// Decides whether a file is shown.
    pub steps: Steps,
    /// The settings of all contexts, as far as this node knows them: by these most files are shown, and need no turn.
    pub settings: SettingsIndex,
}

/// Why the sweep is interrupted.
#[derive(Debug, thiserror::Error)]
pub(super) enum AssetSweepFailure {
    #[error(transparent)]
    Log(#[from] LogFailure),
    #[error(transparent)]
    Step(#[from] StepFailure),
}

impl AssetSweeps {
    /// Removes files that are not shown whenever this node writes, until `shutdown`.
    pub async fn work(self, shutdown: CancellationToken) {
        steps::work(self, shutdown).await;
    }

    async fn sweep(&self) -> Result<(), AssetSweepFailure> {
        let mut count = 0_u64;
        for name in self.assets.all().await? {
            let set = self.settings.effective::<Branding>(&name.instance_id, &name.owner()).chain.own;
            if set.is_some_and(|set| set.has_file(&name.digest)) {
                continue;
            }
            let Some(sequence) = self.assets.written_before(&name, grace()).await? else { continue };
            if !self.is_shown(name).await? {
                self.assets.remove(sequence).await?;
                count += 1;
            }
        }
        if count > 0 {
            tracing::info!(count, "unused pictures and fonts were removed");
        }
        Ok(())
    }

    /// Whether a file is retained. One for which that cannot be decided is retained, and does not hold up the others.
    async fn is_shown(&self, name: AssetName) -> Result<bool, StepFailure> {
        let instance_id = name.instance_id.clone();
        match self.steps.submit("look for an asset", &instance_id, Shows { name }).await {
            Err(failure @ StepFailure::Refused(_)) => {
                tracing::warn!(error = explain(&failure), instance_id, "a picture or font was left in place");
                Ok(true)
            }
            answered => answered,
        }
    }
}

impl Reaction for AssetSweeps {
    const TROUBLE: &'static str = "unused pictures and fonts cannot be removed at the moment";
    type Failure = AssetSweepFailure;

    fn steps(&self) -> &Steps {
        &self.steps
    }

    async fn serve(&self) -> Result<Infallible, AssetSweepFailure> {
        loop {
            self.sweep().await?;
            sleep(every()).await;
        }
    }

    fn of_step(failure: &AssetSweepFailure) -> Option<&StepFailure> {
        if let AssetSweepFailure::Step(failure) = failure { Some(failure) } else { None }
    }
}

/// Decides whether its context shows a picture or a font, did a moment ago, or may do so in a way that only a newer
/// build knows.
struct Shows {
    name: AssetName,
}

impl Decide for Shows {
    type Outcome = bool;

    fn decide(&self, turn: &mut Turn<'_>) -> Result<(Decided, bool), Refusal> {
        let key = key::<Branding>(&self.name.instance_id, &self.name.owner(), "");
        let current = turn.get::<Settings<Branding>>(&key);
        let is_set = current
            .state
            .as_ref()
            .as_ref()
            .is_some_and(|set| !set.unknown().is_empty() || set.has_file(&self.name.digest));
        let is_fresh = turn.now().duration_since(current.head.changed_at) < grace().try_into().unwrap_or_default();
        Ok((turn.nothing_decided("assets"), is_set || is_fresh))
    }
}
