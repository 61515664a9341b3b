//! Takes out pictures and fonts that nobody shows any more: replaced ones, those of removed contexts, and those that no event came to
//! name. The node does it that writes, by the clock.
//!
//! Whether one is shown is decided in a turn, which sees the whole log. Who uploads it again writes it first, so what is taken out by
//! its message is another one.

use std::{convert::Infallible, time::Duration};

use base::fault;
use domain::{context::Owner, setting::branding::Branding, settings::Settings};
use eventlog::{
    assets::{AssetName, Assets},
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

/// How often it looks.
fn every() -> Duration {
    fault::shortened(Duration::from_hours(1), Duration::from_secs(2))
}

/// How old one is at least that is taken out: longer than it takes from writing one to its event.
fn age() -> Duration {
    fault::shortened(Duration::from_hours(1), Duration::from_secs(20))
}

/// What it needs.
#[derive(Clone)]
pub struct AssetSweeps {
    /// The pictures and fonts.
    pub assets: Assets,
    /// Decides whether one is shown.
    pub steps: Steps,
    /// What is set in which context, as far as this node knows: most of them are shown, and need no turn.
    pub settings: SettingsIndex,
}

/// Why it does not go on.
#[derive(Debug, thiserror::Error)]
pub(super) enum AssetSweepFailure {
    #[error(transparent)]
    Log(#[from] LogFailure),
    #[error(transparent)]
    Step(#[from] StepFailure),
}

impl AssetSweeps {
    /// Takes out what goes whenever this node writes, until `shutdown`.
    pub async fn work(self, shutdown: CancellationToken) {
        steps::work(self, shutdown).await;
    }

    async fn sweep(&self) -> Result<(), AssetSweepFailure> {
        let mut count = 0_u64;
        for name in self.assets.all().await? {
            if shows(self.settings.effective::<Branding>(&name.instance_id, &owner(&name)).chain.own.as_deref(), &name)
            {
                continue;
            }
            let Some(sequence) = self.assets.written_before(&name, age()).await? else { continue };
            let step = Shows { name: name.clone() };
            if !self.steps.submit(("look for an asset", &name.instance_id), step).await? {
                fault::point("asset.removing");
                self.assets.remove(sequence).await?;
                count += 1;
            }
        }
        if count > 0 {
            tracing::info!(count, "pictures and fonts were taken out that nobody shows any more");
        }
        Ok(())
    }
}

impl Reaction for AssetSweeps {
    const TROUBLE: &'static str = "pictures and fonts that nobody shows are not taken out at the moment";
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

/// Whether its context shows a picture or a font.
struct Shows {
    name: AssetName,
}

impl Decide for Shows {
    type Outcome = bool;

    fn decide(&self, turn: &mut Turn<'_>) -> Result<(Decided, bool), Refusal> {
        let key = key::<Branding>(&self.name.instance_id, &owner(&self.name), "");
        let set = turn.get::<Settings<Branding>>(&key).set();
        Ok((turn.nothing_decided("assets"), shows(set.as_deref(), &self.name)))
    }
}

/// The context whose a picture or a font is.
fn owner(AssetName { instance_id, owner_id, .. }: &AssetName) -> Owner {
    match owner_id.as_str() {
        "" => Owner::system(),
        id if id == instance_id => Owner::instance(id),
        id => Owner::organization(id),
    }
}

/// Whether it is among what is set in that context.
fn shows(set: Option<&Branding>, name: &AssetName) -> bool {
    set.is_some_and(|set| set.digests().any(|digest| digest == name.digest))
}
