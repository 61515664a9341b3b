//! Organizations, users and memberships: who may do what where, and the isolation of tenants.

use reqwest::Method;
use serde_json::{Value, json};
use tests::{
    auditor::connect,
    client::{Answer, Client, after, created, post, send},
    eventually,
    instance::Instance,
    platform::Platform,
    tenant::Tenant,
};
use view::projection::ACCESS;

const ORGANIZATIONS: &str = "/resources/v3alpha/organizations";
const USERS: &str = "/resources/v3alpha/users";
const MEMBERSHIPS: &str = "/resources/v3alpha/memberships";

fn service(username: &str) -> Value {
    json!({ "username": username, "service": { "name": username.to_uppercase() } })
}

/// Creates a user of an organization with roles there, and returns a client that is logged in as it.
pub(super) async fn member(
    instance: &Instance,
    admin: &Client,
    organization: &str,
    username: &str,
    roles: &[&str],
) -> (String, Client) {
    let user = created(admin, &format!("{USERS}?ctx.orgId={organization}"), service(username)).await;
    let id = user.id();
    if !roles.is_empty() {
        let membership = json!({ "userId": id, "roles": roles });
        created(admin, &format!("{MEMBERSHIPS}?ctx.orgId={organization}"), membership).await;
    }
    let client = instance.log_in(admin, &id, username).await;
    (id, client)
}

#[tokio::test]
async fn an_organization_lives_and_is_found() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let acme = created(&admin, ORGANIZATIONS, json!({ "name": "Acme" })).await;
    let path = format!("{ORGANIZATIONS}/{}", acme.id());
    let read = after(&acme, admin.request(Method::GET, &path)).await;
    assert_eq!(read.body["organization"]["organization"], json!({ "name": "Acme" }));
    assert_eq!(read.body["organization"]["state"], "EFFECTIVE_STATE_ACTIVE");

    post(&admin, ORGANIZATIONS, json!({ "name": "ACME" })).await.assert_refused(
        "the same name",
        409,
        "RESOURCE_EXISTS",
    );
    let named = send(admin.request(Method::PATCH, &path).json(&json!({ "name": "Acme Ltd" }))).await;
    assert_eq!(named.status, 200, "{}", named.body);
    let off = post(&admin, &format!("{path}/_deactivate"), json!({})).await;
    assert_eq!(off.status, 200, "{}", off.body);
    let again = post(&admin, &format!("{path}/_deactivate"), json!({})).await;
    again.assert_refused("it is off", 400, "PRECONDITION_FAILED");
    let search = admin.request(Method::POST, &format!("{ORGANIZATIONS}/_search"));
    let filters = json!([{ "state": { "state": "EFFECTIVE_STATE_INACTIVE" } }, { "name": { "name": "Acme Ltd" } }]);
    let found = after(&off, search.json(&filters)).await;
    assert_eq!(found.body["details"]["totalResult"], "1", "{}", found.body);
    let on = post(&admin, &format!("{path}/_reactivate"), json!({})).await;
    assert_eq!(on.status, 200, "{}", on.body);

    let default = send(admin.request(Method::GET, &format!("{ORGANIZATIONS}/_instance_default"))).await;
    let id = &default.body["organization"]["details"]["id"];
    assert_eq!(*id, tenant.bootstrap.organization_id.as_str(), "{}", default.body);
    let default = format!("{ORGANIZATIONS}/{}", tenant.bootstrap.organization_id);
    let refused = send(admin.request(Method::DELETE, &default)).await;
    refused.assert_refused("the default one", 400, "PRECONDITION_FAILED");
    let set = post(&admin, &format!("{path}/_set_as_instance_default"), json!({})).await;
    assert_eq!(set.status, 200, "{}", set.body);
    let default = admin.request(Method::GET, &format!("{ORGANIZATIONS}/_instance_default"));
    let default = after(&set, default).await;
    assert_eq!(default.body["organization"]["details"]["id"], acme.id(), "{}", default.body);
}

