//! Targets as they are written.

use std::{sync::Arc, time::Duration};

use action::{client::may_call, signature};
use base::{clock, secret::random_text};
use domain::{
    address::Allowed,
    context::Owner,
    resource::target::{DEFAULT_TIMEOUT_MS, Mode, Rotation, SignatureKey, Target, TargetKind, TargetPatch},
};
use edge::{answer::Answer, call::Call, consistency::unavailable, error::Error};
use proto::{
    Violation,
    action::{
        CreateTargetRequest, CreateTargetResponse, PatchTargetRequest, PatchTargetResponse, patch_target, target,
    },
};
use url::Url;
use view::keyring::Purpose;

use crate::execute::Commands;

/// The length of a key that signs calls, in characters.
const SIGNING_KEY_LENGTH: usize = 36;

pub(super) async fn create(
    commands: Arc<Commands>,
    call: Call,
    request: CreateTargetRequest,
) -> Result<Answer<CreateTargetResponse>, Error> {
    let (signing_key, sealed) = new_key(&commands, &call).await?;
    let wanted = request.target.clone().unwrap_or_default();
    let (kind, url) = wanted.target_type.map_or((TargetKind::RestWebhook, String::new()), target_type);
    may_be_called(&commands.targets, kind, &url)?;
    let target = Target {
        name: wanted.name,
        kind,
        url,
        timeout_ms: wanted.timeout.map_or(DEFAULT_TIMEOUT_MS, milliseconds),
        mode: wanted.execution_type.map(mode).unwrap_or_default(),
        signing_keys: vec![SignatureKey { sealed, valid_until: None }],
    };
    let answer = move |details| CreateTargetResponse { details: Some(details), signing_key: signing_key.clone() };
    let owner = Owner::instance(&call.tenant.id);
    commands.create(&call, &request, (owner, target), answer).await
}

pub(super) async fn patch(
    commands: Arc<Commands>,
    call: Call,
    request: PatchTargetRequest,
) -> Result<Answer<PatchTargetResponse>, Error> {
    let wanted = request.target.clone().unwrap_or_default();
    let (kind, url) = wanted.target_type.map(patch_type).unzip();
    if let (Some(kind), Some(url)) = (kind, &url) {
        may_be_called(&commands.targets, kind, url)?;
    }
    let (signing_key, rotation) = match wanted.expiration_signing_key {
        None => (None, None),
        Some(expiration) => {
            let (key, sealed) = new_key(&commands, &call).await?;
            let now = clock::now().as_millisecond();
            let validity = i64::try_from(milliseconds(expiration)).unwrap_or(i64::MAX);
            (Some(key), Some(Rotation { sealed, now, previous_until: now.saturating_add(validity) }))
        }
    };
    let patch = TargetPatch {
        name: wanted.name,
        kind,
        url,
        timeout_ms: wanted.timeout.map(milliseconds),
        mode: wanted.execution_type.map(patch_mode),
        rotation,
    };
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
    Err(Error::invalid(vec![Violation { field: format!("target.{member}.url"), description: rule.to_owned() }]))
}

/// A new key in clear and sealed.
async fn new_key(commands: &Commands, call: &Call) -> Result<(String, String), Error> {
    let data_key = commands.keyring.key(&call.tenant.id, Purpose::Resource).await.map_err(unavailable)?;
    let key = random_text(SIGNING_KEY_LENGTH);
    let sealed = data_key.seal(signature::SEALED, key.as_bytes());
    Ok((key, sealed))
}

/// A part of a millisecond counts as a whole one; validation has refused negative durations.
fn milliseconds(duration: proto::wellknown::Duration) -> u64 {
    let duration = Duration::try_from(duration).unwrap_or_default();
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

fn target_type(kind: target::TargetType) -> (TargetKind, String) {
    match kind {
        target::TargetType::RestWebhook(webhook) => (TargetKind::RestWebhook, webhook.url),
        target::TargetType::RestRequestResponse(call) => (TargetKind::RestRequestResponse, call.url),
    }
}

fn patch_type(kind: patch_target::TargetType) -> (TargetKind, String) {
    match kind {
        patch_target::TargetType::RestWebhook(webhook) => (TargetKind::RestWebhook, webhook.url),
        patch_target::TargetType::RestRequestResponse(call) => (TargetKind::RestRequestResponse, call.url),
    }
}

fn mode(kind: target::ExecutionType) -> Mode {
    match kind {
        target::ExecutionType::IsAsync(is_async) => async_mode(is_async),
        target::ExecutionType::InterruptOnError(interrupts) => interrupt_mode(interrupts),
    }
}

fn patch_mode(kind: patch_target::ExecutionType) -> Mode {
    match kind {
        patch_target::ExecutionType::IsAsync(is_async) => async_mode(is_async),
        patch_target::ExecutionType::InterruptOnError(interrupts) => interrupt_mode(interrupts),
    }
}

/// A `false` on either member says: neither.
fn async_mode(is_async: bool) -> Mode {
    if is_async { Mode::Async } else { Mode::Continue }
}

fn interrupt_mode(interrupts: bool) -> Mode {
    if interrupts { Mode::InterruptOnError } else { Mode::Continue }
}
