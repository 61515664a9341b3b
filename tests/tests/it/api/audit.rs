//! The audit log: who did what, when, in which context; and a lost secret that an operator replaces.

use reqwest::Method;
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, TARGETS, send, target},
    eventually,
    instance::Instance,
    platform::Platform,
    process::run,
    tenant::Tenant,
};

const EVENTS: &str = "/resources/v3alpha/events/_search";

async fn search(client: &Client, after: &Answer, query: &str, filters: Value) -> Answer {
    let request = client.request(Method::POST, &format!("{EVENTS}{query}")).json(&filters);
    let found = send(request.header("consistency-token", after.consistency()).header("consistency-wait", "10s")).await;
    assert_eq!(found.status, 200, "{}", found.body);
    found
}

#[tokio::test]
async fn the_audit_log_says_who_did_what_and_forgets_when_it_shall() {
    let tenant = Tenant::start().await;
    let (admin, operator) = (tenant.client().await, tenant.operator().await);
    let made = send(admin.request(Method::POST, TARGETS).json(&target("audited"))).await;
    let path = format!("{TARGETS}/{}", made.id());
    let patched = send(admin.request(Method::PATCH, &path).json(&json!({ "name": "renamed" }))).await;
    let found = search(&admin, &patched, "", json!([{ "aggregateId": made.id() }])).await;
    assert_eq!(found.body["details"]["totalResult"], "2", "{}", found.body);
    let newest = &found.body["result"][0];
    assert_eq!(newest["type"], "target.changed");
    assert_eq!(newest["actorId"], tenant.bootstrap.service_user.user_id.as_str());
    assert_eq!(newest["instanceId"], tenant.bootstrap.instance_id.as_str());
    assert_eq!(newest["sequence"], patched.body["details"]["sequence"]);
    let payload = newest["payload"].as_str().expect("it is text");
    assert!(payload.contains("renamed") && !payload.contains("sealed"), "{payload}");
    let oldest = search(&admin, &patched, "?query.asc=true&query.limit=1", json!([{ "aggregateId": made.id() }])).await;
    assert_eq!(oldest.body["result"][0]["type"], "target.added");

    // What belongs to the system is for operators.
    let of_system = json!([{ "type": "system.added" }]);
    let own = search(&admin, &patched, "", of_system.clone()).await;
    assert_eq!(own.body["details"]["totalResult"], "0", "{}", own.body);
    let all = search(&operator, &patched, "?ctx.system=true", of_system).await;
    assert_eq!(all.body["details"]["totalResult"], "1", "{}", all.body);

    let holder = json!({ "username": "holder", "service": { "name": "Holder" } });
    let holder = send(admin.request(Method::POST, "/resources/v3alpha/users").json(&holder)).await.id();
    let given = json!({ "userId": holder, "roles": ["SYSTEM_OWNER_VIEWER"] });
    let given = operator.request(Method::POST, "/resources/v3alpha/memberships?ctx.system=true").json(&given);
    let given = send(given).await;
    let held = json!([{ "aggregateId": given.id() }]);
    let own = search(&admin, &given, "", held.clone()).await;
    assert_eq!(own.body["details"]["totalResult"], "0", "what is held in the system: {}", own.body);
    let all = search(&operator, &given, "?ctx.system=true", held).await;
    assert_eq!(all.body["details"]["totalResult"], "1", "{}", all.body);

    let instance = format!("/resources/v3alpha/instances/{}/_limit", tenant.bootstrap.instance_id);
    let limited = operator.request(Method::POST, &instance).json(&json!({ "auditLogRetention": "1s" }));
    let limited = send(limited).await;
    assert_eq!(limited.status, 200, "{}", limited.body);
    eventually("what is older is shown no more", async || {
        let found = search(&admin, &limited, "", json!([{ "aggregateId": made.id() }])).await;
        (found.body["details"]["totalResult"] == "0").then_some(())
    })
    .await;
    let kept = search(&operator, &limited, "?ctx.system=true", json!([{ "aggregateId": made.id() }])).await;
    assert_eq!(kept.body["details"]["totalResult"], "2", "nothing is lost: {}", kept.body);
}