#[tokio::test]
async fn whoever_owns_an_organization_sees_and_changes_that_one_only() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let (one, other) = (
        created(&admin, ORGANIZATIONS, json!({ "name": "One" })).await.id(),
        created(&admin, ORGANIZATIONS, json!({ "name": "Other" })).await.id(),
    );
    let (_, owner) = member(&tenant, &admin, &one, "owner", &["ORG_OWNER"]).await;
    let (foreign, _) = member(&tenant, &admin, &other, "foreign", &["ORG_OWNER"]).await;
    let memberships = format!("{MEMBERSHIPS}/_search");
    let foreign_membership = post(&admin, &memberships, json!([{ "userId": foreign }])).await;
    let foreign_membership =
        foreign_membership.body["result"][0]["details"]["id"].as_str().expect("it is found").to_owned();

    let own = created(&owner, USERS, service("of-one")).await;
    assert_eq!(own.body["details"]["resourceOwner"], json!({ "type": "OWNER_TYPE_ORG", "id": one }));
    let found = after(&own, owner.request(Method::POST, &format!("{USERS}/_search")).json(&json!([]))).await;
    assert_eq!(found.body["details"]["totalResult"], "2", "its own users only: {}", found.body);
    let found = post(&owner, &format!("{ORGANIZATIONS}/_search"), json!([])).await;
    assert_eq!(found.body["details"]["totalResult"], "1", "{}", found.body);

    let theirs = Theirs { organization: other, user: foreign, membership: foreign_membership };
    is_not_there(&owner, &one, (&theirs, &own.id())).await;
    is_refused(&owner, &one, &own.id()).await;
}

#[tokio::test]
async fn nobody_gets_more_rights_by_the_secret_of_somebody_else() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let (home, powerful) = (&tenant.bootstrap.organization_id, &tenant.bootstrap.service_user.user_id);
    let other = created(&admin, ORGANIZATIONS, json!({ "name": "Other" })).await.id();
    let (_, owner) = member(&tenant, &admin, home, "owner-of-the-default", &["ORG_OWNER"]).await;
    let (_, manager) = member(&tenant, &admin, home, "manager-of-the-default", &["ORG_USER_MANAGER"]).await;
    let (holder, _) = member(&tenant, &admin, home, "owner-of-another", &[]).await;
    let membership = json!({ "userId": holder, "roles": ["ORG_OWNER"] });
    created(&admin, &format!("{MEMBERSHIPS}?ctx.orgId={other}"), membership).await;
    let (of_instance, all_users) = member(&tenant, &admin, home, "manager-of-all", &[]).await;
    let given = created(&admin, MEMBERSHIPS, json!({ "userId": of_instance, "roles": ["IAM_USER_MANAGER"] })).await;
    after(&given, admin.request(Method::GET, &format!("{MEMBERSHIPS}/{}", given.id()))).await;
    tests::eventually("its role is known", async || {
        let found = post(&all_users, &format!("{USERS}/_search"), json!([])).await;
        (found.status == 200).then_some(())
    })
    .await;

    for (case, client, victim) in [
        ("an owner of the organization, of an owner of the instance", &owner, powerful),
        ("who manages all users, of an owner of the instance", &all_users, powerful),
        ("who manages users, of an owner of another organization", &manager, &holder),
        ("who manages all users, of an owner of an organization", &all_users, &holder),
    ] {
        let key = json!({ "keyType": "KEY_TYPE_ED25519", "expirationDate": "2099-01-01T00:00:00Z" });
        let its = format!(
            "{USERS}/{victim}/keys/{}",
            created(&admin, &format!("{USERS}/{victim}/keys"), key.clone()).await.id()
        );
        send(client.request(Method::DELETE, &its)).await.assert_refused(case, 403, "PERMISSION_DENIED");
        let looser = json!({ "service": { "allowTokenEndpointAudience": true } });
        let looser = client.request(Method::PATCH, &format!("{USERS}/{victim}")).json(&looser);
        send(looser).await.assert_refused(case, 403, "PERMISSION_DENIED");
        let end = json!({ "expirationDate": "2099-01-01T00:00:00Z" });
        for (what, body) in
            [("_generate_secret", json!({})), ("keys", key), ("tokens", end), ("_deactivate", json!({}))]
        {
            let refused = post(client, &format!("{USERS}/{victim}/{what}"), body).await;
            refused.assert_refused(&format!("{case}: {what}"), 403, "PERMISSION_DENIED");
        }
        let renamed = client.request(Method::PATCH, &format!("{USERS}/{victim}")).json(&json!({ "username": "taken" }));
        send(renamed).await.assert_refused(case, 403, "PERMISSION_DENIED");
        let deleted = send(client.request(Method::DELETE, &format!("{USERS}/{victim}"))).await;
        deleted.assert_refused(case, 403, "PERMISSION_DENIED");
    }
    let off = post(&owner, &format!("{ORGANIZATIONS}/{home}/_deactivate"), json!({})).await;
    off.assert_refused("the default organization", 400, "PRECONDITION_FAILED");
    let plain = created(&manager, USERS, service("plain")).await.id();
    let secret = post(&manager, &format!("{USERS}/{plain}/_generate_secret"), json!({})).await;
    assert_eq!(secret.status, 200, "one without roles: {}", secret.body);
    tenant.client().await;
}

