//! Every property of the settings services with tables: set, inherited, reset, refused.

use reqwest::Method;
use serde_json::{Value, json};
use tests::{
    client::{after, done},
    settings::{Property, Service, inside, of, property_read, services, to_set},
    tenant::Tenant,
};

use super::{ORGANIZATIONS, of_instance, of_system, resolve, resolved, set, was_set};

#[tokio::test]
async fn every_property_is_set_inherited_and_reset() {
    let tenant = Tenant::start().await;
    let (admin, operator) = (tenant.client().await, tenant.operator().await);
    let acme = done(&admin, ORGANIZATIONS, json!({ "name": "Acme" })).await.id();
    for Service { name, properties } in services() {
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
        let names: Vec<_> = properties.iter().map(|property| property.name.to_owned()).collect();
        known.sort_by_key(|name| names.iter().position(|known| known == name));
        assert_eq!(known, names, "{name}: the table has all of them");

        for it @ Property { name: property, default, .. } in &properties {
            assert_eq!(of(&system, property), &property_read(default, None), "{name}.{property}");
            assert_eq!(of(&before, property), &property_read(default, Some(of_system())), "{name}.{property}");
            // What can only be what it is can be set to that.
            let value = it.settable();
            was_set(&admin, &path, inside(property, &to_set(value))).await;
        }
        let own = resolved(&admin, &path).await;
        for it @ Property { name: property, default, .. } in &properties {
            let value = it.settable();
            assert_eq!(of(&own, property), &property_read(value, None), "{name}.{property}");
            if goes_below {
                let inherited = property_read(value, Some(of_instance(&tenant)));
                assert_eq!(of(&resolved(&admin, &below).await, property), &inherited, "{name}.{property}");
                was_set(&admin, &below, inside(property, &to_set(default))).await;
                assert_eq!(
                    of(&resolved(&admin, &below).await, property),
                    &property_read(default, None),
                    "{name}.{property}"
                );
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
    for Service { name, properties } in services() {
        let path = format!("/settings/v3alpha/{name}");
        let before = resolve(&admin, &path).await.body;
        for Property { name: property, default, other, bad } in &properties {
            let case = format!("{name}.{property}");
            let mut both = to_set(other.as_ref().unwrap_or(default));
            both["reset"] = json!(true);
            for wrong in [json!({ "set": null }), json!({ "reset": false }), json!({}), both] {
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
async fn the_longest_text_and_a_colour_are_set_and_a_longer_one_and_no_colour_refused() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let link = |length: usize| format!("https://example.com/{}", "a".repeat(length - 20));
    let mail = |length: usize| format!("{}@example.com", "a".repeat(length - 12));
    let colors = ["#12345", "#1234567", "#gggggg", "123456", "url(x)", "#12345\n", ""].map(str::to_owned);
    for (name, property, good, bad) in [
        ("branding", "lightTheme.primaryColor", "#09afAF".to_owned(), &colors[..]),
        ("branding", "darkTheme.fontColor", "#000000".to_owned(), &colors[..]),
        ("help", "tosLink", link(2048), &[link(2049)]),
        ("login", "defaultRedirectUri", link(2048), &[link(2049)]),
        ("help", "supportEmail", mail(200), &[mail(201)]),
        ("help", "customLinkText", "é".repeat(64), &["é".repeat(65)]),
    ] {
        let path = format!("/settings/v3alpha/{name}");
        was_set(&admin, &path, inside(property, &json!({ "set": good }))).await;
        for bad in bad {
            let refused = set(&admin, &path, inside(property, &json!({ "set": bad }))).await;
            refused.assert_refused(bad, 400, "INVALID_REQUEST");
            assert!(refused.body.to_string().contains(&format!("settings.{property}.set")), "{bad}: {}", refused.body);
        }
        assert_eq!(of(&resolved(&admin, &path).await, property), &json!({ "value": good }), "{name}.{property}");
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
