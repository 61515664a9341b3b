//! Settings: set, inherited and reset from the system down to an organization, and who may do and see that.

mod asset;
mod model;
mod property;

use std::sync::Arc;

use reqwest::Method;
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, TARGETS, after, done, post, send},
    cluster::Cluster,
    eventually,
    instance::Instance,
    platform::Platform,
    tenant::Tenant,
};

const FEATURES: &str = "/settings/v3alpha/features";
const LANGUAGES: &str = "/settings/v3alpha/languages";
const ORGANIZATIONS: &str = "/resources/v3alpha/organizations";
const USERS: &str = "/resources/v3alpha/users";
const MEMBERSHIPS: &str = "/resources/v3alpha/memberships";
const EVENTS: &str = "/resources/v3alpha/events/_search";

async fn set(client: &Client, path: &str, body: Value) -> Answer {
    send(client.request(Method::PATCH, path).json(&body)).await
}

/// Sets settings, which must succeed.
async fn was_set(client: &Client, path: &str, body: Value) -> Answer {
    let answer = set(client, path, body).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    answer
}

async fn resolve(client: &Client, path: &str) -> Answer {
    send(client.request(Method::GET, path)).await
}

/// Returns the settings, which must be visible.
async fn resolved(client: &Client, path: &str) -> Value {
    let answer = resolve(client, path).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    answer.body["settings"].clone()
}

fn of_system() -> Value {
    json!({ "type": "OWNER_TYPE_SYSTEM" })
}

fn of_instance(instance: &Instance) -> Value {
    json!({ "type": "OWNER_TYPE_INSTANCE", "id": instance.bootstrap.instance_id })
}

fn languages(keys: &[&str]) -> Vec<Value> {
    keys.iter().map(|key| json!({ "key": key })).collect()
}

fn supported() -> Vec<Value> {
    languages(&["en", "de", "fr", "es", "it", "pt", "nl", "pl", "ja", "zh", "ar"])
}

/// Creates a user of an organization with these roles there.
async fn member(instance: &Instance, admin: &Client, organization: &str, name: &str, roles: &[&str]) -> Client {
    let user = json!({ "username": name, "service": {} });
    let id = done(admin, &format!("{USERS}?ctx.orgId={organization}"), user).await.id();
    if !roles.is_empty() {
        let membership = json!({ "userId": id, "roles": roles });
        done(admin, &format!("{MEMBERSHIPS}?ctx.orgId={organization}"), membership).await;
    }
    instance.log_in(admin, &id, name).await
}

#[tokio::test]
async fn a_flag_is_turned_off_and_on_by_the_owner_of_an_instance() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let before = resolve(&admin, FEATURES).await;
    let on = json!({ "value": true });
    let all = json!({ "multitenancyResourcesApi": on, "multitenancySettings": on, "tokenExchange": on });
    assert_eq!(before.body["settings"], all, "those of the instance that it was made from");
    assert_eq!(before.body["details"]["owner"], of_instance(&tenant));
    assert!(!before.headers.contains_key("etag"), "what is inherited changes without a tag");
    assert_eq!(resolve(&admin, LANGUAGES).await.status, 200);

    let off = was_set(&admin, FEATURES, json!({ "multitenancySettings": { "set": false } })).await;
    assert!(off.sequence() > before.sequence(), "{}", off.body);
    assert_eq!(off.body["details"]["owner"], of_instance(&tenant));
    for refused in [resolve(&admin, LANGUAGES).await, set(&admin, LANGUAGES, json!({})).await] {
        refused.assert_refused("it is off", 400, "FEATURE_DISABLED");
        assert_eq!(refused.body["details"][0]["metadata"]["feature"], "multitenancy_settings");
    }
    let settings = after(&off, admin.request(Method::GET, FEATURES)).await.body["settings"].clone();
    assert_eq!(settings, json!({ "multitenancyResourcesApi": on, "multitenancySettings": {}, "tokenExchange": on }));

    let again = was_set(&admin, FEATURES, json!({ "multitenancySettings": { "set": false } })).await;
    assert_eq!(again.body, off.body, "nothing has changed");
    let on = was_set(&admin, FEATURES, json!({ "multitenancySettings": { "set": true } })).await;
    assert_eq!(resolve(&admin, LANGUAGES).await.status, 200, "at once on the node that wrote it");

    let old = admin.request(Method::PATCH, FEATURES).header("if-match", off.sequence());
    let refused = send(old.json(&json!({ "tokenExchange": { "set": false } }))).await;
    refused.assert_refused("it was changed since", 412, "SEQUENCE_MISMATCH");
    let new = admin.request(Method::PATCH, FEATURES).header("if-match", on.sequence());
    let set = send(new.json(&json!({ "tokenExchange": { "set": false } }))).await;
    assert_eq!(set.status, 200, "{}", set.body);

    for flag in ["multitenancyResourcesApi", "multitenancySettings"] {
        was_set(&admin, FEATURES, json!({ flag: { "set": false } })).await;
    }
    let target = json!({ "name": "hook", "restWebhook": { "url": "https://example.com" } });
    post(&admin, TARGETS, target).await.assert_refused("a write", 400, "FEATURE_DISABLED");
    let search = post(&admin, &format!("{TARGETS}/_search"), json!([])).await;
    search.assert_refused("a read", 400, "FEATURE_DISABLED");
    let settings = resolved(&admin, FEATURES).await;
    assert_eq!(settings["multitenancyResourcesApi"], json!({}), "flags are behind none: {settings}");
}