#[tokio::test]
async fn roles_count_before_the_read_model_has_heard_of_them() {
    let platform = Platform::start().await;
    let admin = platform.client().await;
    let home = &platform.bootstrap.organization_id;
    let other = created(&admin, ORGANIZATIONS, json!({ "name": "Other" })).await.id();
    let (_, manager) = member(&platform, &admin, home, "manager", &["ORG_USER_MANAGER"]).await;
    let (holder, _) = member(&platform, &admin, home, "owner-of-another", &[]).await;
    let (plain, _) = member(&platform, &admin, home, "plain", &[]).await;
    let secret = async |of: &str| post(&manager, &format!("{USERS}/{of}/_generate_secret"), json!({})).await;

    // The read model can be read, and stands still.
    let mut postgres = connect(&platform.postgres_url()).await;
    let still = postgres.transaction().await.expect("Postgres is there");
    let lock = ACCESS.sql("lock table {schema}.memberships in share mode");
    still.batch_execute(&lock).await.expect("nobody else has it");
    let membership = json!({ "userId": holder, "roles": ["ORG_OWNER"] });
    created(&admin, &format!("{MEMBERSHIPS}?ctx.orgId={other}"), membership).await;
    secret(&holder).await.assert_refused("who was given roles", 403, "PERMISSION_DENIED");
    let deleted = send(manager.request(Method::DELETE, &format!("{USERS}/{holder}"))).await;
    deleted.assert_refused("who was given roles", 403, "PERMISSION_DENIED");
    assert_eq!(secret(&plain).await.status, 200, "who was not");
    still.rollback().await.expect("Postgres is there");
}

