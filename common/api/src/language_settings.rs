//! Converts languages between the API and the core.

use domain::{
    context::Owner,
    setting::languages::{Languages, LanguagesChange, SUPPORTED},
    settings::{Chain, Set},
};
use proto::{
    language_settings::{ResolveLanguagesRequest, ResolvedLanguageSettings, ResolvedLanguages, SetLanguagesRequest},
    object_settings::Language,
};

use crate::{
    details::owner,
    settings::{ResolvedSettings, SetSettings, ToProto, inherited},
};

impl ResolvedSettings for Languages {
    type Resolve = ResolveLanguagesRequest;

    fn resolved(_: &Owner, chain: &Chain<Self>) -> ResolvedLanguageSettings {
        let (default, restricted) = (chain.default_language(), chain.restricted_languages());
        // The supported languages are inherited everywhere except in the system itself.
        let system = (!chain.above.is_empty()).then(|| owner(&Owner::system()));
        ResolvedLanguageSettings {
            default_language: Some(ToProto::to_proto(default)),
            restricted_languages: Some(ResolvedLanguages {
                value: restricted.value.iter().map(|key| language(key)).collect(),
                owner: inherited(&restricted),
            }),
            supported_languages: Some(ResolvedLanguages {
                value: SUPPORTED.into_iter().map(language).collect(),
                owner: system,
            }),
        }
    }
}

fn language(key: &str) -> Language {
    Language { key: key.to_owned() }
}

impl SetSettings for SetLanguagesRequest {
    type Properties = Languages;

    /// An empty message resets the property.
    fn change(&self) -> LanguagesChange {
        let wanted = self.settings.clone().unwrap_or_default();
        let default = wanted.default_language.map(|language| language.key);
        let restricted = wanted.restricted_languages.map(|list| list.languages);
        LanguagesChange {
            default_language: default.map(|key| if key.is_empty() { Set::Reset } else { Set::To(key) }),
            restricted_languages: restricted.map(|list| match &list[..] {
                [] => Set::Reset,
                list => Set::To(list.iter().map(|language| language.key.clone()).collect()),
            }),
        }
    }
}