#[tokio::test]
async fn an_instance_overrides_the_system_and_resets_to_it() {
    let platform = Platform::start().await;
    platform.ready().await;
    let (admin, operator) = (platform.client().await, platform.operator().await);
    let system = &format!("{FEATURES}?ctx.system=true");
    let nothing = resolve(&operator, system).await;
    assert_eq!(nothing.body["details"], json!({ "owner": of_system() }), "nothing was ever set there");
    assert_eq!(nothing.body["settings"]["tokenExchange"], json!({}), "off, and inherited from nobody");
    let unchanged = was_set(&operator, system, json!({ "tokenExchange": { "reset": true } })).await;
    assert_eq!(unchanged.body["details"], nothing.body["details"], "nothing has changed");

    let exchange = async || resolved(&admin, FEATURES).await["tokenExchange"].clone();
    assert_eq!(exchange().await, json!({ "value": true }), "its own");
    was_set(&admin, FEATURES, json!({ "tokenExchange": { "reset": true } })).await;
    assert_eq!(exchange().await, json!({ "owner": of_system() }), "off, as it is everywhere");
    let on = json!({ "tokenExchange": { "set": true } });
    let first = operator.request(Method::PATCH, system).header("if-match", "\"0\"");
    let first = send(first.json(&on)).await;
    assert_eq!(first.status, 200, "what was never set is at sequence 0: {}", first.body);
    assert_eq!(first.body["details"]["owner"], of_system());
    assert_eq!(exchange().await, json!({ "value": true, "owner": of_system() }));
    was_set(&admin, FEATURES, json!({ "tokenExchange": { "set": false } })).await;
    assert_eq!(exchange().await, json!({}));

    let denied = set(&admin, system, json!({ "tokenExchange": { "set": false } })).await;
    denied.assert_refused("the owner of an instance", 403, "PERMISSION_DENIED");
    assert_eq!(denied.body["details"][0]["metadata"]["permission"], "system.feature.write");
    let denied = resolve(&admin, system).await;
    denied.assert_refused("the owner of an instance", 403, "PERMISSION_DENIED");
    assert_eq!(denied.body["details"][0]["metadata"]["permission"], "system.feature.read");

    // Without a flag of its own, an instance has that of the system.
    was_set(&admin, FEATURES, json!({ "multitenancySettings": { "reset": true } })).await;
    resolve(&admin, LANGUAGES).await.assert_refused("off everywhere", 400, "FEATURE_DISABLED");
    was_set(&operator, system, json!({ "multitenancySettings": { "set": true } })).await;
    assert_eq!(resolve(&admin, LANGUAGES).await.status, 200, "on everywhere");
}