#[tokio::test]
async fn an_organization_is_taken_away_only_by_who_could_give_its_users_their_roles() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let home = &tenant.bootstrap.organization_id;
    let operations = created(&admin, ORGANIZATIONS, json!({ "name": "Operations" })).await.id();
    let gone = created(&admin, ORGANIZATIONS, json!({ "name": "Gone" })).await.id();
    let (_, owner) = member(&tenant, &admin, &operations, "owner", &["ORG_OWNER"]).await;
    let of_instance = created(&admin, &format!("{USERS}?ctx.orgId={home}"), service("manager")).await.id();
    created(&admin, MEMBERSHIPS, json!({ "userId": of_instance, "roles": ["IAM_ORG_MANAGER"] })).await;
    let manager = tenant.log_in(&admin, &of_instance, "manager").await;
    let (powerful, _) = member(&tenant, &admin, &operations, "powerful", &[]).await;
    let given = created(&admin, MEMBERSHIPS, json!({ "userId": powerful, "roles": ["IAM_OWNER"] })).await;
    after(&given, admin.request(Method::GET, &format!("{MEMBERSHIPS}/{}", given.id()))).await;

    let path = format!("{ORGANIZATIONS}/{operations}");
    for (case, client) in [("its owner", &owner), ("who manages organizations", &manager)] {
        let off = post(client, &format!("{path}/_deactivate"), json!({})).await;
        off.assert_refused(case, 403, "PERMISSION_DENIED");
    }
    let deleted = send(manager.request(Method::DELETE, &path)).await;
    deleted.assert_refused("who manages organizations", 403, "PERMISSION_DENIED");
    let taken = send(admin.request(Method::DELETE, &format!("{MEMBERSHIPS}/{}", given.id()))).await;
    assert_eq!(taken.status, 200, "{}", taken.body);
    let known = async || (post(&owner, &format!("{path}/_deactivate"), json!({})).await.status == 200).then_some(());
    eventually("nobody is powerful there any more", known).await;
    let default = post(&admin, &format!("{path}/_set_as_instance_default"), json!({})).await;
    default.assert_refused("one that is off", 400, "PRECONDITION_FAILED");
    let given = created(&admin, MEMBERSHIPS, json!({ "userId": powerful, "roles": ["IAM_OWNER"] })).await;
    after(&given, admin.request(Method::GET, &format!("{MEMBERSHIPS}/{}", given.id()))).await;
    let on = post(&manager, &format!("{path}/_reactivate"), json!({})).await;
    on.assert_refused("it gives back who is powerful", 403, "PERMISSION_DENIED");

    // Roles in what is removed keep nobody from their own organization.
    let other = created(&admin, ORGANIZATIONS, json!({ "name": "Other" })).await.id();
    let (_, owner) = member(&tenant, &admin, &other, "owner-of-other", &["ORG_OWNER"]).await;
    let (holder, _) = member(&tenant, &admin, &other, "holder", &[]).await;
    let membership = json!({ "userId": holder, "roles": ["ORG_OWNER"] });
    let given = created(&admin, &format!("{MEMBERSHIPS}?ctx.orgId={gone}"), membership).await;
    let secret = |seen: &Answer| {
        let request = owner.request(Method::POST, &format!("{USERS}/{holder}/_generate_secret")).json(&json!({}));
        request.header("consistency-token", seen.consistency())
    };
    send(secret(&given)).await.assert_refused("an owner elsewhere", 403, "PERMISSION_DENIED");
    let removed = send(admin.request(Method::DELETE, &format!("{ORGANIZATIONS}/{gone}"))).await;
    assert_eq!(removed.status, 200, "{}", removed.body);
    let renewed = send(secret(&removed)).await;
    assert_eq!(renewed.status, 200, "{}", renewed.body);
}

#[tokio::test]
async fn roles_in_many_organizations_are_looked_at_at_once() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let (holder, _) = member(&tenant, &admin, &tenant.bootstrap.organization_id, "holder", &[]).await;
    let mut last = None;
    for number in 0..30 {
        let organization = created(&admin, ORGANIZATIONS, json!({ "name": format!("Number {number}") })).await.id();
        let membership = json!({ "userId": holder, "roles": ["ORG_OWNER"] });
        last = Some(created(&admin, &format!("{MEMBERSHIPS}?ctx.orgId={organization}"), membership).await);
    }
    let deleted =
        after(&last.expect("there are some"), admin.request(Method::DELETE, &format!("{USERS}/{holder}"))).await;
    assert_eq!(deleted.status, 200, "{}", deleted.body);
    let search = admin.request(Method::POST, &format!("{MEMBERSHIPS}/_search")).json(&json!([{ "userId": holder }]));
    let left = after(&deleted, search).await;
    assert_eq!(left.body["details"]["totalResult"], "0", "{}", left.body);
}

