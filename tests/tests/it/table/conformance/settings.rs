//! The rows of settings, of an organization or of the instance itself.

use std::collections::BTreeMap;

use futures::{FutureExt, future::BoxFuture};
use proto::{
    branding_settings::{
        AssetKind, NewBrandingAsset, ResolveBrandingSettingsRequest, SetBrandingSettings, SetBrandingSettingsRequest,
        UploadBrandingAssetRequest,
    },
    domain_settings::{ResolveDomainSettingsRequest, SetDomainSettings, SetDomainSettingsRequest},
    feature_settings::{ResolveFeaturesRequest, SetFeatureSettings, SetFeaturesRequest},
    help_settings::{ResolveHelpSettingsRequest, SetHelpSettings, SetHelpSettingsRequest},
    language_settings::{ResolveLanguagesRequest, SetLanguageSettings, SetLanguages, SetLanguagesRequest},
    lockout_settings::{ResolveLockoutSettingsRequest, SetLockoutSettings, SetLockoutSettingsRequest},
    login_settings::{ResolveLoginSettingsRequest, SetLoginSettings, SetLoginSettingsRequest},
    object::request_context::ResourceOwner,
    object_settings::{
        Language, SetBool, SetDuration, SetStringLong, SetUInt64, SetUrl, set_bool::Type, set_duration,
        set_string_long, set_u_int64, set_url,
    },
    oidc_settings::{ResolveOidcSettingsRequest, SetOidcSettings, SetOidcSettingsRequest},
    operation::{
        RESOLVE_BRANDING_SETTINGS, RESOLVE_DOMAIN_SETTINGS, RESOLVE_FEATURES, RESOLVE_HELP_SETTINGS, RESOLVE_LANGUAGES,
        RESOLVE_LOCKOUT_SETTINGS, RESOLVE_LOGIN_SETTINGS, RESOLVE_OIDC_SETTINGS, RESOLVE_PASSWORD_SETTINGS,
        RESOLVE_TEXT_SETTINGS, SET_BRANDING_SETTINGS, SET_DOMAIN_SETTINGS, SET_FEATURES, SET_HELP_SETTINGS,
        SET_LANGUAGES, SET_LOCKOUT_SETTINGS, SET_LOGIN_SETTINGS, SET_OIDC_SETTINGS, SET_PASSWORD_SETTINGS,
        SET_TEXT_SETTINGS, UPLOAD_BRANDING_ASSET,
    },
    password_settings::{ResolvePasswordSettingsRequest, SetPasswordSettings, SetPasswordSettingsRequest},
    text_settings::{ResolveTextSettingsRequest, SetTextSettings, SetTextSettingsRequest},
    wellknown::Duration,
};
use reqwest::Method;
use tests::{
    client::send,
    media::{png, woff2},
};

use super::{
    context,
    organization::a_readable_organization,
    row::{Check, Subject, row},
    wire::World,
};

/// Returns all rows.
pub(super) fn rows() -> Vec<Box<dyn Check + Sync>> {
    let own = vec![set_features(), resolve_features(), set_languages(), resolve_languages()];
    own.into_iter().chain(services()).collect()
}

/// Returns the instance, with its present settings under a path.
fn the_instance<'a>(world: &'a World, path: &'static str) -> BoxFuture<'a, Subject> {
    async move {
        let found = send(world.owner.request(Method::GET, path)).await;
        // Where nothing was ever set it is 0, which JSON leaves out.
        let sequence = found.body["details"]["sequence"].as_str().map_or(0, |text| text.parse().expect("a number"));
        Subject { id: String::new(), others: vec![], token: found.consistency(), sequence }
    }
    .boxed()
}

fn the_flags(world: &World) -> BoxFuture<'_, Subject> {
    the_instance(world, RESOLVE_FEATURES.facts.path)
}

