//! Converts texts of pages between the API and the core.

use domain::{
    context::Owner,
    setting::texts::{Texts, TextsChange},
    settings::Chain,
};
use proto::text_settings::{ResolveTextSettingsRequest, ResolvedTextSettings, SetTextSettingsRequest};

use crate::settings::{ResolvedSettings, SetSettings, entry_changes, show_entries};

impl ResolvedSettings for Texts {
    type Resolve = ResolveTextSettingsRequest;

    fn resolved(_: &Owner, chain: &Chain<Self>) -> ResolvedTextSettings {
        ResolvedTextSettings { texts: show_entries(chain, |settings| &settings.texts) }
    }
}

impl SetSettings for SetTextSettingsRequest {
    type Properties = Texts;

    fn variant(&self) -> &str {
        &self.language
    }

    fn change(&self) -> TextsChange {
        TextsChange { texts: entry_changes(self.settings.clone().unwrap_or_default().texts) }
    }
}
