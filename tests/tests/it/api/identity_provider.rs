//! Identity providers: of every type, in every context, and inherited by all contexts below.

mod bad;
mod model;
mod page;
mod secret;
mod system;

use reqwest::Method;
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, after, done, post, send},
    idp::{IDPS, TYPES, config, other_config},
    instance::Instance,
    tenant::Tenant,
};

const ORGANIZATIONS: &str = "/resources/v3alpha/organizations";
const CODEHOST_B: &str = "/resources/v3alpha/idps/codehost_b";
const EVENTS: &str = "/resources/v3alpha/events/_search";

async fn patch(client: &Client, path: &str, body: Value) -> Answer {
    send(client.request(Method::PATCH, path).header("prefer", "wait=10").json(&body)).await
}

/// Patches a provider, which must succeed.
async fn patched(client: &Client, path: &str, body: Value) -> Answer {
    let answer = patch(client, path, body).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    answer
}

async fn get(client: &Client, path: &str) -> Answer {
    send(client.request(Method::GET, path)).await
}

/// Returns a provider, which must be visible.
async fn read_provider(client: &Client, path: &str) -> Value {
    let answer = get(client, path).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    answer.body["idp"].clone()
}

async fn organization(client: &Client, name: &str) -> String {
    done(client, ORGANIZATIONS, json!({ "name": name })).await.id()
}

fn codehost_b(name: &str) -> Value {
    json!({ "idp": { "name": name }, "config": { "clientId": "id", "clientSecret": "very secret" } })
}

fn state(is_active: bool) -> &'static str {
    if is_active { "EFFECTIVE_STATE_ACTIVE" } else { "EFFECTIVE_STATE_INACTIVE" }
}

/// Returns the total and the sorted names of the results of a search.
async fn names(client: &Client, query: &str, filters: Value) -> (String, Vec<String>) {
    let found =
        post(client, &format!("{IDPS}/_search?query.asc=true&sortingColumn=IDP_FIELD_NAME_NAME{query}"), filters).await;
    assert_eq!(found.status, 200, "{}", found.body);
    let result = found.body["result"].as_array().cloned().unwrap_or_default();
    let names = result.iter().map(|found| found["idp"]["name"].as_str().unwrap_or_default().to_owned()).collect();
    (found.body["details"]["totalResult"].as_str().unwrap_or("0").to_owned(), names)
}

fn total_and_names(names: &[&str]) -> (String, Vec<String>) {
    (names.len().to_string(), names.iter().map(|name| (*name).to_owned()).collect())
}

#[tokio::test]
async fn a_provider_is_made_changed_switched_found_and_removed() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let options = json!({ "isLinkingAllowed": true, "autoLinking": "AUTO_LINKING_OPTION_USERNAME" });
    let config = json!({ "clientId": "id", "scopes": ["openid", "email"], "clientSecret": "very secret" });
    let made = done(&admin, CODEHOST_B, json!({ "idp": { "options": options }, "config": config })).await;
    assert_eq!(made.status, 201);
    let path = format!("{CODEHOST_B}/{}", made.id());
    let instance = json!({ "type": "OWNER_TYPE_INSTANCE", "id": tenant.bootstrap.instance_id });
    let expected = json!({
        "details": made.body["details"], "state": "EFFECTIVE_STATE_ACTIVE", "type": "PROVIDER_TYPE_CODEHOST_B",
        "idp": {
            "idp": { "name": "CodeHostB", "options": options }, "config": { "clientId": "id", "scopes": ["openid", "email"] },
        },
    });
    assert_eq!(made.body["details"]["resourceOwner"], instance);
    assert_eq!(read_provider(&admin, &path).await, expected, "with the name of the provider, and without the secret");

    let renamed = patched(&admin, &path, json!({ "idp": { "name": "Ours" }, "config": { "clientId": "other" } })).await;
    assert!(renamed.sequence() > made.sequence());
    let after_patch = read_provider(&admin, &path).await;
    assert_eq!(after_patch["idp"]["idp"], json!({ "name": "Ours", "options": options }));
    assert_eq!(after_patch["idp"]["config"], json!({ "clientId": "other", "scopes": ["openid", "email"] }));
    let same = patched(&admin, &path, json!({ "config": { "clientSecret": "" } })).await;
    assert_eq!(same.body, renamed.body, "an empty secret leaves what there is");
    let anew = patched(&admin, &path, json!({ "config": { "clientSecret": "another" } })).await;
    assert!(anew.sequence() > renamed.sequence(), "{}", anew.body);

    let id = made.id();
    let switch = async |to: &str| post(&admin, &format!("{IDPS}/{id}/_{to}"), json!({})).await;
    switch("reactivate").await.assert_refused("it is on", 400, "PRECONDITION_FAILED");
    let off = switch("deactivate").await;
    assert_eq!(after(&off, admin.request(Method::GET, &path)).await.body["idp"]["state"], state(false));
    switch("deactivate").await.assert_refused("it is off", 400, "PRECONDITION_FAILED");
    assert_eq!(switch("reactivate").await.status, 200);

    get(&admin, &format!("{IDPS}/codehost_a/{id}")).await.assert_refused("another type", 404, "RESOURCE_NOT_FOUND");
    patch(&admin, &format!("{IDPS}/oidc/{id}"), json!({})).await.assert_refused(
        "another type",
        404,
        "RESOURCE_NOT_FOUND",
    );
    let deleted = send(admin.request(Method::DELETE, &format!("{IDPS}/{id}"))).await;
    assert_eq!(deleted.status, 200, "{}", deleted.body);
    after(&deleted, admin.request(Method::GET, &path)).await.assert_refused("it is gone", 404, "RESOURCE_NOT_FOUND");
    let again = send(admin.request(Method::DELETE, &format!("{IDPS}/{id}"))).await;
    again.assert_refused("it is gone", 404, "RESOURCE_NOT_FOUND");
}