/// Returns the rows of the two operations of a settings service with a table of properties.
macro_rules! service {
    ($set:ident: $request:ident, $resolve:ident: $look:ident; $good:expr, bad $reason:literal: $bad:expr) => {{
        fn subject(world: &World) -> BoxFuture<'_, Subject> {
            the_instance(world, $resolve.facts.path)
        }
        [
            row(&$set, subject)
                .good("one property", |_| $request { ctx: None, settings: Some($good) })
                .good("nothing", |_| $request { ctx: None, settings: Some(Default::default()) })
                .bad("no settings", "INVALID_REQUEST", |_| $request::default())
                .bad("what no context may have", $reason, |_| $request { ctx: None, settings: Some($bad) })
                .bad("in the system", "PERMISSION_DENIED", |_| $request {
                    ctx: Some(context(ResourceOwner::System(true))),
                    settings: Some($good),
                })
                .alike()
                .done(),
            row(&$resolve, subject)
                .good("of the instance", |_| $look { ctx: None })
                .bad("of the system", "PERMISSION_DENIED", |_| $look {
                    ctx: Some(context(ResourceOwner::System(true))),
                })
                .alike()
                .done(),
        ]
    }};
}

fn services() -> Vec<Box<dyn Check + Sync>> {
    let login = service!(
        SET_LOGIN_SETTINGS: SetLoginSettingsRequest, RESOLVE_LOGIN_SETTINGS: ResolveLoginSettingsRequest;
        SetLoginSettings { allow_register: bool(false), ..SetLoginSettings::default() },
        bad "SETTING_NOT_BUILT": SetLoginSettings { force_mfa: bool(true), ..SetLoginSettings::default() }
    );
    let password = service!(
        SET_PASSWORD_SETTINGS: SetPasswordSettingsRequest, RESOLVE_PASSWORD_SETTINGS: ResolvePasswordSettingsRequest;
        SetPasswordSettings { min_length: number(12), ..SetPasswordSettings::default() },
        bad "INVALID_REQUEST": SetPasswordSettings { min_length: number(9), ..SetPasswordSettings::default() }
    );
    let lockout = service!(
        SET_LOCKOUT_SETTINGS: SetLockoutSettingsRequest, RESOLVE_LOCKOUT_SETTINGS: ResolveLockoutSettingsRequest;
        SetLockoutSettings { max_password_attempts: number(5), ..SetLockoutSettings::default() },
        bad "INVALID_REQUEST": SetLockoutSettings { max_otp_attempts: number(1001), ..SetLockoutSettings::default() }
    );
    let help = service!(
        SET_HELP_SETTINGS: SetHelpSettingsRequest, RESOLVE_HELP_SETTINGS: ResolveHelpSettingsRequest;
        SetHelpSettings { tos_link: link("https://example.com/terms"), ..SetHelpSettings::default() },
        bad "INVALID_REQUEST": SetHelpSettings { tos_link: link("terms"), ..SetHelpSettings::default() }
    );
    let domain = service!(
        SET_DOMAIN_SETTINGS: SetDomainSettingsRequest, RESOLVE_DOMAIN_SETTINGS: ResolveDomainSettingsRequest;
        SetDomainSettings { require_org_domain_verification: bool(true), ..SetDomainSettings::default() },
        bad "SETTING_NOT_BUILT": SetDomainSettings {
            require_org_domain_verification: bool(false), ..SetDomainSettings::default()
        }
    );
    let oidc = service!(
        SET_OIDC_SETTINGS: SetOidcSettingsRequest, RESOLVE_OIDC_SETTINGS: ResolveOidcSettingsRequest;
        SetOidcSettings { id_token_lifetime: seconds(3600), ..SetOidcSettings::default() },
        bad "INVALID_REQUEST": SetOidcSettings { id_token_lifetime: seconds(59), ..SetOidcSettings::default() }
    );
    let branding = service!(
        SET_BRANDING_SETTINGS: SetBrandingSettingsRequest, RESOLVE_BRANDING_SETTINGS: ResolveBrandingSettingsRequest;
        SetBrandingSettings { disable_watermark: bool(true), ..SetBrandingSettings::default() },
        bad "INVALID_REQUEST": SetBrandingSettings { custom_settings: text("A"), ..SetBrandingSettings::default() }
    );
    let all = [login, password, lockout, help, domain, oidc, branding];
    all.into_iter().flatten().chain([set_texts(), resolve_texts(), upload_asset()]).collect()
}