#[tokio::test]
async fn what_is_held_in_the_system_is_not_shown_to_an_instance() {
    let tenant = Tenant::start().await;
    let (admin, operator) = (tenant.client().await, tenant.operator().await);
    let user = created(&admin, USERS, service("operating")).await.id();
    let body = json!({ "userId": user, "roles": ["SYSTEM_OWNER"] });
    let given = created(&operator, &format!("{MEMBERSHIPS}?ctx.system=true"), body).await;
    let of_user = json!([{ "userId": user }]);
    let search = |client: &Client| client.request(Method::POST, &format!("{MEMBERSHIPS}/_search")).json(&of_user);
    let found = after(&given, search(&admin)).await;
    assert_eq!(found.body["details"]["totalResult"], "0", "{}", found.body);
    let found = after(&given, search(&operator)).await;
    assert_eq!(found.body["details"]["totalResult"], "1", "{}", found.body);
    everywhere(&tenant).await;
    let own = format!("/resources/v3alpha/instances/{}", tenant.bootstrap.instance_id);
    let refused = send(operator.request(Method::DELETE, &own)).await;
    refused.assert_refused("the instance that is asked", 400, "PRECONDITION_FAILED");

    // The same key in another organization is another request.
    let other = created(&admin, ORGANIZATIONS, json!({ "name": "Other" })).await;
    after(&other, admin.request(Method::GET, &format!("{ORGANIZATIONS}/{}", other.id()))).await;
    let keyed = |organization: &str| {
        let request = admin.request(Method::POST, USERS).json(&service("keyed")).header("idempotency-key", "one");
        request.header("x-platform-orgid", organization)
    };
    assert_eq!(send(keyed(&tenant.bootstrap.organization_id)).await.status, 201);
    send(keyed(&other.id())).await.assert_refused("another organization", 400, "IDEMPOTENCY_KEY_REUSED");
}

/// Checks that the context of the system covers everything, for its operators alone.
async fn everywhere(tenant: &Tenant) {
    let (admin, operator) = (tenant.client().await, tenant.operator().await);
    let other = tenant.shared.instance().await;
    let later = created(&admin, ORGANIZATIONS, json!({ "name": "Later" })).await;
    let search = |client: &Client, ctx: &str| {
        let ids = json!([{ "inIds": { "ids": [tenant.bootstrap.organization_id, other.bootstrap.organization_id] } }]);
        client.request(Method::POST, &format!("{ORGANIZATIONS}/_search{ctx}")).json(&ids)
    };
    for (client, ctx, total) in [(&admin, "", "1"), (&operator, "", "1"), (&operator, "?ctx.system=true", "2")] {
        let found = after(&later, search(client, ctx)).await;
        assert_eq!(found.body["details"]["totalResult"], total, "{ctx}: {}", found.body);
    }
    send(search(&admin, "?ctx.system=true")).await.assert_refused("who operates nothing", 403, "PERMISSION_DENIED");
}

/// Case 90 of the OpenID Connect cases of the design.
#[tokio::test]
async fn an_old_secret_is_valid_as_long_as_it_was_said() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let id = created(&admin, USERS, service("rotating")).await.id();
    let first = post(&admin, &format!("{USERS}/{id}/_generate_secret"), json!({})).await;
    let in_an_hour = format!("{USERS}/{id}/_generate_secret?previousExpiration=3600s");
    let kept = post(&admin, &in_an_hour, json!({})).await;
    assert!(kept.body["previousValidUntil"].is_string(), "{}", kept.body);
    after(&kept, admin.request(Method::GET, &format!("{USERS}/{id}"))).await;
    for (case, secret) in [("the old one", &first), ("the new one", &kept)] {
        assert_eq!(token(&admin, secret).await, 200, "{case}");
    }
    let ended = post(&admin, &format!("{USERS}/{id}/_generate_secret"), json!({})).await;
    assert!(ended.body["previousValidUntil"].is_null(), "{}", ended.body);
    after(&ended, admin.request(Method::GET, &format!("{USERS}/{id}"))).await;
    eventually("the old one ends", async || (token(&admin, &kept).await == 401).then_some(())).await;
    assert_eq!(token(&admin, &ended).await, 200);
}

