//! Providers of the system, which every instance inherits.

use reqwest::Method;
use serde_json::json;
use tests::{
    client::{after, done, send},
    idp::IDPS,
    platform::Platform,
    tenant::instance_beside,
};

use super::{
    CODEHOST_B, codehost_b, get, names, organization, patch, patched, policies_are_removed, read_provider, state,
    total_and_names,
};

/// More policies of one instance than one step of the sweep removes.
const PAGES_OF_POLICIES: usize = 55;

#[tokio::test]
async fn what_is_of_the_system_is_there_in_every_instance() {
    let platform = Platform::start().await;
    platform.ready().await;
    let (admin, operator) = (platform.client().await, platform.operator().await);
    let one = organization(&admin, "One").await;
    let made = done(&operator, &format!("{CODEHOST_B}?ctx.system=true"), codehost_b("everywhere")).await;
    let (id, system) = (made.id(), json!({ "type": "OWNER_TYPE_SYSTEM" }));
    assert_eq!(made.body["details"]["resourceOwner"], system);
    let here = done(&admin, CODEHOST_B, codehost_b("here")).await.id();
    let (path, in_one) = (format!("{CODEHOST_B}/{id}"), format!("{CODEHOST_B}/{id}?ctx.orgId={one}"));
    let in_system = format!("{path}?ctx.system=true");
    let instance = json!({ "type": "OWNER_TYPE_INSTANCE", "id": platform.bootstrap.instance_id });

    let seen = read_provider(&admin, &path).await;
    assert_eq!(
        seen["parent"],
        json!({ "parent": system, "state": state(true) }),
        "from the instance, as nothing is named"
    );
    let policy = |policy: &str| json!({ "idp": { "statePolicy": format!("STATE_POLICY_{policy}") } });
    patched(&admin, &path, policy("DEACTIVATE")).await;
    let seen = read_provider(&admin, &in_one).await;
    assert_eq!(
        (&seen["parent"], &seen["state"]),
        (&json!({ "parent": instance, "state": state(false) }), &json!(state(false)))
    );
    patched(&admin, &in_one, policy("ACTIVATE")).await;
    assert_eq!(read_provider(&admin, &in_one).await["state"], state(true));
    assert_eq!(read_provider(&operator, &in_system).await["state"], state(true));
    let active = |is_active: bool| json!([{ "state": { "state": state(is_active) } }]);
    assert_eq!(names(&admin, "", json!([])).await, total_and_names(&["everywhere", "here"]));
    assert_eq!(names(&admin, "", active(false)).await, total_and_names(&["everywhere"]));
    assert_eq!(
        names(&admin, &format!("&ctx.orgId={one}"), active(true)).await,
        total_and_names(&["everywhere", "here"])
    );
    assert_eq!(names(&operator, "&ctx.system=true", json!([])).await, total_and_names(&["everywhere", "here"]));

    // The secret of another is not sealed with the system's key.
    let secret = json!({ "config": { "clientSecret": "another" } });
    let refused = patch(&operator, &format!("{CODEHOST_B}/{here}?ctx.system=true"), secret.clone()).await;
    refused.assert_refused("it is not the system's", 400, "PRECONDITION_FAILED");
    patched(&admin, &format!("{CODEHOST_B}/{here}"), secret).await;

    // Only operators change it, and say that they mean the system.
    let rename = json!({ "idp": { "name": "other" }, "config": { "clientSecret": "another" } });
    get(&admin, &in_system).await.assert_refused("no operator", 403, "PERMISSION_DENIED");
    patch(&admin, &in_system, rename.clone()).await.assert_refused("no operator", 403, "PERMISSION_DENIED");
    patch(&admin, &path, rename.clone()).await.assert_refused("no operator", 400, "PRECONDITION_FAILED");
    let removed = send(admin.request(Method::DELETE, &format!("{IDPS}/{id}"))).await;
    removed.assert_refused("no operator", 404, "RESOURCE_NOT_FOUND");
    patched(&operator, &in_system, rename).await;
    assert_eq!(read_provider(&admin, &path).await["idp"]["idp"]["name"], "other");
    let removed = send(operator.request(Method::DELETE, &format!("{IDPS}/{id}"))).await;
    assert_eq!(removed.status, 200, "{}", removed.body);
    after(&removed, admin.request(Method::GET, &path)).await.assert_refused("it is gone", 404, "RESOURCE_NOT_FOUND");
    policies_are_removed(&admin, 2).await;
}

#[tokio::test]
async fn policies_on_what_was_of_the_system_go_in_all_instances_and_no_others() {
    let platform = Platform::start().await;
    platform.ready().await;
    let (operator, other) = (platform.operator().await, instance_beside(&platform).await);
    let (admin, beside) = (platform.client().await, other.client().await);
    let of_system = format!("{CODEHOST_B}?ctx.system=true");
    let gone = done(&operator, &of_system, codehost_b("gone")).await.id();
    let stays = done(&operator, &of_system, codehost_b("stays")).await.id();
    let off = json!({ "idp": { "statePolicy": "STATE_POLICY_DEACTIVATE" } });
    for number in 0..PAGES_OF_POLICIES {
        let organization = organization(&admin, &format!("Organization {number}")).await;
        patched(&admin, &format!("{CODEHOST_B}/{gone}?ctx.orgId={organization}"), off.clone()).await;
    }
    for id in [&gone, &stays] {
        patched(&beside, &format!("{CODEHOST_B}/{id}"), off.clone()).await;
    }
    let removed = send(operator.request(Method::DELETE, &format!("{IDPS}/{gone}"))).await;
    assert_eq!(removed.status, 200, "{}", removed.body);
    policies_are_removed(&admin, PAGES_OF_POLICIES).await;
    policies_are_removed(&beside, 1).await;
    assert_eq!(read_provider(&beside, &format!("{CODEHOST_B}/{stays}")).await["state"], state(false));
}
