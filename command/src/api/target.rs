//! Targets as they are written.

use std::sync::Arc;

use action::{client::may_call, signature};
use api::target as words;
use base::{clock, secret::random_text};
use domain::{
    address::Allowed,
    context::Owner,
    resource::target::{Rotation, SignatureKey, Target, TargetKind},
    secret::Sealed,
};
use edge::{answer::Answer, call::Call, consistency::unavailable, error::Error, handler::Mounting};
use proto::{
    Violation,
    action::{CreateTargetRequest, CreateTargetResponse, DeleteTargetRequest, PatchTargetRequest, PatchTargetResponse},
};
use url::Url;
use view::keyring::Purpose;

use crate::{execute::Commands, standard};

/// The length of a key that signs calls, in characters.
const SIGNING_KEY_LENGTH: usize = 36;

/// Mounts what is written here.
pub(super) fn mount(mounting: Mounting<Commands>) -> Mounting<Commands> {
    mounting.on(create).on(patch).on(standard::delete::<Target, DeleteTargetRequest>)
}

async fn create(
    commands: Arc<Commands>,
    call: Call,
    request: CreateTargetRequest,
) -> Result<Answer<CreateTargetResponse>, Error> {
    let (signing_key, sealed) = new_key(&commands, &call).await?;
    let target = words::new(&request, vec![SignatureKey { sealed, valid_until: None }]);
    may_be_called(&commands.targets, target.kind, &target.url)?;
    let answer = move |details| CreateTargetResponse { details: Some(details), signing_key: signing_key.clone() };
    let owner = Owner::instance(&call.tenant.id);
    commands.create(&call, &request, (owner, target), answer).await
}

async fn patch(
    commands: Arc<Commands>,
    call: Call,
    request: PatchTargetRequest,
) -> Result<Answer<PatchTargetResponse>, Error> {
    let mut patch = words::patch(&request);
    if let (Some(kind), Some(url)) = (patch.kind, &patch.url) {
        may_be_called(&commands.targets, kind, url)?;
    }
    let mut signing_key = None;
    if let Some(validity) = words::previous_key_validity(&request) {
        let (key, sealed) = new_key(&commands, &call).await?;
        let now = clock::now().as_millisecond();
        signing_key = Some(key);
        patch.rotation = Some(Rotation { sealed, now, previous_until: now.saturating_add(validity) });
    }
    let answer = move |details| PatchTargetResponse { details: Some(details), signing_key: signing_key.clone() };
    commands.patch::<Target, _, _>(&call, &request, patch, answer).await
}

/// Refuses what is seen to be no address of the public internet. A name is looked at again when the target is called.
fn may_be_called(allowed: &Allowed, kind: TargetKind, url: &str) -> Result<(), Error> {
    // Validation has refused what is no URL with a host.
    if Url::parse(url).is_ok_and(|url| may_call(allowed, &url)) {
        return Ok(());
    }
    let member = match kind {
        TargetKind::RestWebhook => "rest_webhook",
        TargetKind::RestRequestResponse => "rest_request_response",
    };
    let rule = "must not be an address of this machine or of a private network, save those that the operator allows";
    Err(Error::invalid(vec![Violation::new(format!("target.{member}.url"), rule)]))
}

/// A new key in clear and sealed.
async fn new_key(commands: &Commands, call: &Call) -> Result<(String, Sealed), Error> {
    let data_key = commands.keyring.key(&call.tenant.id, Purpose::Resource).await.map_err(unavailable)?;
    let key = random_text(SIGNING_KEY_LENGTH);
    let sealed = Sealed::new(data_key.seal(signature::SEALED, key.as_bytes()));
    Ok((key, sealed))
}