#[tokio::test]
async fn every_type_is_read_back_as_it_was_sent_but_for_its_secret() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let secrets = ["clientSecret", "bindPassword", "privateKey"];
    let public = |config: Value| {
        let mut config = config;
        config
            .as_object_mut()
            .expect("it has members")
            .retain(|name, value| !secrets.contains(&name.as_str()) && *value != json!(false));
        config
    };
    for of in TYPES {
        let path = format!("{IDPS}/{of}");
        let made = done(&admin, &path, json!({ "idp": { "name": of }, "config": config(of) })).await;
        let path = format!("{path}/{}", made.id());
        let seen = read_provider(&admin, &path).await;
        assert_eq!(seen["type"], format!("PROVIDER_TYPE_{}", of.to_uppercase()));
        assert_eq!(seen["idp"]["config"], public(config(of)), "{of}");
        // Each member by itself.
        for (name, value) in other_config(of).as_object().expect("it has members") {
            patched(&admin, &path, json!({ "config": { name.as_str(): value } })).await;
        }
        assert_eq!(read_provider(&admin, &path).await["idp"]["config"], public(other_config(of)), "{of}");
        for other in TYPES.iter().filter(|other| **other != of) {
            let missing = get(&admin, &format!("{IDPS}/{other}/{}", made.id())).await;
            missing.assert_refused(other, 404, "RESOURCE_NOT_FOUND");
        }
    }
    let (total, _) = names(&admin, "", json!([])).await;
    assert_eq!(total, TYPES.len().to_string());
}