#[tokio::test]
async fn a_lost_secret_is_replaced_by_whoever_has_the_data_directory() {
    let platform = Platform::start().await;
    platform.ready().await;
    let (data, issuer) = (platform.data(), platform.bootstrap.issuer.clone());
    let file = data.join("bootstrap.json");
    let folder = data.display().to_string();
    let before: Value = serde_json::from_slice(&std::fs::read(&file).expect("it is there")).expect("it is JSON");
    let (is_fine, _, said) = run(&["bootstrap", "renew", "--data-dir", &folder]);
    assert!(is_fine, "{said}");
    let renewed: Value = serde_json::from_slice(&std::fs::read(&file).expect("it is there")).expect("it is JSON");
    assert_ne!(renewed["serviceUser"]["clientSecret"], before["serviceUser"]["clientSecret"]);
    for member in ["issuer", "instanceId", "organizationId", "projectId", "serviceUsers"] {
        assert_eq!(renewed[member], before[member], "{member}");
    }
    assert_eq!(renewed["serviceUser"]["userId"], before["serviceUser"]["userId"]);

    std::fs::remove_file(&file).expect("it is there");
    let (is_fine, _, said) = run(&["bootstrap", "renew", "--data-dir", &folder]);
    assert!(!is_fine && said.contains("--issuer"), "{said}");
    let (is_fine, _, said) = run(&["bootstrap", "renew", "--data-dir", &folder, "--issuer", &issuer]);
    assert!(is_fine, "{said}");
    let again: Value = serde_json::from_slice(&std::fs::read(&file).expect("it is there")).expect("it is JSON");
    assert_eq!(again["projectId"], before["projectId"]);
    let user = serde_json::from_value(again["serviceUser"].clone()).expect("it is a service user");
    Client::log_in(&issuer, &user).await.create_target("by the new secret").await.expect("it may");
}

fn events(instance: &Instance, arguments: &[&str]) -> (bool, Vec<Value>, String) {
    let data = instance.data().display().to_string();
    let (is_fine, told, said) = run(&[&["events"], arguments, &["--data-dir", &data]].concat());
    (is_fine, told.lines().filter_map(|line| serde_json::from_str(line).ok()).collect(), format!("{told}{said}"))
}

#[tokio::test]
async fn operators_list_and_export_events() {
    let platform = Platform::start().await;
    let admin = platform.client().await;
    let made = admin.create_target("exported").await.expect("it is created");
    let end = platform.log_end().await.0;
    let sequences = |events: &[Value]| -> Vec<u64> {
        events.iter().map(|event| event["sequence"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0)).collect()
    };
    let (is_fine, all, said) = events(&platform, &["export"]);
    assert!(is_fine, "{said}");
    assert_eq!(sequences(&all), (1..=end).collect::<Vec<_>>(), "{said}");
    assert!(said.contains(&format!("go on with --after {end}")), "{said}");
    let after = (end - 1).to_string();
    let (_, new, said) = events(&platform, &["export", "--after", &after]);
    assert_eq!(sequences(&new), [end], "{said}");

    let user = platform.bootstrap.service_user.user_id.as_str();
    let asked = ["list", "--json", "--aggregate", &made, "--actor", user, "--since", "1h", "--type", "target.added"];
    let (_, own, said) = events(&platform, &asked);
    assert_eq!(sequences(&own), [end], "{said}");
    let (_, none, said) = events(&platform, &["list", "--json", "--until", "1h"]);
    assert!(none.is_empty() && said.contains("0 of 0 events"), "{said}");
    let (_, _, said) = events(&platform, &["list", "--limit", "2"]);
    assert!(said.contains(&format!("target/{made} v1 target.added by {user}")), "{said}");
    for (wrong, says) in [(["list", "--since", "yesterday"], "how long ago"), (["list", "--limit", "0"], "1..=1000")] {
        let (is_fine, _, said) = events(&platform, &wrong);
        assert!(!is_fine && said.contains(says), "{said}");
    }
}
