//! Converts targets between the API and the core.

use domain::resource::target::{DEFAULT_TIMEOUT_MS, Mode, SignatureKey, Target, TargetKind, TargetPatch, column};
use index::{Filter, SortKey};
use proto::action::{
    self, CreateTargetRequest, GetTarget, GetTargetRequest, PatchTargetRequest, SearchTargetsRequest,
    SetRestRequestResponse, SetRestWebhook, TargetFieldName, patch_target,
    target::{self, ExecutionType, TargetType},
    target_search_filter::Filter as Wanted,
};
use view::rows::StoredResource;

use crate::{
    details,
    duration::{duration, milliseconds},
    filter::method,
    standard::Readable,
};

impl Readable for Target {
    type Get = GetTargetRequest;
    type Search = SearchTargetsRequest;

    fn key(column: TargetFieldName) -> SortKey<Self> {
        match column {
            TargetFieldName::Unspecified | TargetFieldName::CreationDate => SortKey::Created,
            TargetFieldName::Id => SortKey::Id,
            TargetFieldName::ChangeDate => SortKey::Changed,
            TargetFieldName::Name => SortKey::Column(&column::NAME),
            TargetFieldName::TargetType => SortKey::Column(&column::TARGET_TYPE),
            TargetFieldName::Url => SortKey::Column(&column::URL),
            TargetFieldName::Timeout => SortKey::Column(&column::TIMEOUT_MS),
            TargetFieldName::Async => SortKey::Column(&column::IS_ASYNC),
            TargetFieldName::InterruptOnError => SortKey::Column(&column::INTERRUPT_ON_ERROR),
        }
    }

    fn filter(wanted: Wanted) -> Filter<Self> {
        match wanted {
            Wanted::Name(name) => {
                let (method, ignores_case) = method(name.method());
                Filter::Text { column: &column::NAME, method, ignores_case, text: name.name }
            }
            Wanted::InIds(ids) => Filter::Ids(ids.ids),
        }
    }

    fn to_proto(found: &StoredResource<Self>) -> GetTarget {
        let Self { name, kind, url, timeout_ms, mode, signing_keys: _ } = found.state.clone();
        let target = action::Target {
            name,
            target_type: Some(match kind {
                TargetKind::RestWebhook => TargetType::RestWebhook(SetRestWebhook { url }),
                TargetKind::RestRequestResponse => TargetType::RestRequestResponse(SetRestRequestResponse { url }),
            }),
            timeout: duration(timeout_ms),
            execution_type: match mode {
                Mode::Continue => None,
                Mode::Async => Some(ExecutionType::IsAsync(true)),
                Mode::InterruptOnError => Some(ExecutionType::InterruptOnError(true)),
            },
        };
        GetTarget { details: Some(details::of(found)), target: Some(target) }
    }
}

/// Creates a target from a request, with the keys that sign its calls.
pub fn new(request: &CreateTargetRequest, signing_keys: Vec<SignatureKey>) -> Target {
    let wanted = request.target.clone().unwrap_or_default();
    let (kind, url) = wanted.target_type.map_or((TargetKind::RestWebhook, String::new()), target_type);
    Target {
        name: wanted.name,
        kind,
        url,
        timeout_ms: wanted.timeout.map_or(DEFAULT_TIMEOUT_MS, milliseconds),
        mode: wanted.execution_type.map(mode).unwrap_or_default(),
        signing_keys,
    }
}

/// Converts the changes of a request, except for the keys.
pub fn patch(request: &PatchTargetRequest) -> TargetPatch {
    let wanted = request.target.clone().unwrap_or_default();
    let (kind, url) = wanted.target_type.map(patch_type).unzip();
    TargetPatch {
        name: wanted.name,
        kind,
        url,
        timeout_ms: wanted.timeout.map(milliseconds),
        mode: wanted.execution_type.map(patch_mode),
        rotation: None,
    }
}

/// Returns for how many milliseconds the previous key also signs after it was replaced, if a request asks for a new
/// one.
pub fn previous_key_validity(request: &PatchTargetRequest) -> Option<i64> {
    let expiration = request.target.as_ref()?.expiration_signing_key?;
    Some(i64::try_from(milliseconds(expiration)).unwrap_or(i64::MAX))
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

/// A `false` on either member means neither.
fn async_mode(is_async: bool) -> Mode {
    if is_async { Mode::Async } else { Mode::Continue }
}

fn interrupt_mode(interrupts: bool) -> Mode {
    if interrupts { Mode::InterruptOnError } else { Mode::Continue }
}
