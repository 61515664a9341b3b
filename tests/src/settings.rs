//! The settings services with tables of properties, as data for tests.

use serde_json::{Value, json};

/// A settings service with a table of properties.
#[derive(Debug)]
pub struct Service {
    /// The last segment of its path.
    pub name: &'static str,
    /// All of its properties.
    pub properties: Vec<Property>,
}

/// A property of settings.
#[derive(Debug)]
pub struct Property {
    /// The name, after that of the object that it is in, if any.
    pub name: &'static str,
    /// The default value.
    pub default: Value,
    /// Another value, unless the property is fixed.
    pub other: Option<Value>,
    /// A value that is refused.
    pub bad: Value,
}

impl Property {
    fn new(name: &'static str, default: Value, other: Option<Value>, bad: Value) -> Self {
        Self { name, default, other, bad }
    }

    /// Returns a value that it can be set to: another one than the default, if possible.
    pub fn settable(&self) -> &Value {
        self.other.as_ref().unwrap_or(&self.default)
    }
}

/// Returns the services with tables of properties.
pub fn services() -> [Service; 7] {
    [
        ("login", login()),
        ("branding", branding()),
        ("password", password()),
        ("lockout", vec![number("maxPasswordAttempts", [0, 1000, 1001]), number("maxOtpAttempts", [0, 5, 1001])]),
        ("help", help()),
        ("domain", domain()),
        ("oidc", oidc()),
    ]
    .map(|(name, properties)| Service { name, properties })
}

/// Returns an object with a property, which may be inside another object.
pub fn inside(property: &str, value: &Value) -> Value {
    together([(property, value.clone())])
}

/// Returns an object with several properties.
pub fn together<'a>(properties: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    let mut all = json!({});
    for (property, value) in properties {
        *property.split('.').fold(&mut all, |inside, name| &mut inside[name]) = value;
    }
    all
}

/// Returns a property of an object.
pub fn of<'a>(settings: &'a Value, property: &str) -> &'a Value {
    property.split('.').fold(settings, |settings, name| &settings[name])
}

/// Returns the message that sets a value, in which a list is one level deeper than a single value.
pub fn to_set(value: &Value) -> Value {
    if value.is_array() { json!({ "set": { "value": value } }) } else { json!({ "set": value }) }
}

/// Returns a property as clients read it: the default value of its type is omitted.
pub fn property_read(value: &Value, owner: Option<Value>) -> Value {
    let mut property = json!({});
    if ![json!(false), json!(""), json!("0"), json!([])].contains(value) {
        let text = value.as_str().and_then(|text| text.strip_suffix(".5s"));
        property["value"] = text.map_or(value.clone(), |whole| json!(format!("{whole}.500s")));
    }
    if let Some(owner) = owner {
        property["owner"] = owner;
    }
    property
}

fn bool(name: &'static str, default: bool) -> Property {
    Property::new(name, json!(default), Some(json!(!default)), json!("yes"))
}

fn fixed(name: &'static str, only: bool) -> Property {
    Property::new(name, json!(only), None, json!(!only))
}

fn number(name: &'static str, [default, other, bad]: [u64; 3]) -> Property {
    let text = |value: u64| json!(value.to_string());
    Property::new(name, text(default), Some(text(other)), text(bad))
}

fn span(name: &'static str, default: &str, bad: &str) -> Property {
    Property::new(name, json!(default), Some(json!("3600.5s")), json!(bad))
}

fn link(name: &'static str) -> Property {
    Property::new(name, json!(""), Some(json!("https://example.com/a?b#c")), json!("javascript:alert(1)"))
}

fn color(name: &'static str, default: &str) -> Property {
    Property::new(name, json!(default), Some(json!("#0a0B0c")), json!("red"))
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
        Property::new("secondFactors", json!([]), None, json!(["SECOND_FACTOR_TOTP"])),
        Property::new("multiFactors", json!([]), None, json!(["MULTI_FACTOR_U2F_WITH_VERIFICATION"])),
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
        Property::new(
            "themeMode",
            json!("THEME_MODE_AUTO"),
            Some(json!("THEME_MODE_DARK")),
            json!("THEME_MODE_UNSPECIFIED"),
        ),
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
        Property::new("supportEmail", json!(""), Some(json!("help@example.com")), json!("help\r\n@b")),
        link("docsLink"),
        link("customLink"),
        Property::new("customLinkText", json!(""), Some(json!("Imprint")), json!("a".repeat(65))),
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
        Property::new("signingKeyLifetime", json!("2592000s"), Some(json!("86400s")), json!("86399s")),
        bool("enableImpersonation", false),
    ]
}
