//! Projects: their states, their owners, and the platform's own.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use reqwest::Method;
use serde_json::{Value, json};
use tests::{
    client::{Client, SCOPE, after, created, done, post, send},
    eventually,
    instance::Instance,
    tenant::Tenant,
};

const ORGANIZATIONS: &str = "/resources/v3alpha/organizations";
const PROJECTS: &str = "/resources/v3alpha/projects";

/// Requests a token with the audience of a project, and returns its scopes and audience.
async fn granted(tenant: &Instance, client: &Client, project: &str) -> (String, Value) {
    let user = &tenant.bootstrap.service_user;
    let scope = format!("openid urn:platform:iam:org:project:id:{project}:aud");
    let form = [("grant_type", "client_credentials"), ("scope", scope.as_str())];
    let request = client.anonymous(Method::POST, "/oauth/v2/token");
    let answer = send(request.basic_auth(&user.client_id, Some(&user.client_secret)).form(&form)).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let claims = answer.body["access_token"].as_str().and_then(|token| token.split('.').nth(1));
    let claims = URL_SAFE_NO_PAD.decode(claims.expect("a token is given")).expect("it is base64url");
    let claims: Value = serde_json::from_slice(&claims).expect("claims are JSON");
    (answer.body["scope"].as_str().unwrap_or_default().to_owned(), claims["aud"].clone())
}

#[tokio::test]
async fn tokens_are_for_a_project_as_long_as_it_is_there_and_on() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let project = done(&admin, PROJECTS, json!({ "name": "Shop" })).await.id();
    let own = format!("{PROJECTS}/{project}");
    let with = format!("openid urn:platform:iam:org:project:id:{project}:aud");

    for (step, status, is_on) in [
        ("_reactivate", 400, true),
        ("_deactivate", 200, false),
        ("_deactivate", 400, false),
        ("_reactivate", 200, true),
    ] {
        let answer = send(admin.request(Method::POST, &format!("{own}/{step}")).header("prefer", "wait=10")).await;
        assert_eq!(answer.status, status, "{step}: {}", answer.body);
        let read = send(admin.request(Method::GET, &own)).await.body["project"].take();
        let state = if is_on { "EFFECTIVE_STATE_ACTIVE" } else { "EFFECTIVE_STATE_INACTIVE" };
        assert_eq!(read["state"], state, "{step}: {read}");
        if is_on {
            // What was off is remembered for a moment.
            let is_given = async || (granted(&tenant, &admin, &project).await.0 == with).then_some(());
            eventually("tokens are for it", is_given).await;
        }
        let (scope, audience) = granted(&tenant, &admin, &project).await;
        let expected = if is_on { (&*with, json!([project])) } else { ("openid", json!([tenant.bootstrap.issuer])) };
        assert_eq!((&*scope, audience), expected, "{step}");
    }
    let removed = send(admin.request(Method::DELETE, &own).header("prefer", "wait=10")).await;
    assert_eq!(removed.status, 200, "{}", removed.body);
    assert_eq!(granted(&tenant, &admin, &project).await.0, "openid", "it is gone");
}

#[tokio::test]
async fn the_platforms_own_project_stays_on_and_open() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let own = format!("{PROJECTS}/{}", tenant.bootstrap.project_id);
    let read = send(admin.request(Method::GET, &own)).await;
    assert_eq!(read.body["project"]["project"], json!({ "name": "Platform" }), "{}", read.body);
    assert_eq!(read.body["project"]["details"]["resourceOwner"]["id"], tenant.bootstrap.organization_id.as_str());

    let refused = |case: &'static str, answer: tests::client::Answer| {
        answer.assert_refused(case, 400, "PRECONDITION_FAILED");
        let message = answer.body["message"].as_str().unwrap_or_default();
        assert!(message.contains("the platform's own project"), "{case}: {message}");
    };
    refused("deleting it", send(admin.request(Method::DELETE, &own)).await);
    refused("switching it off", post(&admin, &format!("{own}/_deactivate"), json!({})).await);
    for policy in ["authorizationRequired", "projectAccessRequired"] {
        let patch = admin.request(Method::PATCH, &own).json(&json!({ policy: true }));
        refused(policy, send(patch).await);
    }
    let renamed = send(admin.request(Method::PATCH, &own).json(&json!({ "name": "API" }))).await;
    assert_eq!(renamed.status, 200, "{}", renamed.body);

    // Nor does it go with its organization.
    let other = created(&admin, ORGANIZATIONS, json!({ "name": "Other" })).await.id();
    let set = post(&admin, &format!("{ORGANIZATIONS}/{other}/_set_as_instance_default"), json!({})).await;
    assert_eq!(set.status, 200, "{}", set.body);
    let home = format!("{ORGANIZATIONS}/{}", tenant.bootstrap.organization_id);
    refused("deleting its organization", send(admin.request(Method::DELETE, &home)).await);
    refused("switching its organization off", post(&admin, &format!("{home}/_deactivate"), json!({})).await);
    let again = Client::log_in(&tenant.bootstrap.issuer, &tenant.bootstrap.service_user).await;
    let read = after(&renamed, again.request(Method::GET, &own)).await;
    assert_eq!(read.body["project"]["project"]["name"], "API", "with a token for it ({SCOPE}): {}", read.body);
}

#[tokio::test]
async fn projects_are_seen_by_who_may_read_their_organization_and_go_with_it() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let organization = created(&admin, ORGANIZATIONS, json!({ "name": "Acme" })).await.id();
    let made = created(&admin, &format!("{PROJECTS}?ctx.orgId={organization}"), json!({ "name": "Shop" })).await;
    assert_eq!(made.body["details"]["resourceOwner"], json!({ "type": "OWNER_TYPE_ORG", "id": organization }));
    let user = json!({ "username": "acme-owner", "service": {} });
    let user = created(&admin, &format!("/resources/v3alpha/users?ctx.orgId={organization}"), user).await.id();
    let given = json!({ "userId": user, "roles": ["ORG_OWNER"] });
    done(&admin, &format!("/resources/v3alpha/memberships?ctx.orgId={organization}"), given).await;
    let owner = tenant.log_in(&admin, &user, "acme-owner").await;

    let search = format!("{PROJECTS}/_search");
    let total = async |client: &Client, path: &str| {
        let found = after(&made, client.request(Method::POST, path).json(&json!([]))).await;
        found.body["details"]["totalResult"].as_str().map(str::to_owned)
    };
    assert_eq!(total(&owner, &search).await.as_deref(), Some("1"), "its own only");
    assert_eq!(total(&admin, &search).await.as_deref(), Some("2"), "the platform's own, too");
    assert_eq!(total(&admin, &format!("{search}?ctx.orgId={organization}")).await.as_deref(), Some("1"));
    let platform = format!("{PROJECTS}/{}", tenant.bootstrap.project_id);
    let hidden = send(owner.request(Method::GET, &platform)).await;
    hidden.assert_refused("the project of another organization", 404, "RESOURCE_NOT_FOUND");
    let own = created(&owner, PROJECTS, json!({ "name": "Own" })).await;
    assert_eq!(own.body["details"]["resourceOwner"]["id"], organization.as_str(), "{}", own.body);

    let removed = send(admin.request(Method::DELETE, &format!("{ORGANIZATIONS}/{organization}"))).await;
    assert_eq!(removed.status, 200, "{}", removed.body);
    let read = after(&removed, admin.request(Method::GET, &format!("{PROJECTS}/{}", made.id()))).await;
    read.assert_refused("what was in a removed organization", 404, "RESOURCE_NOT_FOUND");
}