#[tokio::test]
async fn an_organization_inherits_and_decides_for_itself() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let (one, two) = (organization(&admin, "One").await, organization(&admin, "Two").await);
    let made = done(&admin, CODEHOST_B, codehost_b("shared")).await;
    let id = made.id();
    let path = format!("{CODEHOST_B}/{id}");
    let of_one = format!("{path}?ctx.orgId={one}");
    let instance = json!({ "type": "OWNER_TYPE_INSTANCE", "id": tenant.bootstrap.instance_id });

    let seen = read_provider(&admin, &of_one).await;
    assert_eq!(seen["parent"], json!({ "parent": instance, "state": state(true) }));
    assert_eq!(
        (&seen["state"], &seen["idp"]["idp"]["statePolicy"]),
        (&json!(state(true)), &json!("STATE_POLICY_INHERIT"))
    );
    assert_eq!(seen["details"], made.body["details"], "whose it is, and the last change");

    let policy = |policy: &str| json!({ "idp": { "statePolicy": format!("STATE_POLICY_{policy}") } });
    let same = patched(&admin, &of_one, policy("INHERIT")).await;
    assert_eq!(same.body["details"], made.body["details"], "nothing has changed");
    let off = patched(&admin, &of_one, policy("DEACTIVATE")).await;
    assert!(off.sequence() > made.sequence());
    assert_eq!(off.body["details"]["resourceOwner"], instance);
    let seen = read_provider(&admin, &of_one).await;
    assert_eq!(
        (&seen["state"], &seen["idp"]["idp"]["statePolicy"]),
        (&json!(state(false)), &json!("STATE_POLICY_DEACTIVATE"))
    );
    assert_eq!(seen["details"]["sequence"], off.sequence().to_string());
    assert_eq!(read_provider(&admin, &path).await["state"], state(true), "nobody else notices");
    assert_eq!(read_provider(&admin, &format!("{path}?ctx.orgId={two}")).await["state"], state(true));

    // The policy holds whatever becomes of the own state, and inherit follows it.
    let switched = post(&admin, &format!("{IDPS}/{id}/_deactivate"), json!({})).await;
    patched(&admin, &of_one, policy("ACTIVATE")).await;
    let seen = after(&switched, admin.request(Method::GET, &of_one)).await.body["idp"].clone();
    assert_eq!((&seen["state"], &seen["parent"]["state"]), (&json!(state(true)), &json!(state(false))));
    assert_eq!(read_provider(&admin, &format!("{path}?ctx.orgId={two}")).await["state"], state(false));
    let back = patched(&admin, &of_one, policy("INHERIT")).await;
    assert_eq!(read_provider(&admin, &of_one).await["state"], state(false));
    let again = patched(&admin, &of_one, policy("INHERIT")).await;
    assert_eq!(again.body, back.body, "set already");

    // What is seen there has a sequence, which If-Match names.
    let request = |sequence: u64| {
        admin.request(Method::PATCH, &of_one).header("if-match", format!("\"{sequence}\"")).json(&policy("ACTIVATE"))
    };
    send(request(made.sequence())).await.assert_refused("it was changed since", 412, "SEQUENCE_MISMATCH");
    assert_eq!(send(request(back.sequence())).await.status, 200);
}

#[tokio::test]
async fn below_its_own_context_a_provider_is_read_only() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let (one, two) = (organization(&admin, "One").await, organization(&admin, "Two").await);
    let shared = done(&admin, CODEHOST_B, codehost_b("shared")).await.id();
    let own = done(&admin, &format!("{CODEHOST_B}?ctx.orgId={one}"), codehost_b("own")).await.id();
    let of_one = format!("{CODEHOST_B}/{shared}?ctx.orgId={one}");
    for (case, body) in [
        ("a name", json!({ "idp": { "name": "mine" } })),
        ("options", json!({ "idp": { "options": {} } })),
        ("configuration", json!({ "config": { "clientId": "mine" } })),
        ("a secret", json!({ "config": { "clientSecret": "mine" } })),
        ("both", json!({ "idp": { "name": "mine", "statePolicy": "STATE_POLICY_ACTIVATE" } })),
    ] {
        patch(&admin, &of_one, body).await.assert_refused(case, 400, "PRECONDITION_FAILED");
    }
    let activate = json!({ "idp": { "statePolicy": "STATE_POLICY_ACTIVATE" } });
    for path in
        [format!("{CODEHOST_B}/{shared}"), format!("{CODEHOST_B}/{own}?ctx.orgId={one}"), format!("{CODEHOST_B}/{own}")]
    {
        patch(&admin, &path, activate.clone()).await.assert_refused("its own context", 400, "PRECONDITION_FAILED");
    }
    let at_once =
        json!({ "idp": { "name": "x", "statePolicy": "STATE_POLICY_DEACTIVATE" }, "config": { "clientId": "id" } });
    post(&admin, CODEHOST_B, at_once).await.assert_refused("a policy at once", 400, "INVALID_REQUEST");

    // What is of one organization is not there in another.
    let elsewhere = format!("{CODEHOST_B}/{own}?ctx.orgId={two}");
    get(&admin, &elsewhere).await.assert_refused("another organization", 404, "RESOURCE_NOT_FOUND");
    patch(&admin, &elsewhere, activate).await.assert_refused("another organization", 404, "RESOURCE_NOT_FOUND");
    let from_above =
        read_provider(&admin, &format!("{CODEHOST_B}/{own}?ctx.instanceId={}", tenant.bootstrap.instance_id)).await;
    assert!(from_above.get("parent").is_none() && from_above["state"] == state(true), "{from_above}");
}