/// Returns the status of the token endpoint for a secret of `rotating`.
async fn token(client: &Client, secret: &Answer) -> u16 {
    let secret = secret.body["clientSecret"].as_str().expect("it is shown");
    let request = client.anonymous(Method::POST, "/oauth/v2/token").basic_auth("rotating", Some(secret));
    send(request.form(&[("grant_type", "client_credentials"), ("scope", "openid")])).await.status.as_u16()
}

/// Objects of another organization.
struct Theirs {
    organization: String,
    user: String,
    membership: String,
}

/// Checks that objects of others are not found by any request.
async fn is_not_there(owner: &Client, one: &str, (theirs, own): (&Theirs, &str)) {
    let Theirs { organization: other, user: foreign, membership } = theirs;
    let not_there = [
        (Method::GET, format!("{ORGANIZATIONS}/{other}"), json!({})),
        (Method::PATCH, format!("{ORGANIZATIONS}/{other}"), json!({ "name": "Mine" })),
        (Method::DELETE, format!("{ORGANIZATIONS}/{other}"), json!({})),
        (Method::POST, format!("{ORGANIZATIONS}/{other}/_deactivate"), json!({})),
        (Method::GET, format!("{USERS}/{foreign}"), json!({})),
        (Method::PATCH, format!("{USERS}/{foreign}"), json!({ "username": "mine" })),
        (Method::DELETE, format!("{USERS}/{foreign}"), json!({})),
        (Method::POST, format!("{USERS}/{foreign}/_deactivate"), json!({})),
        (Method::POST, format!("{USERS}/{foreign}/_generate_secret"), json!({})),
        (Method::GET, format!("{MEMBERSHIPS}/{membership}"), json!({})),
        (Method::PATCH, format!("{MEMBERSHIPS}/{membership}"), json!({ "roles": ["ORG_OWNER"] })),
        (Method::DELETE, format!("{MEMBERSHIPS}/{membership}"), json!({})),
        (Method::POST, format!("{USERS}?ctx.orgId={other}"), service("spy")),
        (Method::POST, format!("{USERS}/_search?ctx.orgId={other}"), json!([])),
        (Method::POST, format!("{MEMBERSHIPS}?ctx.orgId={other}"), json!({ "userId": own, "roles": ["ORG_OWNER"] })),
        (Method::POST, format!("{MEMBERSHIPS}?ctx.orgId={one}"), json!({ "userId": foreign, "roles": ["ORG_OWNER"] })),
        (Method::GET, format!("{USERS}/1"), json!({})),
        (Method::PATCH, format!("{USERS}/1"), json!({ "username": "mine" })),
    ];
    for (method, path, body) in not_there {
        let request = owner.request(method.clone(), &path);
        let has_body = [Method::POST, Method::PATCH].contains(&method);
        let request = if has_body { request.json(&body) } else { request };
        let answer = send(request).await;
        answer.assert_refused(&format!("{method} {path}"), 404, "RESOURCE_NOT_FOUND");
    }
}

/// Checks that requests for contexts above are refused.
async fn is_refused(owner: &Client, one: &str, own: &str) {
    let above = [
        (ORGANIZATIONS.to_owned(), json!({ "name": "Mine" })),
        (format!("{ORGANIZATIONS}/{one}/_set_as_instance_default"), json!({})),
        (MEMBERSHIPS.to_owned(), json!({ "userId": own, "roles": ["IAM_OWNER"] })),
        (format!("{MEMBERSHIPS}?ctx.system=true"), json!({ "userId": own, "roles": ["SYSTEM_OWNER"] })),
    ];
    for (path, body) in above {
        post(owner, &path, body).await.assert_refused(&path, 403, "PERMISSION_DENIED");
    }
    let role = json!({ "userId": own, "roles": ["IAM_OWNER"] });
    let role = post(owner, &format!("{MEMBERSHIPS}?ctx.orgId={one}"), role).await;
    role.assert_refused("a role of another level", 400, "INVALID_REQUEST");
}