fn the_texts(world: &World) -> BoxFuture<'_, Subject> {
    the_instance(world, "/settings/v3alpha/texts?language=it")
}

fn texts(language: &str, name: &str) -> SetTextSettingsRequest {
    let settings = Some(SetTextSettings { texts: text(name) });
    SetTextSettingsRequest { ctx: None, language: language.into(), settings }
}

fn upload_asset() -> Box<dyn Check + Sync> {
    fn subject(world: &World) -> BoxFuture<'_, Subject> {
        the_instance(world, RESOLVE_BRANDING_SETTINGS.facts.path)
    }
    fn upload(kind: AssetKind, content: Vec<u8>) -> UploadBrandingAssetRequest {
        let asset = Some(NewBrandingAsset { kind: kind.into(), content });
        UploadBrandingAssetRequest { ctx: None, asset }
    }
    row(&UPLOAD_BRANDING_ASSET, subject)
        .good("a picture", |_| upload(AssetKind::LightLogo, png(4, 2, 9)))
        .good("a font", |_| upload(AssetKind::Font, woff2()))
        .bad("no asset", "INVALID_REQUEST", |_| UploadBrandingAssetRequest::default())
        .bad("no kind", "INVALID_REQUEST", |_| upload(AssetKind::Unspecified, png(4, 2, 9)))
        .bad("another kind", "INVALID_REQUEST", |_| upload(AssetKind::DarkIcon, woff2()))
        .bad("in the system", "PERMISSION_DENIED", |_| UploadBrandingAssetRequest {
            ctx: Some(context(ResourceOwner::System(true))),
            ..upload(AssetKind::Font, woff2())
        })
        .alike()
        .done()
}

fn set_texts() -> Box<dyn Check + Sync> {
    row(&SET_TEXT_SETTINGS, the_texts)
        .good("one", |_| texts("it", "login.title"))
        .bad("no language", "INVALID_REQUEST", |_| texts("", "login.title"))
        .bad("not a name", "INVALID_REQUEST", |_| texts("it", "Login"))
        .bad("no settings", "INVALID_REQUEST", |_| SetTextSettingsRequest { settings: None, ..texts("it", "a") })
        .done()
}

fn resolve_texts() -> Box<dyn Check + Sync> {
    row(&RESOLVE_TEXT_SETTINGS, the_texts)
        .good("of the instance", |_| ResolveTextSettingsRequest { ctx: None, language: "it".into() })
        .bad("no language", "INVALID_REQUEST", |_| ResolveTextSettingsRequest::default())
        .done()
}

fn text(name: &str) -> BTreeMap<String, SetStringLong> {
    let set = SetStringLong { r#type: Some(set_string_long::Type::Set("text".to_owned())) };
    BTreeMap::from([(name.to_owned(), set)])
}

#[expect(clippy::unnecessary_wraps, reason = "as properties are")]
fn bool(value: bool) -> Option<SetBool> {
    Some(to(Type::Set(value)))
}

#[expect(clippy::unnecessary_wraps, reason = "as properties are")]
fn number(value: u64) -> Option<SetUInt64> {
    Some(SetUInt64 { r#type: Some(set_u_int64::Type::Set(value)) })
}

#[expect(clippy::unnecessary_wraps, reason = "as properties are")]
fn link(value: &str) -> Option<SetUrl> {
    Some(SetUrl { r#type: Some(set_url::Type::Set(value.to_owned())) })
}

#[expect(clippy::unnecessary_wraps, reason = "as properties are")]
fn seconds(value: i64) -> Option<SetDuration> {
    Some(SetDuration { r#type: Some(set_duration::Type::Set(Duration::from_seconds(value))) })
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
