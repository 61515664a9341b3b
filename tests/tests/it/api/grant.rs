//! Roles of projects and their grants: how they are withdrawn, and who sees them.

use futures::{StreamExt, stream};
use reqwest::Method;
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, after, created, done, post, send},
    eventually,
    instance::Instance,
    tenant::Tenant,
};

const GRANTS: &str = "/resources/v3alpha/project_grants";
const ORGANIZATIONS: &str = "/resources/v3alpha/organizations";
const PROJECTS: &str = "/resources/v3alpha/projects";
const ROLES: &str = "/resources/v3alpha/roles";
const USER_GRANTS: &str = "/resources/v3alpha/user_grants";
const USERS: &str = "/resources/v3alpha/users";

/// Creates a project of the caller's organization with these roles.
async fn project(client: &Client, keys: &[&str]) -> String {
    let id = created(client, PROJECTS, json!({ "name": "Shop" })).await.id();
    for key in keys {
        role(client, &id, key).await;
    }
    id
}

async fn role(client: &Client, project: &str, key: &str) -> Answer {
    created(client, ROLES, json!({ "projectId": project, "key": key, "displayName": key })).await
}

async fn user(client: &Client, organization: &str, name: &str) -> String {
    let wanted = json!({ "username": name, "service": {} });
    created(client, &format!("{USERS}?ctx.orgId={organization}"), wanted).await.id()
}

/// Creates an organization, and a user with all rights on it.
async fn owner(tenant: &Instance, admin: &Client, name: &str) -> (String, Client) {
    let organization = created(admin, ORGANIZATIONS, json!({ "name": name })).await.id();
    let username = format!("owner-of-{name}");
    let id = user(admin, &organization, &username).await;
    let given = json!({ "userId": id, "roles": ["ORG_OWNER"] });
    done(admin, &format!("/resources/v3alpha/memberships?ctx.orgId={organization}"), given).await;
    (organization, tenant.log_in(admin, &id, &username).await)
}

async fn delete(client: &Client, path: &str) -> Answer {
    let answer = send(client.request(Method::DELETE, path)).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    answer
}

/// Returns what a read after a write returns.
async fn read(written: &Answer, client: &Client, path: &str) -> Answer {
    after(written, client.request(Method::GET, path)).await
}

/// Returns the role keys of a grant after a write; `None` where the grant is removed.
async fn keys(written: &Answer, client: &Client, path: &str) -> Option<Value> {
    let answer = read(written, client, path).await;
    let grant = if path.starts_with(GRANTS) { "projectGrant" } else { "userGrant" };
    let keys = &answer.body[grant][grant]["roleKeys"];
    (answer.status == 200).then(|| if keys.is_null() { json!([]) } else { keys.clone() })
}

#[tokio::test]
async fn a_removed_role_leaves_every_grant_and_its_key_is_free_again() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let (home, shop) = (&tenant.bootstrap.organization_id, project(&admin, &["a", "b"]).await);
    let grantee = created(&admin, ORGANIZATIONS, json!({ "name": "Grantee" })).await.id();
    let grant = json!({ "projectId": shop, "orgId": grantee, "roleKeys": ["a", "b"] });
    let grant = format!("{GRANTS}/{}", created(&admin, GRANTS, grant).await.id());
    let robot = user(&admin, home, "robot").await;
    let given = json!({ "userId": robot, "projectId": shop, "roleKeys": ["a"] });
    let given = created(&admin, USER_GRANTS, given).await;
    assert_eq!(given.body["details"]["resourceOwner"]["id"], home.as_str(), "it is of who gave it");
    let given = format!("{USER_GRANTS}/{}", given.id());

    let filters = json!([{ "projectId": shop }, { "key": { "name": "a" } }]);
    let found = post(&admin, &format!("{ROLES}/_search"), filters).await;
    let first = found.body["result"][0]["details"]["id"].as_str().expect("it is found").to_owned();
    let taken = json!({ "projectId": shop, "key": "a", "displayName": "Another" });
    post(&admin, ROLES, taken).await.assert_refused("a key twice", 409, "RESOURCE_EXISTS");
    let removed = delete(&admin, &format!("{ROLES}/{first}")).await;
    assert_eq!(keys(&removed, &admin, &grant).await, Some(json!(["b"])));
    assert_eq!(keys(&removed, &admin, &given).await, Some(json!([])), "it still lets the user in");

    let again = role(&admin, &shop, "a").await;
    assert_eq!(again.id(), first, "the id follows from project and key");
    assert_eq!(keys(&again, &admin, &given).await, Some(json!([])), "nobody gets it back");
    let other = project(&admin, &[]).await;
    assert_ne!(role(&admin, &other, "a").await.id(), first, "in another project");
}

