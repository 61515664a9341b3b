//! The properties of every settings service, over every transport: set, read back, and reset.

use proto::{
    branding_settings::{
        ResolveBrandingSettingsRequest as ResolveBranding, SetBrandingSettingsRequest as SetBranding,
        UploadBrandingAssetRequest as UploadAsset,
    },
    domain_settings::{ResolveDomainSettingsRequest as ResolveDomain, SetDomainSettingsRequest as SetDomain},
    feature_settings::{ResolveFeaturesRequest as ResolveFeatures, SetFeaturesRequest as SetFeatures},
    help_settings::{ResolveHelpSettingsRequest as ResolveHelp, SetHelpSettingsRequest as SetHelp},
    language_settings::{ResolveLanguagesRequest as ResolveLanguages, SetLanguagesRequest as SetLanguages},
    lockout_settings::{ResolveLockoutSettingsRequest as ResolveLockout, SetLockoutSettingsRequest as SetLockout},
    login_settings::{ResolveLoginSettingsRequest as ResolveLogin, SetLoginSettingsRequest as SetLogin},
    oidc_settings::{ResolveOidcSettingsRequest as ResolveOidc, SetOidcSettingsRequest as SetOidc},
    operation::OPERATIONS,
    password_settings::{ResolvePasswordSettingsRequest as ResolvePassword, SetPasswordSettingsRequest as SetPassword},
    shape::Request,
    text_settings::{ResolveTextSettingsRequest as ResolveTexts, SetTextSettingsRequest as SetTexts},
};
use serde_json::{Value, json};
use tests::{
    media::{jpeg, png, text, webp, woff2},
    settings::{Property, Service, of, property_read, services, to_set, together},
};

use super::wire::{Transport, World};

/// A settings service with a value for each of its properties.
#[derive(Debug)]
struct Case {
    /// The fields of requests other than the settings.
    beside: Value,
    set: Value,
    reset: Value,
    /// Each property by its name, with the value that is read.
    read: Vec<(String, Value)>,
    /// A property that is read and never set.
    fixed: Option<&'static str>,
}

/// Checks all services.
pub(super) async fn check(world: &World) {
    let mut checked = vec![];
    for Service { name, properties } in services() {
        let case = Case::of(&properties);
        checked.push(match name {
            "login" => service::<SetLogin, ResolveLogin>(world, case).await,
            "branding" => service::<SetBranding, ResolveBranding>(world, with_custom(case)).await,
            "password" => service::<SetPassword, ResolvePassword>(world, case).await,
            "lockout" => service::<SetLockout, ResolveLockout>(world, case).await,
            "help" => service::<SetHelp, ResolveHelp>(world, case).await,
            "domain" => service::<SetDomain, ResolveDomain>(world, case).await,
            "oidc" => service::<SetOidc, ResolveOidc>(world, case).await,
            _ => panic!("{name} is new"),
        });
    }
    assets(world).await;
    checked.push(service::<SetTexts, ResolveTexts>(world, texts()).await);
    checked.push(service::<SetLanguages, ResolveLanguages>(world, languages()).await);
    // Without them there are no other settings.
    checked.push(service::<SetFeatures, ResolveFeatures>(world, features()).await);
    let is_of_settings = |path: &&str| path.starts_with("/settings/") && !path.ends_with("/assets");
    let mut all: Vec<_> = OPERATIONS.iter().map(|facts| facts.path).filter(is_of_settings).collect();
    all.sort_unstable();
    all.dedup();
    checked.sort_unstable();
    assert_eq!(checked, all, "every settings service");
}

impl Default for Case {
    fn default() -> Self {
        Self { beside: json!({}), set: json!({}), reset: json!({}), read: vec![], fixed: None }
    }
}

impl Case {
    fn of(properties: &[Property]) -> Self {
        Self {
            set: together(properties.iter().map(|it| (it.name, to_set(it.settable())))),
            reset: together(properties.iter().map(|it| (it.name, json!({ "reset": true })))),
            read: properties.iter().map(|it| (it.name.to_owned(), property_read(it.settable(), None))).collect(),
            ..Self::default()
        }
    }
}

fn with_custom(mut case: Case) -> Case {
    case.set["customSettings"] = json!({ "login.title": { "set": "Welcome" }, "footer": { "set": "" } });
    case.reset["customSettings"] = json!({ "login.title": { "reset": true }, "footer": { "reset": true } });
    let read = json!({ "login.title": { "value": "Welcome" }, "footer": {} });
    case.read.push(("customSettings".to_owned(), read));
    case
}

fn texts() -> Case {
    Case {
        beside: json!({ "language": "pl" }),
        set: json!({ "texts": { "login.title": { "set": "Witaj" } } }),
        reset: json!({ "texts": { "login.title": { "reset": true } } }),
        read: vec![("texts".to_owned(), json!({ "login.title": { "value": "Witaj" } }))],
        ..Case::default()
    }
}

