//! The lifetimes of tokens of an instance.

use domain::{context::Owner, setting::oidc::Oidc as Settings, settings::Milliseconds};

use crate::Oidc;

/// Returns one of the lifetimes that are set for an instance.
pub(crate) fn of(oidc: &Oidc, instance_id: &str, which: fn(&Settings) -> Option<&Milliseconds>) -> Milliseconds {
    let settings = &oidc.edge.settings;
    *settings.effective::<Settings>(instance_id, &Owner::instance(instance_id)).chain.resolve(which).value
}