#[tokio::test]
async fn a_flag_is_turned_on_all_nodes() {
    let cluster = Cluster::start().await;
    let command = cluster.node("command", "command", &[], &[]);
    let _projector = cluster.node("projector", "projector", &[], &[]);
    let query = cluster.node("query", "query", &[], &[]);
    cluster.writes(&command).await;
    let (admin, asking) = (cluster.client(&command), cluster.client(&query));
    cluster.searches(&asking).await;

    for (is_on, status, reason) in [(false, 400, "FEATURE_DISABLED"), (true, 200, ""), (false, 400, "FEATURE_DISABLED")]
    {
        let set = was_set(&admin, FEATURES, json!({ "multitenancySettings": { "set": is_on } })).await;
        let seen = after(&set, asking.request(Method::GET, LANGUAGES)).await;
        assert_eq!((seen.status.as_u16(), seen.reason()), (status, reason), "with a token, at once: {}", seen.body);
        let unsaid = resolve(&asking, LANGUAGES).await;
        assert_eq!(unsaid.status, status, "and without one when it is known: {}", unsaid.body);
    }
    let on = was_set(&admin, FEATURES, json!({ "multitenancySettings": { "set": true } })).await;
    eventually("without a token too", async || (resolve(&asking, LANGUAGES).await.status == 200).then_some(())).await;
    let settings = after(&on, asking.request(Method::GET, FEATURES)).await;
    assert_eq!(settings.sequence(), on.sequence(), "{}", settings.body);
}

#[tokio::test]
async fn languages_are_inherited_overridden_and_reset_in_part() {
    let tenant = Tenant::start().await;
    let (admin, operator) = (tenant.client().await, tenant.operator().await);
    let acme = done(&admin, ORGANIZATIONS, json!({ "name": "Acme" })).await.id();
    let (instance, acme) = (of_instance(&tenant), format!("{LANGUAGES}?ctx.orgId={acme}"));
    let everywhere = json!({
        "defaultLanguage": { "value": "en", "owner": of_system() },
        "restrictedLanguages": { "value": supported(), "owner": of_system() },
        "supportedLanguages": { "value": supported(), "owner": of_system() },
    });
    let nothing = resolve(&admin, &acme).await;
    assert_eq!(nothing.body["settings"], everywhere);
    assert_eq!(nothing.body["details"], json!({ "owner": of_system() }));
    assert_eq!(resolved(&admin, LANGUAGES).await, everywhere);
    let system = resolved(&operator, &format!("{LANGUAGES}?ctx.system=true")).await;
    assert_eq!(system["supportedLanguages"], json!({ "value": supported() }), "the system inherits nothing");

    let restricted = json!({ "languages": languages(&["de", "fr"]) });
    let both = json!({ "defaultLanguage": { "key": "fr" }, "restrictedLanguages": restricted });
    let set = was_set(&admin, LANGUAGES, both).await;
    assert_eq!(set.body["details"]["owner"], instance);
    let own = resolved(&admin, LANGUAGES).await;
    assert_eq!(own["defaultLanguage"], json!({ "value": "fr" }));
    assert_eq!(own["restrictedLanguages"], json!({ "value": languages(&["de", "fr"]) }));
    assert_eq!(own["supportedLanguages"], everywhere["supportedLanguages"]);
    let below = resolved(&admin, &acme).await;
    assert_eq!(below["defaultLanguage"], json!({ "value": "fr", "owner": instance }));
    assert_eq!(below["restrictedLanguages"], json!({ "value": languages(&["de", "fr"]), "owner": instance }));

    // An organization overrides one of two, and resets it.
    was_set(&admin, &acme, json!({ "defaultLanguage": { "key": "de" } })).await;
    let below = resolved(&admin, &acme).await;
    assert_eq!(below["defaultLanguage"], json!({ "value": "de" }));
    assert_eq!(below["restrictedLanguages"]["owner"], instance);

    // What the instance takes away later is passed over, and comes back with it.
    let others = json!({ "restrictedLanguages": { "languages": languages(&["fr", "es"]) } });
    was_set(&admin, LANGUAGES, others).await;
    assert_eq!(resolved(&admin, &acme).await["defaultLanguage"], json!({ "value": "fr", "owner": instance }));
    was_set(&admin, LANGUAGES, json!({ "restrictedLanguages": {} })).await;
    assert_eq!(resolved(&admin, &acme).await["defaultLanguage"], json!({ "value": "de" }));
    let reset = was_set(&admin, &acme, json!({ "defaultLanguage": {} })).await;
    let below = after(&reset, admin.request(Method::GET, &acme)).await;
    assert_eq!(below.body["settings"]["defaultLanguage"], json!({ "value": "fr", "owner": instance }));
    assert_eq!(below.sequence(), reset.sequence(), "what was reset keeps its sequence");
}

