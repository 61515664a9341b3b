//! Uploads of pictures and fonts for the branding. The content is stored before an event names it, so that no event
//! names missing content; content that no event comes to name is removed later. Nothing is stored for a caller who may
//! not set the branding.

use std::{sync::Arc, time::Duration};

use api::branding_asset::Uploaded;
use base::{explain::explain, secret};
use domain::{context::Owner, setting::branding::Branding, settings::Settings};
use edge::{
    answer::Answer,
    call::Call,
    error::{Error, Reason},
    handler::Mounting,
};
use eventlog::{assets::AssetName, log::LogFailure};
use proto::branding_settings::{UploadBrandingAssetRequest, UploadBrandingAssetResponse};
use tokio::sync::Semaphore;
use view::settings::{instance_of, key};

use crate::{
    execute::{Command, Commands, Deciding},
    settings::{Change, details},
    turn::{Decided, Refusal, Turn},
    writer::writer_unavailable,
};

/// The most files that a context may have stored: those that its branding uses, and unused ones that are not removed
/// yet.
const MOST: usize = 32;
/// How long after the last change of the branding unused files are removed.
const LATER: Duration = Duration::from_hours(2);

/// Lets one upload at a time per node count the stored files and add one.
static SEAT: Semaphore = Semaphore::const_new(1);

/// Mounts the operations of this module.
pub(super) fn mount(mounting: Mounting<Commands>) -> Mounting<Commands> {
    mounting.on(upload)
}

/// Stores a picture or a font and sets it in the branding.
async fn upload(
    commands: Arc<Commands>,
    call: Call,
    request: UploadBrandingAssetRequest,
) -> Result<Answer<UploadBrandingAssetResponse>, Error> {
    let (context, instance_id) = (call.context.clone(), call.tenant.id.clone());
    let asset = request.asset.clone().unwrap_or_default();
    let digest = hex::encode(secret::sha256(&asset.content));
    let name = AssetName::new(instance_of(&instance_id, &context), &context.id, &digest);
    let Uploaded { change, shown } = Uploaded::read(&context, &asset, digest)?;
    let name = name.ok_or_else(|| Error::internal(&NoName))?;
    let look = MaySet { context: context.clone(), instance_id: instance_id.clone() };
    commands.seen_at_any_sequence(&call, look).await?;
    store(&commands, &name, asset.content).await?;
    let change = Change::<Branding> { context, instance_id, variant: String::new(), change };
    commands
        .execute(&call, &request, change, move |decided, ()| UploadBrandingAssetResponse {
            details: Some(details(decided)),
            asset: Some(shown.clone()),
        })
        .await
}

/// Checks, before anything is stored, whether the caller may set the branding of a context. Writes nothing.
struct MaySet {
    context: Owner,
    instance_id: String,
}

impl Command for MaySet {
    type Outcome = ();

    fn decide(&self, turn: &mut Turn<'_>, deciding: &Deciding) -> Result<(Decided, ()), Refusal> {
        let current = turn.get::<Settings<Branding>>(&key::<Branding>(&self.instance_id, &self.context, ""));
        let current = current.owned_by(&self.context);
        deciding.permit_on(turn, &current)?;
        deciding.compare(&current)?;
        Ok((deciding.change_nothing(turn, current)?, ()))
    }
}

/// Stores a file, unless its context has too many.
async fn store(commands: &Commands, name: &AssetName, content: Vec<u8>) -> Result<(), Error> {
    let _seat = SEAT.acquire().await.map_err(|closed| Error::internal(&closed))?;
    if commands.assets.others(name).await.map_err(|failure| storage_unavailable(&failure))? >= MOST {
        let message = format!(
            "the context has uploaded {MOST} pictures and fonts; unused ones are removed within two hours \
             after the last branding change"
        );
        return Err(Error::new(Reason::RateLimited, message).retry_after(LATER).with("limit", "assets"));
    }
    commands.assets.put(name, content.into()).await.map_err(|failure| storage_unavailable(&failure))
}

/// Returns the error for a file that cannot be stored at the moment.
fn storage_unavailable(failure: &LogFailure) -> Error {
    tracing::warn!(error = explain(failure), "a picture or font cannot be stored");
    writer_unavailable("pictures and fonts cannot be stored at the moment")
}

#[derive(Debug, thiserror::Error)]
#[error("the ids of a context cannot name a picture")]
struct NoName;
