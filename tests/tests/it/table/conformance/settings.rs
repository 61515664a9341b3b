//! The rows of settings. What they are about is an organization, or the instance itself.

use futures::{FutureExt, future::BoxFuture};
use proto::{
    feature_settings::{ResolveFeaturesRequest, SetFeatureSettings, SetFeaturesRequest},
    language_settings::{ResolveLanguagesRequest, SetLanguageSettings, SetLanguages, SetLanguagesRequest},
    object::request_context::ResourceOwner,
    object_settings::{Language, SetBool, set_bool::Type},
    operation::{RESOLVE_FEATURES, RESOLVE_LANGUAGES, SET_FEATURES, SET_LANGUAGES},
};
use reqwest::Method;
use tests::client::send;

use super::{
    context,
    organization::a_readable_organization,
    row::{Check, Subject, row},
    wire::World,
};

/// All of them.
pub(super) fn rows() -> Vec<Box<dyn Check + Sync>> {
    vec![set_features(), resolve_features(), set_languages(), resolve_languages()]
}

/// The instance, with the flags as they are.
fn the_flags(world: &World) -> BoxFuture<'_, Subject> {
    async move {
        let found = send(world.owner.request(Method::GET, RESOLVE_FEATURES.facts.path)).await;
        Subject { id: String::new(), others: vec![], token: found.consistency(), sequence: found.sequence() }
    }
    .boxed()
}

fn flags(token_exchange: Option<SetBool>) -> SetFeaturesRequest {
    SetFeaturesRequest {
        ctx: None,
        settings: Some(SetFeatureSettings { token_exchange, ..SetFeatureSettings::default() }),
    }
}

fn to(r#type: Type) -> SetBool {
    SetBool { r#type: Some(r#type) }
}

fn set_features() -> Box<dyn Check + Sync> {
    row(&SET_FEATURES, the_flags)
        .good("one that is on", |_| flags(Some(to(Type::Set(true)))))
        .good("nothing", |_| flags(None))
        .bad("no settings", "INVALID_REQUEST", |_| SetFeaturesRequest::default())
        .bad("neither set nor reset", "INVALID_REQUEST", |_| flags(Some(SetBool { r#type: None })))
        .bad("reset with false", "INVALID_REQUEST", |_| flags(Some(to(Type::Reset(false)))))
        .bad("in the system", "PERMISSION_DENIED", |_| SetFeaturesRequest {
            ctx: Some(context(ResourceOwner::System(true))),
            ..flags(None)
        })
        .bad("in an unknown instance", "RESOURCE_NOT_FOUND", |_| SetFeaturesRequest {
            ctx: Some(context(ResourceOwner::InstanceId("1".into()))),
            ..flags(None)
        })
        .done()
}

fn resolve_features() -> Box<dyn Check + Sync> {
    row(&RESOLVE_FEATURES, the_flags)
        .good("of the instance", |_| ResolveFeaturesRequest { ctx: None })
        .bad("of the system", "PERMISSION_DENIED", |_| ResolveFeaturesRequest {
            ctx: Some(context(ResourceOwner::System(true))),
        })
        .done()
}

fn language(key: &str) -> Language {
    Language { key: key.into() }
}

fn set(subject: &Subject, default: Option<&str>, restricted: Option<&[&str]>) -> SetLanguagesRequest {
    let list = |keys: &[&str]| SetLanguages { languages: keys.iter().map(|key| language(key)).collect() };
    SetLanguagesRequest {
        ctx: Some(context(ResourceOwner::OrgId(subject.id.clone()))),
        settings: Some(SetLanguageSettings {
            default_language: default.map(language),
            restricted_languages: restricted.map(list),
        }),
    }
}

fn set_languages() -> Box<dyn Check + Sync> {
    row(&SET_LANGUAGES, a_readable_organization)
        .good("both", |it| set(it, Some("de"), Some(&["de", "en"])))
        .good("the default", |it| set(it, Some("zh"), None))
        .good("resets of what is not set", |it| set(it, Some(""), Some(&[])))
        .good("nothing", |it| set(it, None, None))
        .bad("no settings", "INVALID_REQUEST", |it| SetLanguagesRequest { settings: None, ..set(it, None, None) })
        .bad("an unknown language", "INVALID_REQUEST", |it| set(it, Some("xx"), None))
        .bad("no key of a language", "INVALID_REQUEST", |it| set(it, Some("eng"), Some(&["EN"])))
        .bad("without the default", "INVALID_REQUEST", |it| set(it, Some("fr"), Some(&["de"])))
        .bad("twice the same", "INVALID_REQUEST", |it| set(it, None, Some(&["en", "en"])))
        .bad("in the system", "PERMISSION_DENIED", |it| SetLanguagesRequest {
            ctx: Some(context(ResourceOwner::System(true))),
            ..set(it, None, None)
        })
        .bad("in an unknown organization", "RESOURCE_NOT_FOUND", |it| {
            set(&Subject { id: "1".into(), ..it.clone() }, None, None)
        })
        .done()
}

fn resolve_languages() -> Box<dyn Check + Sync> {
    row(&RESOLVE_LANGUAGES, a_readable_organization)
        .good("of the instance", |_| ResolveLanguagesRequest { ctx: None })
        .good("of an organization", |it| ResolveLanguagesRequest {
            ctx: Some(context(ResourceOwner::OrgId(it.id.clone()))),
        })
        .bad("of the system", "PERMISSION_DENIED", |_| ResolveLanguagesRequest {
            ctx: Some(context(ResourceOwner::System(true))),
        })
        .bad("of an unknown organization", "RESOURCE_NOT_FOUND", |_| ResolveLanguagesRequest {
            ctx: Some(context(ResourceOwner::OrgId("1".into()))),
        })
        .done()
}