#[tokio::test]
async fn bad_languages_are_refused() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    was_set(&admin, LANGUAGES, json!({ "restrictedLanguages": { "languages": languages(&["en", "de"]) } })).await;
    let field = |answer: &Answer| {
        let bad = answer.body["details"].as_array().expect("there are details");
        let field = bad.iter().find_map(|detail| detail["fieldViolations"][0]["field"].as_str());
        field.unwrap_or_default().to_owned()
    };
    let many: Vec<Value> = (0..1001).map(|_| json!({ "key": "en" })).collect();
    let (default, list) = ("settings.defaultLanguage", "settings.restrictedLanguages.languages");
    for (case, body, place) in [
        ("unknown", json!({ "defaultLanguage": { "key": "xx" } }), format!("{default}.key")),
        ("no key", json!({ "defaultLanguage": { "key": "EN" } }), format!("{default}.key")),
        ("not among the restricted", json!({ "defaultLanguage": { "key": "fr" } }), default.to_owned()),
        (
            "without the default",
            json!({ "restrictedLanguages": { "languages": languages(&["de"]) } }),
            default.to_owned(),
        ),
        (
            "unknown in a list",
            json!({ "restrictedLanguages": { "languages": languages(&["en", "xx"]) } }),
            list.to_owned(),
        ),
        ("twice", json!({ "restrictedLanguages": { "languages": languages(&["en", "en"]) } }), list.to_owned()),
        ("an empty key", json!({ "restrictedLanguages": { "languages": [{}] } }), format!("{list}[0].key")),
        ("too many", json!({ "restrictedLanguages": { "languages": many } }), list.to_owned()),
    ] {
        let refused = set(&admin, LANGUAGES, body).await;
        refused.assert_refused(case, 400, "INVALID_REQUEST");
        assert_eq!(field(&refused), place, "{case}: {}", refused.body);
    }
    for (case, body) in [
        ("both", json!({ "tokenExchange": { "set": true, "reset": true } })),
        ("reset with false", json!({ "tokenExchange": { "reset": false } })),
        ("neither", json!({ "tokenExchange": {} })),
        ("no bool", json!({ "tokenExchange": { "set": 1 } })),
    ] {
        set(&admin, FEATURES, body).await.assert_refused(case, 400, "INVALID_REQUEST");
    }
    let organization = format!("{FEATURES}?ctx.orgId={}", tenant.bootstrap.organization_id);
    for refused in [set(&admin, &organization, json!({})).await, resolve(&admin, &organization).await] {
        refused.assert_refused("an organization has no flags", 400, "INVALID_REQUEST");
        let message = refused.body["message"].as_str().unwrap_or_default();
        assert!(message.contains("must be the system or an instance"), "{message}");
    }
}

