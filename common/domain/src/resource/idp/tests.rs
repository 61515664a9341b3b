use serde_json::json;

use super::*;
use crate::{
    aggregate::Aggregate,
    standard::{Command, Event, Standard},
    testing::{assert_columns, assert_patches, assert_switches, given},
};

fn of(name: &str, members: Value) -> Idp {
    let Value::Object(members) = members else { panic!("members have names") };
    let config = Type::of(name).unwrap().config(members).unwrap();
    Idp { name: "a".into(), options: Options::default(), is_active: true, config, secret: Some(Sealed::new("s")) }
}

fn codehost_b() -> Idp {
    of("codehost_b", json!({ "client_id": "id", "scopes": ["x"] }))
}

fn members(value: &Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

#[test]
fn every_type_has_a_configuration_that_names_it() {
    for kind in &TYPES {
        let config = kind.config(Map::new()).unwrap();
        assert_eq!(config.r#type(), kind);
        assert_eq!(serde_json::to_value(&config).unwrap()["type"], kind.name);
        assert!(kind.secret.is_none_or(|secret| !config.members().contains_key(secret)), "no secret is among them");
    }
}

#[test]
fn each_member_has_its_column_and_its_patch() {
    assert_columns(&codehost_b(), &json!({ "name": "a", "is_active": true }));
    let patch = IdpPatch::default;
    let options = Options { is_auto_update: true, auto_linking: Some(AutoLinking::Email), ..Options::default() };
    let changed = json!({ "type": "codehost_b", "client_id": "other", "scopes": ["x"] });
    let patches = vec![
        (IdpPatch { name: Some("b".into()), ..patch() }, json!({ "name": "b" })),
        (IdpPatch { options: Some(options.clone()), ..patch() }, json!({ "options": options })),
        (IdpPatch { config: members(&json!({ "client_id": "other" })), ..patch() }, json!({ "config": changed })),
        (IdpPatch { secret: Some(Sealed::new("t")), ..patch() }, json!({ "sealed": "t" })),
    ];
    assert_patches(&codehost_b(), patches, &["is_active"]);
    assert_switches(&codehost_b());
}

#[test]
fn a_patch_is_for_its_type_and_says_whether_it_changes_anything() {
    let patch = |name| IdpPatch { of: Type::of(name), ..IdpPatch::default() };
    assert!(codehost_b().is_for(&patch("codehost_b")) && !codehost_b().is_for(&patch("codehost_a")));
    assert!(codehost_b().is_for(&IdpPatch::default()) && !Idp::changes(&patch("codehost_b")));
    for patch in [
        IdpPatch { name: Some("b".into()), ..IdpPatch::default() },
        IdpPatch { options: Some(Options::default()), ..IdpPatch::default() },
        IdpPatch { config: members(&json!({ "client_id": "other" })), ..IdpPatch::default() },
        IdpPatch { secret: Some(Sealed::new("t")), ..IdpPatch::default() },
    ] {
        assert!(Idp::changes(&patch), "{patch:?}");
    }
}

#[test]
fn it_is_on_in_its_own_context_unless_it_was_switched_off() {
    assert!(codehost_b().is_active());
    assert!(!Idp { is_active: false, ..codehost_b() }.is_active());
}

#[test]
fn of_members_that_exclude_each_other_the_last_one_stays() {
    let before = of("saml", json!({ "metadata_url": "https://a.example/" })).config;
    let after = before.clone().patched(members(&json!({ "metadata_xml": "<EntityDescriptor/>" })));
    let Config::Saml(saml) = &after else { panic!("{after:?}") };
    assert_eq!((saml.metadata_xml.as_str(), saml.metadata_url.as_str()), ("<EntityDescriptor/>", ""));
    assert_eq!(after.patched(members(&json!({ "metadata_url": "https://a.example/" }))), before);
}

#[test]
fn members_of_another_type_change_nothing() {
    let before = codehost_b().config;
    assert_eq!(before.clone().patched(members(&json!({ "client_id": 1 }))), before);
}

#[test]
fn what_breaks_a_rule_is_refused() {
    let ldap = |servers: &[&str], start_tls: bool| {
        let lists =
            json!({ "servers": servers, "start_tls": start_tls, "user_object_classes": ["a"], "user_filters": ["b"] });
        of("ldap", lists)
    };
    let saml = |xml: &str| of("saml", json!({ "metadata_xml": xml }));
    let nameless = Idp { name: String::new(), ..codehost_b() };
    let long = format!("<EntityDescriptor>{}</EntityDescriptor>", "x".repeat(200_000));
    for (idp, field) in [
        (nameless, "idp.idp.name"),
        (ldap(&[], false), "idp.config.servers"),
        (ldap(&["http://a.example"], false), "idp.config.servers"),
        (ldap(&["ldap://a.example", "LDAP://A.example:389/"], false), "idp.config.servers"),
        (ldap(&["ldaps://a.example"], true), "idp.config.start_tls"),
        (
            of("ldap", json!({ "servers": ["ldap://a.example"], "user_filters": ["b"] })),
            "idp.config.user_object_classes",
        ),
        (
            of("ldap", json!({ "servers": ["ldap://a.example"], "user_object_classes": ["b"] })),
            "idp.config.user_filters",
        ),
        (saml("no metadata"), "idp.config.metadata_xml"),
        (saml("<other/>"), "idp.config.metadata_xml"),
        (saml("<!DOCTYPE a><EntityDescriptor/>"), "idp.config.metadata_xml"),
        (saml(&long), "idp.config.metadata_xml"),
    ] {
        let Err(Rejection::Invalid(violations)) = Standard::<Idp>::decide(&None, Command::Create(idp.clone())) else {
            panic!("{idp:?}")
        };
        assert_eq!(violations[0].field, field, "{idp:?}");
    }
    let longest = "<EntityDescriptor></EntityDescriptor>".len();
    let longest = format!("<EntityDescriptor>{}</EntityDescriptor>", "x".repeat(200_000 - longest));
    for idp in [
        ldap(&["ldap://a.example", "ldaps://a.example"], false),
        ldap(&["ldap://a.example"], true),
        saml("<md:EntityDescriptor/>"),
        saml(&longest),
    ] {
        given::<Standard<Idp>>([]).when(Command::Create(idp.clone())).then([Event::Added(idp.into())]);
    }
}
