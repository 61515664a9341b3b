//! Configurations of identity providers of every type, for tests.

use std::sync::LazyLock;

use rcgen::{KeyPair, generate_simple_self_signed};
use serde_json::{Value, json};

/// The path of identity providers.
pub const IDPS: &str = "/resources/v3alpha/idps";

/// The types, as paths name them.
pub const TYPES: [&str; 12] = [
    "oidc",
    "jwt",
    "ldap",
    "oauth",
    "directory_a",
    "codehost_a",
    "codehost_a_es",
    "codehost_b",
    "codehost_b_self_hosted",
    "social_a",
    "social_b",
    "saml",
];

/// Private keys for P-256, in PEM.
static KEYS: LazyLock<[String; 2]> =
    LazyLock::new(|| [(); 2].map(|()| KeyPair::generate().expect("it needs randomness only").serialize_pem()));

/// Certificates, in PEM.
static CERTIFICATES: LazyLock<[String; 2]> = LazyLock::new(|| {
    ["a.example", "b.example"]
        .map(|name| generate_simple_self_signed(vec![name.to_owned()]).expect("it needs randomness only").cert.pem())
});

/// Metadata of SAML.
pub const METADATA: &str =
    "<md:EntityDescriptor xmlns:md=\"urn:oasis:names:tc:SAML:2.0:metadata\" entityID=\"https://a.example\"/>";

/// Returns a configuration of a type, with every member.
///
/// # Panics
/// Where there is no such type.
pub fn config(of: &str) -> Value {
    with(of, "a")
}

/// Returns a configuration that differs in every member.
///
/// # Panics
/// Where there is no such type.
pub fn other_config(of: &str) -> Value {
    with(of, "b")
}

fn with(of: &str, word: &str) -> Value {
    let is_other = word == "b";
    let url = |path: &str| json!(format!("https://{word}.example/{path}"));
    let client = |more: Value| {
        let client =
            json!({ "clientId": word, "scopes": ["openid", word], "clientSecret": format!("very secret {word}") });
        merged(client, more)
    };
    let endpoints = || json!({ "authorizationEndpoint": url("authorize"), "tokenEndpoint": url("token"), "userEndpoint": url("user") });
    match of {
        "oidc" => client(json!({ "issuer": url(""), "isIdTokenMapping": is_other, "usePkce": is_other })),
        "jwt" => json!({
            "issuer": url(""), "jwtEndpoint": url("jwt"), "keysEndpoint": url("keys"), "headerName": format!("x-{word}"),
            "audience": word,
        }),
        "ldap" => json!({
            "servers": [format!("ldap://{word}.example:389"), format!("ldap://[::1]:39{}", word.len())], "startTls": is_other,
            "baseDn": format!("dc={word}"), "bindDn": format!("cn={word}"), "bindPassword": format!("very secret {word}"),
            "userBase": word, "userObjectClasses": ["person", word], "userFilters": ["uid", word],
            "timeout": if is_other { "2.500s" } else { "2s" }, "attributes": attributes(word),
            "rootCa": CERTIFICATES[usize::from(is_other)],
        }),
        "oauth" => client(merged(endpoints(), json!({ "idAttribute": word, "usePkce": is_other }))),
        "directory_a" => {
            client(json!({ "tenant": if is_other { "organizations" } else { "common" }, "emailVerified": is_other }))
        }
        "codehost_a" | "codehost_b" | "social_a" => client(json!({})),
        "codehost_a_es" => client(endpoints()),
        "codehost_b_self_hosted" => client(json!({ "issuer": url("") })),
        "social_b" => json!({
            "clientId": word, "scopes": ["name", word], "teamId": word.repeat(10), "keyId": word.repeat(10),
            "privateKey": KEYS[usize::from(is_other)],
        }),
        "saml" => json!({
            "withSignedRequest": is_other, "transientMappingAttributeName": word, "federatedLogoutEnabled": is_other,
            "binding": if is_other { "SAML_BINDING_ARTIFACT" } else { "SAML_BINDING_REDIRECT" },
            "signatureAlgorithm": format!("SAML_SIGNATURE_ALGORITHM_RSA_SHA{}", if is_other { 1 } else { 512 }),
            "nameIdFormat": format!("SAML_NAME_ID_FORMAT_{}", if is_other { "TRANSIENT" } else { "EMAIL_ADDRESS" }),
            if is_other { "metadataXml" } else { "metadataUrl" }: if is_other { json!(METADATA) } else { url("metadata") },
        }),
        _ => panic!("{of} is no type"),
    }
}

fn attributes(word: &str) -> Value {
    let names = [
        "id",
        "firstName",
        "lastName",
        "displayName",
        "nickName",
        "preferredUsername",
        "email",
        "emailVerified",
        "phone",
        "phoneVerified",
        "preferredLanguage",
        "avatarUrl",
        "profile",
    ];
    names.iter().map(|name| (format!("{name}Attribute"), json!(format!("{word} {name}")))).collect()
}

fn merged(mut one: Value, other: Value) -> Value {
    if let (Value::Object(one), Value::Object(other)) = (&mut one, other) {
        one.extend(other);
    }
    one
}
