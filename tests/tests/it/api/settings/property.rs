//! Every property of the settings services that are tables: set, inherited, reset, refused.

use reqwest::Method;
use serde_json::{Value, json};
use tests::{
    client::{after, done},
    tenant::Tenant,
};

use super::{ORGANIZATIONS, of_instance, of_system, resolve, resolved, set, was_set};

/// A settings service as data: its path, and for each property the default, another value and one that is refused. What has
/// no other value can only be what it is.
type Service = (&'static str, Vec<Property>);
type Property = (&'static str, Value, Option<Value>, Value);

fn bool(name: &'static str, default: bool) -> Property {
    (name, json!(default), Some(json!(!default)), json!("yes"))
}

fn fixed(name: &'static str, only: bool) -> Property {
    (name, json!(only), None, json!(!only))
}

fn number(name: &'static str, [default, other, bad]: [u64; 3]) -> Property {
    let text = |value: u64| json!(value.to_string());
    (name, text(default), Some(text(other)), text(bad))
}

fn span(name: &'static str, default: &str, bad: &str) -> Property {
    (name, json!(default), Some(json!("3600.5s")), json!(bad))
}

fn link(name: &'static str) -> Property {
    (name, json!(""), Some(json!("https://example.com/a?b#c")), json!("javascript:alert(1)"))
}

fn color(name: &'static str, default: &str) -> Property {
    (name, json!(default), Some(json!("#0a0B0c")), json!("red"))
}

/// The services whose properties are tables.
fn services() -> [Service; 7] {
    [
        ("login", login()),
        ("branding", branding()),
        ("password", password()),
        ("lockout", vec![number("maxPasswordAttempts", [0, 1000, 1001]), number("maxOtpAttempts", [0, 5, 1001])]),
        ("help", help()),
        ("domain", domain()),
        ("oidc", oidc()),
    ]
}

fn login() -> Vec<Property> {
    vec![
        bool("allowUsernamePassword", true),
        bool("allowRegister", true),
        bool("allowExternalIdp", true),
        fixed("forceMfa", false),
        fixed("forceMfaLocalOnly", false),
        bool("allowPasskeys", true),
        bool("hidePasswordReset", false),
        bool("ignoreUnknownUsernames", false),
        link("defaultRedirectUri"),
        span("passwordCheckLifetime", "864000s", "59s"),
        span("externalLoginCheckLifetime", "864000s", "7776001s"),
        span("mfaInitSkipLifetime", "2592000s", "-1s"),
        span("secondFactorCheckLifetime", "64800s", "-1s"),
        span("multiFactorCheckLifetime", "43200s", "-1s"),
        ("secondFactors", json!([]), None, json!(["SECOND_FACTOR_TOTP"])),
        ("multiFactors", json!([]), None, json!(["MULTI_FACTOR_U2F_WITH_VERIFICATION"])),
        bool("allowDomainDiscovery", true),
        bool("disableLoginWithEmail", false),
        bool("disableLoginWithPhone", false),
    ]
}

fn branding() -> Vec<Property> {
    vec![
        color("lightTheme.primaryColor", "#5469d4"),
        color("lightTheme.backgroundColor", "#fafafa"),
        color("lightTheme.warnColor", "#cd3d56"),
        color("lightTheme.fontColor", "#000000"),
        color("darkTheme.primaryColor", "#2073c4"),
        color("darkTheme.backgroundColor", "#111827"),
        color("darkTheme.warnColor", "#ff3b5b"),
        color("darkTheme.fontColor", "#ffffff"),
        ("themeMode", json!("THEME_MODE_AUTO"), Some(json!("THEME_MODE_DARK")), json!("THEME_MODE_UNSPECIFIED")),
        bool("hideLoginNameSuffix", false),
        bool("disableWatermark", false),
    ]
}

fn password() -> Vec<Property> {
    vec![
        number("minLength", [10, 200, 201]),
        bool("requiresUppercase", false),
        bool("requiresLowercase", false),
        bool("requiresNumber", false),
        bool("requiresSymbol", false),
    ]
}

fn help() -> Vec<Property> {
    vec![
        link("tosLink"),
        link("privacyPolicyLink"),
        link("helpLink"),
        ("supportEmail", json!(""), Some(json!("help@example.com")), json!("help\r\n@b")),
        link("docsLink"),
        link("customLink"),
        ("customLinkText", json!(""), Some(json!("Imprint")), json!("a".repeat(65))),
    ]
}

fn domain() -> Vec<Property> {
    vec![
        fixed("loginNameIncludesDomain", false),
        fixed("requireOrgDomainVerification", true),
        bool("smtpSenderAddressMatchesInstanceDomain", false),
    ]
}

fn oidc() -> Vec<Property> {
    vec![
        span("accessTokenLifetime", "43200s", "86400.001s"),
        span("idTokenLifetime", "43200s", "59s"),
        span("refreshTokenIdleLifetime", "2592000s", "7776001s"),
        span("refreshTokenAbsoluteLifetime", "7776000s", "0s"),
        ("signingKeyLifetime", json!("2592000s"), Some(json!("86400s")), json!("86399s")),
        bool("enableImpersonation", false),
    ]
}

/// A property as it stands in an object, which may be inside another.
fn inside(property: &str, value: &Value) -> Value {
    match property.split_once('.') {
        Some((outer, inner)) => json!({ outer: { inner: value } }),
        None => json!({ property: value }),
    }
}

/// The same the other way round.
fn of<'a>(settings: &'a Value, property: &str) -> &'a Value {
    property.split('.').fold(settings, |settings, name| &settings[name])
}

