//! Configurations that are refused.

use serde_json::json;
use tests::{
    client::{created, post},
    idp::{IDPS, METADATA, config},
    tenant::Tenant,
};

#[tokio::test]
async fn bad_configurations_are_refused_by_the_member_that_is_bad() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let scopes: Vec<String> = (0..21).map(|number| format!("scope{number}")).collect();
    let mut most = config("codehost_b");
    most["scopes"] = json!(scopes[1..]);
    created(&admin, &format!("{IDPS}/codehost_b"), json!({ "idp": { "name": "20 scopes" }, "config": most })).await;
    let certificate = config("ldap")["rootCa"].as_str().expect("there is one").to_owned();
    let with_key = format!("{certificate}\n-----BEGIN PRIVATE KEY-----\nAA==\n-----END PRIVATE KEY-----\n");
    let dtd = format!("<!DOCTYPE a [<!ENTITY b \"c\">]>{METADATA}");
    for (of, member, value, field) in [
        ("codehost_b", "scopes", json!(scopes), "scopes"),
        ("codehost_b", "scopes", json!([""]), "scopes[0]"),
        ("codehost_b", "scopes", json!(["x".repeat(101)]), "scopes[0]"),
        ("codehost_b", "clientId", json!(""), "clientId"),
        ("codehost_b", "clientSecret", json!("x".repeat(201)), "clientSecret"),
        ("oidc", "issuer", json!("ftp://a.example"), "issuer"),
        ("oauth", "tokenEndpoint", json!("https://user@a.example"), "tokenEndpoint"),
        ("ldap", "servers", json!([]), "servers"),
        ("ldap", "servers", json!(["http://a.example"]), "servers"),
        ("ldap", "servers", json!(["ldap://a.example", "ldap://A.example:389"]), "servers"),
        ("ldap", "rootCa", json!("no certificate"), "rootCa"),
        ("ldap", "rootCa", json!(with_key), "rootCa"),
        ("ldap", "timeout", json!("0s"), "timeout"),
        ("directory_a", "tenant", json!("a/b"), "tenant"),
        ("social_b", "privateKey", json!("no key"), "privateKey"),
        ("social_b", "teamId", json!("short"), "teamId"),
        ("saml", "metadataXml", json!("<a>"), "metadataXml"),
        ("saml", "metadataXml", json!(dtd), "metadataXml"),
        ("saml", "metadataXml", json!(METADATA.replace("EntityDescriptor", "EntitiesDescriptor")), "metadataXml"),
        ("saml", "metadataXml", json!("<html/>"), "metadataXml"),
        ("saml", "metadataXml", json!("x".repeat(200_001)), "metadataXml"),
        ("jwt", "keysEndpoint", json!("keys"), "keysEndpoint"),
    ] {
        let mut config = config(of);
        if member == "metadataXml" {
            config.as_object_mut().expect("it has members").remove("metadataUrl");
        }
        config[member] = value.clone();
        let refused = post(&admin, &format!("{IDPS}/{of}"), json!({ "idp": { "name": "x" }, "config": config })).await;
        refused.assert_refused(member, 400, "INVALID_REQUEST");
        let details = refused.body["details"].as_array().expect("there are details");
        let named = details.iter().find_map(|detail| detail["fieldViolations"][0]["field"].as_str());
        assert_eq!(named, Some(format!("idp.config.{field}").as_str()), "{of}: {}", refused.body);
    }
    let named = |name: &str| json!({ "idp": { "name": name }, "config": config("codehost_b") });
    let path = format!("{IDPS}/codehost_b");
    created(&admin, &path, named(&"é".repeat(200))).await;
    let refused = post(&admin, &path, named(&"é".repeat(201))).await;
    refused.assert_refused("a long name", 400, "INVALID_REQUEST");
    assert!(refused.body.to_string().contains("idp.idp.name"), "{}", refused.body);
    let nameless = post(&admin, &format!("{IDPS}/oidc"), json!({ "config": config("oidc") })).await;
    nameless.assert_refused("it has no name", 400, "INVALID_REQUEST");
    let both =
        json!({ "idp": { "name": "x" }, "config": { "metadataXml": METADATA, "metadataUrl": "https://a.example" } });
    post(&admin, &format!("{IDPS}/saml"), both).await.assert_refused("both", 400, "INVALID_REQUEST");
}