#[tokio::test]
async fn a_search_finds_what_is_there_in_its_context_with_the_state_that_it_has_there() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let (one, two) = (organization(&admin, "One").await, organization(&admin, "Two").await);
    let on = done(&admin, CODEHOST_B, codehost_b("a-on")).await.id();
    let off = done(&admin, CODEHOST_B, codehost_b("b-off")).await.id();
    done(&admin, &format!("{IDPS}/{off}/_deactivate"), json!({})).await;
    done(&admin, &format!("{CODEHOST_B}?ctx.orgId={one}"), codehost_b("c-one")).await;
    done(&admin, &format!("{CODEHOST_B}?ctx.orgId={two}"), codehost_b("d-two")).await;
    let policy = |policy: &str| json!({ "idp": { "statePolicy": format!("STATE_POLICY_{policy}") } });
    patched(&admin, &format!("{CODEHOST_B}/{on}?ctx.orgId={one}"), policy("DEACTIVATE")).await;
    patched(&admin, &format!("{CODEHOST_B}/{off}?ctx.orgId={one}"), policy("ACTIVATE")).await;

    let (of_one, of_two) = (&format!("&ctx.orgId={one}"), &format!("&ctx.orgId={two}"));
    assert_eq!(names(&admin, "", json!([])).await, total_and_names(&["a-on", "b-off", "c-one", "d-two"]));
    assert_eq!(names(&admin, of_one, json!([])).await, total_and_names(&["a-on", "b-off", "c-one"]));
    assert_eq!(names(&admin, of_two, json!([])).await, total_and_names(&["a-on", "b-off", "d-two"]));
    let active = |is_active: bool| json!([{ "state": { "state": state(is_active) } }]);
    assert_eq!(names(&admin, "", active(true)).await, total_and_names(&["a-on", "c-one", "d-two"]));
    assert_eq!(names(&admin, of_one, active(true)).await, total_and_names(&["b-off", "c-one"]));
    assert_eq!(names(&admin, of_one, active(false)).await, total_and_names(&["a-on"]));
    assert_eq!(names(&admin, of_two, active(false)).await, total_and_names(&["b-off"]));
    let page = names(&admin, &format!("{of_one}&query.limit=1&query.offset=1"), active(true)).await;
    assert_eq!(page, ("2".to_owned(), vec!["c-one".to_owned()]), "the total is that of all pages");

    let listed = post(&admin, &format!("{IDPS}/_search?ctx.orgId={one}"), json!([{ "id": { "id": on } }])).await;
    let alone = get(&admin, &format!("{CODEHOST_B}/{on}?ctx.orgId={one}")).await;
    for member in ["details", "parent", "state", "type"] {
        assert_eq!(listed.body["result"][0][member], alone.body["idp"][member], "{member}");
    }
    assert_eq!(listed.body["result"][0]["idp"], alone.body["idp"]["idp"]["idp"]);
    let large = post(&admin, &format!("{IDPS}/_search?query.limit=1001"), json!([])).await;
    large.assert_refused("a large page", 400, "INVALID_REQUEST");
}

/// Creates a user of an organization with these roles there.
async fn member(instance: &Instance, admin: &Client, organization: &str, name: &str, roles: &[&str]) -> Client {
    let user = json!({ "username": name, "service": {} });
    let id = done(admin, &format!("/resources/v3alpha/users?ctx.orgId={organization}"), user).await.id();
    let membership = json!({ "userId": id, "roles": roles });
    done(admin, &format!("/resources/v3alpha/memberships?ctx.orgId={organization}"), membership).await;
    instance.log_in(admin, &id, name).await
}