/// The message of a list has it one deeper than that of a single value.
fn to_set(value: &Value) -> Value {
    if value.is_array() { json!({ "set": { "value": value } }) } else { json!({ "set": value }) }
}

/// A property as clients read it: a value that is its type's own default is left out.
fn shown(value: &Value, owner: Option<Value>) -> Value {
    let mut shown = json!({});
    if ![json!(false), json!(""), json!("0"), json!([])].contains(value) {
        let text = value.as_str().and_then(|text| text.strip_suffix(".5s"));
        shown["value"] = text.map_or(value.clone(), |whole| json!(format!("{whole}.500s")));
    }
    if let Some(owner) = owner {
        shown["owner"] = owner;
    }
    shown
}

#[tokio::test]
async fn every_property_is_set_inherited_and_reset() {
    let tenant = Tenant::start().await;
    let (admin, operator) = (tenant.client().await, tenant.operator().await);
    let acme = done(&admin, ORGANIZATIONS, json!({ "name": "Acme" })).await.id();
    for (name, properties) in services() {
        let path = format!("/settings/v3alpha/{name}");
        let below = format!("{path}?ctx.orgId={acme}");
        let goes_below = resolve(&admin, &below).await.status == 200;
        assert_eq!(goes_below, !["domain", "oidc"].contains(&name), "{name}");
        let system = resolved(&operator, &format!("{path}?ctx.system=true")).await;
        let before = resolved(&admin, &path).await;
        let properties_of = |outer: &str, value: &Value| {
            let inner = value.as_object().filter(|_| outer.ends_with("Theme"));
            inner.map_or(vec![outer.to_owned()], |inner| inner.keys().map(|name| format!("{outer}.{name}")).collect())
        };
        let known = before.as_object().expect("it is an object").iter();
        let mut known: Vec<_> = known.flat_map(|(outer, value)| properties_of(outer, value)).collect();
        let names: Vec<_> = properties.iter().map(|(property, ..)| (*property).to_owned()).collect();
        known.sort_by_key(|name| names.iter().position(|known| known == name));
        assert_eq!(known, names, "{name}: the table has all of them");

        for (property, default, other, _) in &properties {
            assert_eq!(of(&system, property), &shown(default, None), "{name}.{property}");
            assert_eq!(of(&before, property), &shown(default, Some(of_system())), "{name}.{property}");
            // What can only be what it is can be set to that.
            let value = other.as_ref().unwrap_or(default);
            was_set(&admin, &path, inside(property, &to_set(value))).await;
        }
        let own = resolved(&admin, &path).await;
        for (property, default, other, _) in &properties {
            let value = other.as_ref().unwrap_or(default);
            assert_eq!(of(&own, property), &shown(value, None), "{name}.{property}");
            if goes_below {
                let inherited = shown(value, Some(of_instance(&tenant)));
                assert_eq!(of(&resolved(&admin, &below).await, property), &inherited, "{name}.{property}");
                was_set(&admin, &below, inside(property, &to_set(default))).await;
                assert_eq!(of(&resolved(&admin, &below).await, property), &shown(default, None), "{name}.{property}");
                was_set(&admin, &below, inside(property, &json!({ "reset": true }))).await;
                assert_eq!(of(&resolved(&admin, &below).await, property), &inherited, "{name}.{property}");
            }
        }
        for property in &names {
            was_set(&admin, &path, inside(property, &json!({ "reset": true }))).await;
        }
        assert_eq!(resolved(&admin, &path).await, before, "{name}");
    }
}

