//! Targets as they are read.

use std::time::Duration;

use api::details;
use domain::resource::target::{Mode, Target, TargetKind, column};
use index::{Filter, Key};
use proto::action::{
    self, GetTarget, GetTargetRequest, SearchTargetsRequest, SetRestRequestResponse, SetRestWebhook, TargetFieldName,
    target::{ExecutionType, TargetType},
    target_search_filter::Filter as Wanted,
};
use view::{
    projection::{Projection, TARGETS, TARGETS_INDEX},
    rows::Found,
};

use crate::{search::method, standard::Shown};

impl Shown for Target {
    type Get = GetTargetRequest;
    type Search = SearchTargetsRequest;
    const TABLE: &'static Projection = &TARGETS;
    const INDEX: &'static Projection = &TARGETS_INDEX;

    fn key(column: TargetFieldName) -> Key {
        match column {
            TargetFieldName::Unspecified | TargetFieldName::CreationDate => Key::Created,
            TargetFieldName::Id => Key::Id,
            TargetFieldName::ChangeDate => Key::Changed,
            TargetFieldName::Name => Key::by(&column::NAME),
            TargetFieldName::TargetType => Key::by(&column::TARGET_TYPE),
            TargetFieldName::Url => Key::by(&column::URL),
            TargetFieldName::Timeout => Key::by(&column::TIMEOUT_MS),
            TargetFieldName::Async => Key::by(&column::IS_ASYNC),
            TargetFieldName::InterruptOnError => Key::by(&column::INTERRUPT_ON_ERROR),
        }
    }

    fn filter(wanted: Wanted) -> Filter {
        match wanted {
            Wanted::Name(name) => {
                let (method, ignores_case) = method(name.method());
                Filter::Text { column: column::NAME.definition, method, ignores_case, text: name.name }
            }
            Wanted::InIds(ids) => Filter::Ids(ids.ids),
        }
    }

    fn shown(found: &Found<Self>) -> GetTarget {
        let Self { name, kind, url, timeout_ms, mode, signing_keys: _ } = found.state.clone();
        let target = action::Target {
            name,
            target_type: Some(match kind {
                TargetKind::RestWebhook => TargetType::RestWebhook(SetRestWebhook { url }),
                TargetKind::RestRequestResponse => TargetType::RestRequestResponse(SetRestRequestResponse { url }),
            }),
            timeout: Duration::from_millis(timeout_ms).try_into().ok(),
            execution_type: match mode {
                Mode::Continue => None,
                Mode::Async => Some(ExecutionType::IsAsync(true)),
                Mode::InterruptOnError => Some(ExecutionType::InterruptOnError(true)),
            },
        };
        GetTarget { details: Some(details::of(found)), target: Some(target) }
    }
}