fn languages() -> Case {
    let restricted = json!([{ "key": "de" }, { "key": "fr" }]);
    Case {
        set: json!({ "defaultLanguage": { "key": "fr" }, "restrictedLanguages": { "languages": restricted } }),
        reset: json!({ "defaultLanguage": {}, "restrictedLanguages": {} }),
        read: vec![
            ("defaultLanguage".to_owned(), json!({ "value": "fr" })),
            ("restrictedLanguages".to_owned(), json!({ "value": restricted })),
        ],
        fixed: Some("supportedLanguages"),
        ..Case::default()
    }
}

fn features() -> Case {
    let on = || json!({ "set": true });
    let reset = || json!({ "reset": true });
    Case {
        set: json!({ "multitenancyResourcesApi": on(), "multitenancySettings": on(), "tokenExchange": { "set": false } }),
        reset: json!({ "multitenancyResourcesApi": reset(), "multitenancySettings": reset(), "tokenExchange": reset() }),
        read: vec![
            ("multitenancyResourcesApi".to_owned(), json!({ "value": true })),
            ("multitenancySettings".to_owned(), json!({ "value": true })),
            ("tokenExchange".to_owned(), json!({})),
        ],
        ..Case::default()
    }
}

/// Sends JSON as a message, and returns the answer and its consistency token.
async fn sent<I: Request>(world: &World, transport: Transport, message: Value, token: &str) -> (Value, String) {
    let message: I = serde_json::from_value(message.clone()).unwrap_or_else(|error| panic!("{error}: {message}"));
    let bearer = format!("Bearer {}", world.owner.token);
    let fresh = [("authorization", bearer.as_str()), ("consistency-wait", "10s"), ("consistency-token", token)];
    let headers = if token.is_empty() { &fresh[..1] } else { &fresh };
    let outcome = world.call(transport, I::OPERATION, &message, headers).await;
    let token = outcome.metadata.get("consistency-token").cloned().unwrap_or_default();
    let answer = outcome.result.unwrap_or_else(|error| panic!("{}, {transport:?}: {error}", I::OPERATION.facts.method));
    (answer, token)
}

/// Reads the settings after a write.
async fn read<R: Request>(world: &World, transport: Transport, beside: &Value, token: &str) -> Value {
    sent::<R>(world, transport, beside.clone(), token).await.0["settings"].clone()
}

/// Returns a request with settings.
fn with(beside: &Value, settings: &Value) -> Value {
    let mut message = beside.clone();
    message["settings"] = settings.clone();
    message
}

/// Sets, reads and resets every property of a service, and returns its path.
async fn service<S: Request, R: Request>(world: &World, case: Case) -> &'static str {
    let Case { beside, set, reset, read: expected, fixed } = case;
    let mut first: Option<[Value; 2]> = None;
    for transport in Transport::ALL {
        let what = format!("{}, {transport:?}", S::OPERATION.facts.method);
        let (_, token) = sent::<S>(world, transport, with(&beside, &reset), "").await;
        let before = read::<R>(world, transport, &beside, &token).await;
        let (_, token) = sent::<S>(world, transport, with(&beside, &set), "").await;
        let own = read::<R>(world, transport, &beside, &token).await;
        for (property, value) in &expected {
            assert_eq!(of(&own, property), value, "{what}: {property}");
        }
        let mut all = own.clone();
        fixed.map(|name| all.as_object_mut().and_then(|all| all.remove(name)));
        assert!(!all.to_string().contains("\"owner\""), "{what}: a property was not set: {all}");
        let (_, token) = sent::<S>(world, transport, with(&beside, &reset), "").await;
        assert_eq!(read::<R>(world, transport, &beside, &token).await, before, "{what}: it was reset");
        assert_ne!(own, before, "{what}");
        let seen = [before, own];
        assert_eq!(first.get_or_insert_with(|| seen.clone()), &seen, "{what}: as over {:?}", Transport::ALL[0]);
    }
    S::OPERATION.facts.path
}

/// Uploads, reads and resets every picture and the font.
async fn assets(world: &World) {
    let kinds = [
        ("lightTheme.logo", "LIGHT_LOGO", png(4, 2, 9)),
        ("lightTheme.icon", "LIGHT_ICON", webp()),
        ("darkTheme.logo", "DARK_LOGO", png(4, 3, 9)),
        ("darkTheme.icon", "DARK_ICON", jpeg()),
        ("font", "FONT", woff2()),
    ];
    let reset = together(kinds.iter().map(|(property, ..)| (*property, json!({ "reset": true }))));
    for transport in Transport::ALL {
        for (property, kind, content) in &kinds {
            let asset = json!({ "asset": { "kind": format!("ASSET_KIND_{kind}"), "content": text(content) } });
            let (uploaded, token) = sent::<UploadAsset>(world, transport, asset, "").await;
            let settings = read::<ResolveBranding>(world, transport, &json!({}), &token).await;
            assert!(uploaded["asset"]["path"].is_string(), "{kind}, {transport:?}: {uploaded}");
            assert_eq!(of(&settings, property), &json!({ "value": uploaded["asset"] }), "{kind}, {transport:?}");
        }
        let (_, token) = sent::<SetBranding>(world, transport, with(&json!({}), &reset), "").await;
        let settings = read::<ResolveBranding>(world, transport, &json!({}), &token).await;
        for (property, kind, _) in &kinds {
            assert_eq!(of(&settings, property), &json!(null), "{kind}, {transport:?}");
        }
    }
}
