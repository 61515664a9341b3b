//! Pictures and fonts as they are written. The content is kept before an event names it, so that no event names what is not there;
//! what no event comes to name is taken out later.

use std::{sync::Arc, time::Duration};

use api::branding_asset::Uploaded;
use base::{explain::explain, fault, secret};
use domain::setting::branding::Branding;
use edge::{
    answer::Answer,
    call::Call,
    error::{Error, Reason},
    handler::Mounting,
};
use eventlog::{assets::AssetName, log::LogFailure};
use proto::branding_settings::{UploadBrandingAssetRequest, UploadBrandingAssetResponse};
use view::settings::instance_of;

use crate::{
    execute::Commands,
    settings::{Change, details},
    writer::writer_unavailable,
};

/// How many contents a context has at most: those that it shows, and those that are not taken out yet.
const MOST: usize = 32;
/// After what time it is worth while to try again.
const LATER: Duration = Duration::from_mins(10);

/// Mounts what is written here.
pub(super) fn mount(mounting: Mounting<Commands>) -> Mounting<Commands> {
    mounting.on(upload)
}

/// Keeps a picture or a font and sets it.
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
    commands.keep(&name, asset.content).await?;
    fault::point("asset.kept");
    let change = Change::<Branding> { context, instance_id, variant: String::new(), change };
    commands
        .execute(&call, &request, change, move |decided, ()| UploadBrandingAssetResponse {
            details: Some(details(decided)),
            asset: Some(shown.clone()),
        })
        .await
}

impl Commands {
    /// Keeps a content, unless its context has too many.
    async fn keep(&self, name: &AssetName, content: Vec<u8>) -> Result<(), Error> {
        if self.assets.others(name).await.map_err(|failure| away(&failure))? >= MOST {
            let message = format!(
                "the context has uploaded {MOST} pictures and fonts; those that it does not show go within two hours"
            );
            return Err(Error::new(Reason::RateLimited, message).retry_after(LATER).with("limit", "assets"));
        }
        self.assets.put(name, content.into()).await.map_err(|failure| away(&failure))
    }
}

/// A content that cannot be kept now.
fn away(failure: &LogFailure) -> Error {
    tracing::warn!(error = explain(failure), "a picture or a font cannot be kept");
    writer_unavailable("pictures and fonts cannot be kept at the moment")
}

#[derive(Debug, thiserror::Error)]
#[error("the ids of a context cannot name a picture")]
struct NoName;