#[tokio::test]
async fn a_property_that_breaks_its_rule_is_refused_with_its_name() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    for (name, properties) in services() {
        let path = format!("/settings/v3alpha/{name}");
        let before = resolve(&admin, &path).await.body;
        for (property, _, other, bad) in &properties {
            let case = format!("{name}.{property}");
            for wrong in
                [json!({ "set": null }), json!({ "reset": false }), json!({}), json!({ "set": {}, "reset": true })]
            {
                let refused = set(&admin, &path, inside(property, &wrong)).await;
                refused.assert_refused(&case, 400, "INVALID_REQUEST");
            }
            let refused = set(&admin, &path, inside(property, &to_set(bad))).await;
            let reason = if other.is_some() { "INVALID_REQUEST" } else { "SETTING_NOT_BUILT" };
            refused.assert_refused(&case, 400, reason);
            assert!(refused.body.to_string().contains(&format!("settings.{property}.set")), "{case}: {}", refused.body);
        }
        let refused = set(&admin, &path, json!({ "noProperty": { "set": true } })).await;
        refused.assert_refused(name, 400, "UNKNOWN_FIELD");
        assert_eq!(resolve(&admin, &path).await.body, before, "{name}: nothing was changed");
    }
}

#[tokio::test]
async fn named_values_are_set_inherited_and_reset_one_by_one() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let acme = done(&admin, ORGANIZATIONS, json!({ "name": "Acme" })).await.id();
    for (name, property, variant) in [("branding", "customSettings", ""), ("texts", "texts", "&language=de")] {
        let path = format!("/settings/v3alpha/{name}?ctx.instanceId={}{variant}", tenant.bootstrap.instance_id);
        let below = format!("/settings/v3alpha/{name}?ctx.orgId={acme}{variant}");
        let (instance, mine) = (of_instance(&tenant), |value: &str| json!({ "value": value }));
        assert_eq!(resolved(&admin, &below).await[property], json!(null), "{name}: nothing is set");
        let both = json!({ property: { "login.title": { "set": "one" }, "footer_2": { "set": "" } } });
        let first = was_set(&admin, &path, both).await;
        let own = json!({ "login.title": mine("one"), "footer_2": {} });
        assert_eq!(resolved(&admin, &path).await[property], own, "{name}");
        was_set(&admin, &below, json!({ property: { "login.title": { "set": "two" }, "more": { "set": "three" } } }))
            .await;
        let mixed =
            json!({ "login.title": mine("two"), "footer_2": { "owner": instance.clone() }, "more": mine("three") });
        assert_eq!(resolved(&admin, &below).await[property], mixed, "{name}");
        let reset = was_set(
            &admin,
            &below,
            json!({ property: { "login.title": { "reset": true }, "none": { "reset": true } } }),
        );
        let below_now =
            after(&reset.await, admin.request(Method::GET, &below)).await.body["settings"][property].clone();
        assert_eq!(below_now["login.title"], json!({ "value": "one", "owner": instance }), "{name}");
        assert_eq!(resolve(&admin, &path).await.sequence(), first.sequence(), "{name}: those above stay as they are");

        let long = "a".repeat(2049);
        for (case, wrong) in [
            ("no name", json!({ "": { "set": "a" } })),
            ("not a name", json!({ "Login Title": { "set": "a" } })),
            ("neither", json!({ "a_b": {} })),
            ("too long", json!({ "a_b": { "set": long } })),
            ("no object", json!({ "a_b": "a" })),
        ] {
            let refused = set(&admin, &path, json!({ property: wrong })).await;
            refused.assert_refused(&format!("{name}: {case}"), 400, "INVALID_REQUEST");
            assert!(refused.body.to_string().contains(&format!("settings.{property}")), "{case}: {}", refused.body);
        }
        let most: serde_json::Map<_, _> =
            (0..40).map(|at| (format!("name-{at}"), json!({ "set": "a".repeat(2048) }))).collect();
        let refused = set(&admin, &path, json!({ property: most })).await;
        refused.assert_refused(&format!("{name}: too much in all"), 400, "INVALID_REQUEST");
    }
    let texts = "/settings/v3alpha/texts";
    let other = resolved(&admin, &format!("{texts}?language=fr")).await;
    assert_eq!(other, json!({}), "each language has its own");
    for query in ["", "?language=xx", "?language=DE"] {
        resolve(&admin, &format!("{texts}{query}")).await.assert_refused(query, 400, "INVALID_REQUEST");
    }
}