#[tokio::test]
async fn an_organization_gives_what_was_granted_to_it_and_nothing_else() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let shop = project(&admin, &["a", "b", "c"]).await;
    let (acme, of_acme) = owner(&tenant, &admin, "acme").await;
    let (_, of_other) = owner(&tenant, &admin, "other").await;
    let grant = json!({ "projectId": shop, "orgId": acme, "roleKeys": ["a", "b"] });
    post(&of_acme, GRANTS, grant.clone()).await.assert_refused("by whom it is for", 404, "RESOURCE_NOT_FOUND");
    let granted = created(&admin, GRANTS, grant.clone()).await;
    post(&admin, GRANTS, grant).await.assert_refused("to one twice", 409, "RESOURCE_EXISTS");
    let home = json!({ "projectId": shop, "orgId": tenant.bootstrap.organization_id });
    post(&admin, GRANTS, home).await.assert_refused("to its own", 400, "INVALID_REQUEST");
    let (grant, grant_path) = (granted.id(), format!("{GRANTS}/{}", granted.id()));

    // Who it is for sees it, and changes nothing of it; nobody else does.
    assert_eq!(keys(&granted, &of_acme, &grant_path).await, Some(json!(["a", "b"])));
    assert_eq!(keys(&granted, &of_other, &grant_path).await, None);
    for (client, total) in [(&of_acme, "1"), (&of_other, "0"), (&admin, "1")] {
        let found = after(&granted, client.request(Method::POST, &format!("{GRANTS}/_search")).json(&json!([]))).await;
        assert_eq!(found.body["details"]["totalResult"], total, "{}", found.body);
    }
    let patch = of_acme.request(Method::PATCH, &grant_path).json(&json!({ "roleKeys": { "values": ["a", "c"] } }));
    send(patch).await.assert_refused("changed by whom it is for", 404, "RESOURCE_NOT_FOUND");

    let robot = user(&of_acme, &acme, "robot").await;
    let give = |keys: Value| json!({ "userId": robot, "projectId": shop, "projectGrantId": grant, "roleKeys": keys });
    post(&of_acme, USER_GRANTS, give(json!(["c"]))).await.assert_refused("what it has not", 400, "INVALID_REQUEST");
    let without = json!({ "userId": robot, "projectId": shop });
    post(&of_acme, USER_GRANTS, without).await.assert_refused("as if it were its own", 404, "RESOURCE_NOT_FOUND");
    post(&of_other, USER_GRANTS, give(json!([]))).await.assert_refused("of others", 404, "RESOURCE_NOT_FOUND");
    let given = created(&of_acme, USER_GRANTS, give(json!(["a", "b"]))).await;
    assert_eq!(given.body["details"]["resourceOwner"]["id"], acme.as_str());
    post(&of_acme, USER_GRANTS, give(json!([]))).await.assert_refused("twice", 409, "RESOURCE_EXISTS");
    let own = json!({ "userId": robot, "projectId": shop, "roleKeys": ["c"] });
    let own = format!("{USER_GRANTS}/{}", created(&admin, USER_GRANTS, own).await.id());
    let given_path = format!("{USER_GRANTS}/{}", given.id());
    let patch = of_acme.request(Method::PATCH, &given_path).json(&json!({ "roleKeys": { "values": ["c"] } }));
    send(patch).await.assert_refused("what it has not, later", 400, "INVALID_REQUEST");

    // What is granted no more is taken from whom it was given to, and from nobody else.
    let patch = admin.request(Method::PATCH, &grant_path).json(&json!({ "roleKeys": { "values": ["b", "c"] } }));
    let fewer = send(patch).await;
    assert_eq!(fewer.status, 200, "{}", fewer.body);
    assert_eq!(keys(&fewer, &of_acme, &given_path).await, Some(json!(["b"])));
    assert_eq!(keys(&fewer, &admin, &own).await, Some(json!(["c"])));
    let removed = delete(&admin, &grant_path).await;
    assert_eq!(keys(&removed, &of_acme, &given_path).await, None);
    assert_eq!(keys(&removed, &admin, &own).await, Some(json!(["c"])));
}