#[tokio::test]
async fn who_owns_an_organization_decides_there_and_nowhere_else() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let (one, two) = (organization(&admin, "One").await, organization(&admin, "Two").await);
    let owner = member(&tenant, &admin, &one, "owner", &["ORG_OWNER"]).await;
    let reader = member(&tenant, &admin, &one, "reader", &["ORG_OWNER_VIEWER"]).await;
    let shared = done(&admin, CODEHOST_B, codehost_b("shared")).await.id();
    let theirs = done(&admin, &format!("{CODEHOST_B}?ctx.orgId={two}"), codehost_b("theirs")).await.id();
    let own = done(&owner, &format!("{CODEHOST_B}?ctx.orgId={one}"), codehost_b("own")).await.id();

    let activate = json!({ "idp": { "statePolicy": "STATE_POLICY_ACTIVATE" } });
    let in_one = format!("{CODEHOST_B}/{shared}?ctx.orgId={one}");
    patched(&owner, &in_one, activate.clone()).await;
    assert_eq!(read_provider(&reader, &in_one).await["state"], state(true));
    patch(&reader, &in_one, activate.clone()).await.assert_refused("a reader", 403, "PERMISSION_DENIED");
    assert_eq!(
        read_provider(&owner, &format!("{CODEHOST_B}/{own}")).await["state"],
        state(true),
        "no context is needed"
    );
    patched(&owner, &format!("{CODEHOST_B}/{own}"), json!({ "idp": { "name": "mine" } })).await;

    for path in [
        format!("{CODEHOST_B}/{shared}"),
        format!("{CODEHOST_B}/{theirs}"),
        format!("{CODEHOST_B}/{theirs}?ctx.orgId={one}"),
    ] {
        get(&owner, &path).await.assert_refused(&path, 404, "RESOURCE_NOT_FOUND");
        patch(&owner, &path, activate.clone()).await.assert_refused(&path, 404, "RESOURCE_NOT_FOUND");
    }
    for id in [&shared, &theirs] {
        let removed = send(owner.request(Method::DELETE, &format!("{IDPS}/{id}"))).await;
        removed.assert_refused("of others", 404, "RESOURCE_NOT_FOUND");
        let switched = post(&owner, &format!("{IDPS}/{id}/_deactivate"), json!({})).await;
        switched.assert_refused("of others", 404, "RESOURCE_NOT_FOUND");
    }
    assert_eq!(
        names(&owner, "", json!([])).await,
        total_and_names(&["mine"]),
        "of the instance they may read what is theirs"
    );
    assert_eq!(names(&owner, &format!("&ctx.orgId={one}"), json!([])).await, total_and_names(&["mine", "shared"]));
    let elsewhere = post(&owner, &format!("{IDPS}/_search?ctx.orgId={two}"), json!([])).await;
    elsewhere.assert_refused("another organization", 404, "RESOURCE_NOT_FOUND");
}

#[tokio::test]
async fn policies_go_with_the_provider_and_with_their_context() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let (one, two) = (organization(&admin, "One").await, organization(&admin, "Two").await);
    let (first, second) = (
        done(&admin, CODEHOST_B, codehost_b("first")).await.id(),
        done(&admin, CODEHOST_B, codehost_b("second")).await.id(),
    );
    let off = json!({ "idp": { "statePolicy": "STATE_POLICY_DEACTIVATE" } });
    for (idp, organization) in [(&first, &one), (&first, &two), (&second, &one)] {
        patched(&admin, &format!("{CODEHOST_B}/{idp}?ctx.orgId={organization}"), off.clone()).await;
    }
    assert_eq!(send(admin.request(Method::DELETE, &format!("{IDPS}/{first}"))).await.status, 200);
    policies_are_removed(&admin, 2).await;
    assert_eq!(send(admin.request(Method::DELETE, &format!("{ORGANIZATIONS}/{one}"))).await.status, 200);
    policies_are_removed(&admin, 3).await;
    assert_eq!(read_provider(&admin, &format!("{CODEHOST_B}/{second}?ctx.orgId={two}")).await["state"], state(true));
    let gone = get(&admin, &format!("{CODEHOST_B}/{second}?ctx.orgId={one}")).await;
    gone.assert_refused("from what was removed", 404, "RESOURCE_NOT_FOUND");
}

/// Waits until a number of policies in the instance of a client were removed since it was created.
async fn policies_are_removed(admin: &Client, count: usize) {
    let wanted = json!([{ "type": "idp_state_policy.removed" }]);
    tests::eventually("policies are removed", async || {
        let found = post(admin, EVENTS, wanted.clone()).await;
        let total = found.body["details"]["totalResult"].as_str().unwrap_or("0").to_owned();
        (total == count.to_string()).then_some(())
    })
    .await;
}