#[tokio::test]
async fn settings_are_for_who_belongs_to_the_context() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let organization = async |name: &str| done(&admin, ORGANIZATIONS, json!({ "name": name })).await.id();
    let (one, other) = (organization("One").await, organization("Other").await);
    let nobody = member(&tenant, &admin, &one, "nobody-of-one", &[]).await;
    let manager = member(&tenant, &admin, &one, "manager-of-one", &["ORG_SETTINGS_MANAGER"]).await;
    let (one, other) = (format!("{LANGUAGES}?ctx.orgId={one}"), format!("{LANGUAGES}?ctx.orgId={other}"));
    let system = format!("{LANGUAGES}?ctx.system=true");
    let german = || json!({ "defaultLanguage": { "key": "de" } });

    for client in [&nobody, &manager] {
        for own in [&one, LANGUAGES] {
            assert_eq!(resolve(client, own).await.status, 200, "{own}");
        }
        resolve(client, &other).await.assert_refused("another organization", 404, "RESOURCE_NOT_FOUND");
        resolve(client, &system).await.assert_refused("the system", 403, "PERMISSION_DENIED");
        let refused = set(client, &other, german()).await;
        assert!([403, 404].contains(&refused.status.as_u16()), "another organization: {}", refused.body);
        set(client, &system, german()).await.assert_refused("the system", 403, "PERMISSION_DENIED");
        set(client, LANGUAGES, german()).await.assert_refused("the instance", 403, "PERMISSION_DENIED");
        resolve(client, FEATURES).await.assert_refused("flags", 403, "PERMISSION_DENIED");
    }
    set(&nobody, &one, german()).await.assert_refused("without a role", 403, "PERMISSION_DENIED");
    was_set(&admin, LANGUAGES, json!({ "defaultLanguage": { "key": "it" } })).await;
    set(&manager, LANGUAGES, german()).await.assert_refused("what is set already", 403, "PERMISSION_DENIED");
    was_set(&manager, &one, german()).await;
    assert_eq!(resolved(&nobody, &one).await["defaultLanguage"], json!({ "value": "de" }));
    let header =
        nobody.request(Method::GET, LANGUAGES).header("x-platform-orgid", one.rsplit('=').next().unwrap_or(""));
    assert_eq!(send(header).await.body["settings"]["defaultLanguage"], json!({ "value": "de" }));

    let elsewhere = tenant.shared.instance().await;
    let foreign = elsewhere.client().await;
    for path in [&one, &format!("{LANGUAGES}?ctx.instanceId={}", tenant.bootstrap.instance_id)] {
        resolve(&foreign, path).await.assert_refused("of another instance", 404, "RESOURCE_NOT_FOUND");
        set(&foreign, path, german()).await.assert_refused("of another instance", 404, "RESOURCE_NOT_FOUND");
    }
}

#[tokio::test]
async fn what_was_set_goes_with_its_organization() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let acme = done(&admin, ORGANIZATIONS, json!({ "name": "Acme" })).await.id();
    let path = format!("{LANGUAGES}?ctx.orgId={acme}");
    was_set(&admin, &path, json!({ "defaultLanguage": { "key": "de" } })).await;
    let gone = send(admin.request(Method::DELETE, &format!("{ORGANIZATIONS}/{acme}"))).await;
    assert_eq!(gone.status, 200, "{}", gone.body);
    let refused = resolve(&admin, &path).await;
    refused.assert_refused("it was removed", 404, "RESOURCE_NOT_FOUND");
    let refused = set(&admin, &path, json!({ "defaultLanguage": { "key": "fr" } })).await;
    refused.assert_refused("it was removed", 404, "RESOURCE_NOT_FOUND");
    let wanted = json!([{ "type": "language_settings.removed" }, { "aggregateId": acme }]);
    eventually("its settings are removed", async || {
        let found = post(&admin, EVENTS, wanted.clone()).await;
        (found.body["details"]["totalResult"] == "1").then_some(())
    })
    .await;
}

#[tokio::test]
async fn of_two_who_change_the_same_one_is_told() {
    let tenant = Tenant::start().await;
    let admin = Arc::new(tenant.client().await);
    let keys = ["de", "fr", "es", "it", "pt", "nl", "pl", "ja", "zh", "ar"];
    let tries = keys.map(|key| {
        let admin = admin.clone();
        tokio::spawn(async move {
            let request = admin.request(Method::PATCH, LANGUAGES).header("if-match", "\"0\"");
            send(request.json(&json!({ "defaultLanguage": { "key": key } }))).await
        })
    });
    let mut done = 0;
    for one in tries {
        let answer = one.await.expect("it is answered");
        match answer.status.as_u16() {
            200 => done += 1,
            _ => answer.assert_refused("another was first", 412, "SEQUENCE_MISMATCH"),
        }
    }
    assert_eq!(done, 1);
}