#[tokio::test]
async fn grants_go_with_what_they_stand_on() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let home = &tenant.bootstrap.organization_id;
    // By what is removed: the user, the project, the organization that it was granted to.
    for (round, removing) in ["user", "project", "organization"].into_iter().enumerate() {
        let shop = project(&admin, &["a"]).await;
        let acme = created(&admin, ORGANIZATIONS, json!({ "name": format!("Acme {round}") })).await.id();
        let robot = user(&admin, home, &format!("robot-{round}")).await;
        let grant = json!({ "projectId": shop, "orgId": acme, "roleKeys": ["a"] });
        let grant = created(&admin, GRANTS, grant).await.id();
        let by_grant = json!({ "userId": robot, "projectId": shop, "projectGrantId": grant, "roleKeys": ["a"] });
        let by_grant = format!("{USER_GRANTS}/{}", created(&admin, USER_GRANTS, by_grant).await.id());
        let own = json!({ "userId": robot, "projectId": shop, "roleKeys": ["a"] });
        let own = format!("{USER_GRANTS}/{}", created(&admin, USER_GRANTS, own).await.id());
        let grant = format!("{GRANTS}/{grant}");

        let (path, left) = match removing {
            "user" => (format!("{USERS}/{robot}"), [true, false, false]),
            "project" => (format!("{PROJECTS}/{shop}"), [false, false, false]),
            _ => (format!("{ORGANIZATIONS}/{acme}"), [false, false, true]),
        };
        let removed = delete(&admin, &path).await;
        for (path, is_left) in [grant, by_grant, own].iter().zip(left) {
            assert_eq!(keys(&removed, &admin, path).await.is_some(), is_left, "{removing}: {path}");
        }
        let roles = after(
            &removed,
            admin.request(Method::POST, &format!("{ROLES}/_search")).json(&json!([{ "projectId": shop }])),
        );
        let expected = if removing == "project" { "0" } else { "1" };
        assert_eq!(roles.await.body["details"]["totalResult"], expected, "{removing}: roles");
    }
}

#[tokio::test]
async fn a_role_that_many_have_is_swept_out_before_another_takes_its_key() {
    const MANY: usize = 230;
    let tenant = Tenant::start().await;
    let admin = &tenant.client().await;
    let (home, shop) = (&tenant.bootstrap.organization_id, &project(admin, &["a"]).await);
    let grants = stream::iter(0..MANY).map(|number| async move {
        let robot = user(admin, home, &format!("robot-{number}")).await;
        created(admin, USER_GRANTS, json!({ "userId": robot, "projectId": shop, "roleKeys": ["a"] })).await.id()
    });
    assert_eq!(grants.buffer_unordered(16).count().await, MANY);
    let found = post(admin, &format!("{ROLES}/_search"), json!([{ "projectId": shop }])).await;
    let role = found.body["result"][0]["details"]["id"].as_str().expect("it is found").to_owned();

    delete(admin, &format!("{ROLES}/{role}")).await;
    let again = eventually("its key is free", async || {
        let answer = post(admin, ROLES, json!({ "projectId": shop, "key": "a", "displayName": "a" })).await;
        if answer.status != 201 {
            answer.assert_refused("while grants name it", 409, "NAME_BEING_RELEASED");
        }
        (answer.status == 201).then_some(answer)
    });
    let again = again.await;
    let search = admin.request(Method::POST, &format!("{USER_GRANTS}/_search"));
    let having = after(&again, search.json(&json!([{ "roleKey": "a" }]))).await;
    assert_eq!(having.body["details"]["totalResult"], "0", "nobody has the new one");
}

#[tokio::test]
async fn nothing_of_another_instance_can_be_granted() {
    let tenant = Tenant::start().await;
    let (admin, elsewhere) = (tenant.client().await, tenant.shared.instance().await);
    let foreign = elsewhere.client().await;
    let (own, theirs) = (project(&admin, &["a"]).await, project(&foreign, &["a"]).await);
    let acme = created(&foreign, ORGANIZATIONS, json!({ "name": "Acme" })).await.id();
    let (robot, stranger) = (
        user(&admin, &tenant.bootstrap.organization_id, "robot").await,
        user(&foreign, &elsewhere.bootstrap.organization_id, "stranger").await,
    );
    let grant = created(&foreign, GRANTS, json!({ "projectId": theirs, "orgId": acme })).await.id();
    for (case, path, body) in [
        ("a role of their project", ROLES, json!({ "projectId": theirs, "key": "b", "displayName": "b" })),
        ("their project", GRANTS, json!({ "projectId": theirs, "orgId": tenant.bootstrap.organization_id })),
        ("to their organization", GRANTS, json!({ "projectId": own, "orgId": acme })),
        ("roles of their project", USER_GRANTS, json!({ "userId": robot, "projectId": theirs })),
        ("to their user", USER_GRANTS, json!({ "userId": stranger, "projectId": own })),
        ("by their grant", USER_GRANTS, json!({ "userId": robot, "projectId": own, "projectGrantId": grant })),
    ] {
        post(&admin, path, body).await.assert_refused(case, 404, "RESOURCE_NOT_FOUND");
    }
}
