//! Roles of users who may create something of their own: projects in an organization, organizations on an instance.

use reqwest::Method;
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, after, done, post, send},
    eventually,
    tenant::{Tenant, new_name},
};

const MEMBERSHIPS: &str = "/resources/v3alpha/memberships";
const ORGANIZATIONS: &str = "/resources/v3alpha/organizations";
const PROJECTS: &str = "/resources/v3alpha/projects";
const USERS: &str = "/resources/v3alpha/users";

/// An instance with an organization.
struct Acme {
    tenant: Tenant,
    admin: Client,
    id: String,
}

impl Acme {
    async fn start() -> Self {
        let tenant = Tenant::start().await;
        let admin = tenant.client().await;
        let id = done(&admin, ORGANIZATIONS, json!({ "name": "Acme" })).await.id();
        Self { tenant, admin, id }
    }

    /// Returns a path with the context of the organization in its query.
    fn path(&self, path: &str) -> String {
        format!("{path}?ctx.orgId={}", self.id)
    }

    /// Creates a user of the organization, with a role in the context of a path.
    async fn user(&self, name: &str, path: &str, role: &str) -> (String, Client) {
        let wanted = json!({ "username": name, "service": {} });
        let id = done(&self.admin, &self.path(USERS), wanted).await.id();
        let client = self.tenant.log_in(&self.admin, &id, name).await;
        done(&self.admin, path, json!({ "userId": id, "roles": [role] })).await;
        (id, client)
    }

    /// Returns the memberships of a user in its organization.
    async fn memberships(&self, user: &str, made: &Answer) -> Vec<Value> {
        let filter = json!([{ "userId": user }]);
        let search = self.admin.request(Method::POST, &format!("{MEMBERSHIPS}/_search")).json(&filter);
        let found = after(made, search).await;
        assert_eq!(found.status, 200, "{}", found.body);
        found.body["result"].as_array().cloned().unwrap_or_default()
    }
}

/// Creates an object as soon as the caller's role is known, and returns the answer.
async fn created(client: &Client, path: &str, name: &str) -> Answer {
    eventually("it may create it", async || {
        let answer = post(client, path, json!({ "name": name })).await;
        (answer.status == 201).then_some(answer)
    })
    .await
}

async fn get(client: &Client, path: &str, made: &Answer) -> Answer {
    after(made, client.request(Method::GET, path)).await
}

#[tokio::test]
async fn who_creates_projects_owns_these_and_no_others() {
    let acme = Acme::start().await;
    let other = done(&acme.admin, &acme.path(PROJECTS), json!({ "name": "Other" })).await;
    let (id, creator) = acme.user("creator", &acme.path(MEMBERSHIPS), "ORG_PROJECT_CREATOR").await;
    let made = created(&creator, PROJECTS, "Own").await;
    let project = format!("{PROJECTS}/{}", made.id());

    let held = acme.memberships(&id, &made).await;
    let own = held.iter().find(|held| held["membership"]["projectId"] == made.id()).expect("it has a role on it");
    assert_eq!(own["membership"]["roles"], json!(["PROJECT_OWNER"]));
    assert_eq!((held.len(), &own["details"]["resourceOwner"]["id"]), (2, &json!(acme.id)), "{held:?}");

    assert_eq!(get(&creator, &project, &made).await.status, 200, "it reads it");
    let renamed = send(creator.request(Method::PATCH, &project).json(&json!({ "name": "Mine" }))).await;
    assert_eq!(renamed.status, 200, "it changes it: {}", renamed.body);
    let app = json!({ "projectId": made.id(), "name": "App", "api": {} });
    assert_eq!(post(&creator, "/resources/v3alpha/apps", app).await.status, 201);
    let found = after(&made, creator.request(Method::POST, &format!("{PROJECTS}/_search")).json(&json!([]))).await;
    assert_eq!(found.body["details"]["totalResult"], "1", "it finds no other: {}", found.body);

    let hidden = format!("{PROJECTS}/{}", other.id());
    for (method, body) in
        [(Method::GET, None), (Method::PATCH, Some(json!({ "name": "Taken" }))), (Method::DELETE, None)]
    {
        let request = creator.request(method.clone(), &hidden);
        let answer = send(if let Some(body) = body { request.json(&body) } else { request }).await;
        answer.assert_refused(method.as_str(), 404, "RESOURCE_NOT_FOUND");
    }
    let elsewhere = format!("{PROJECTS}?ctx.orgId={}", acme.tenant.bootstrap.organization_id);
    let elsewhere = post(&creator, &elsewhere, json!({ "name": "X" })).await;
    elsewhere.assert_refused("in another organization", 404, "RESOURCE_NOT_FOUND");
}

#[tokio::test]
async fn who_may_change_all_projects_gets_no_role_on_what_it_creates() {
    let acme = Acme::start().await;
    for (name, role) in [("owner", "ORG_OWNER"), ("global", "PROJECT_OWNER_GLOBAL")] {
        let (id, client) = acme.user(name, &acme.path(MEMBERSHIPS), role).await;
        let made = created(&client, PROJECTS, name).await;
        let held = acme.memberships(&id, &made).await;
        assert_eq!((held.len(), &held[0]["membership"]["roles"]), (1, &json!([role])), "{held:?}");
    }
}

#[tokio::test]
async fn roles_of_their_own_are_given_by_those_who_give_roles_there() {
    let acme = Acme::start().await;
    let (_, creator) = acme.user("creator", &acme.path(MEMBERSHIPS), "ORG_PROJECT_CREATOR").await;
    let (_, manager) = acme.user("manager", &acme.path(MEMBERSHIPS), "ORG_USER_MANAGER").await;
    let (_, owner) = acme.user("owner", &acme.path(MEMBERSHIPS), "ORG_OWNER").await;
    let made = created(&creator, PROJECTS, "Own").await;
    let (user, _) = acme.user("somebody", &acme.path(MEMBERSHIPS), "ORG_USER_SELF_MANAGER").await;
    let wanted = |user: &str, roles: &[&str]| json!({ "userId": user, "roles": roles });
    eventually("the manager is one", async || {
        let made = post(&manager, &acme.path(USERS), json!({ "username": new_name(), "service": {} })).await;
        (made.status == 201).then_some(())
    })
    .await;
    for role in ["ORG_PROJECT_CREATOR", "ORG_USER_SELF_MANAGER", "ORG_OWNER"] {
        // The creator sees no users.
        let (unseen, seen) = ((404, "RESOURCE_NOT_FOUND"), (403, "PERMISSION_DENIED"));
        for (name, client, (status, reason)) in [("creator", &creator, unseen), ("manager", &manager, seen)] {
            let answer = post(client, &acme.path(MEMBERSHIPS), wanted(&user, &[role])).await;
            answer.assert_refused(&format!("{name} gives {role}"), status, reason);
        }
    }
    let mut of_project = wanted(&user, &["ORG_PROJECT_CREATOR"]);
    of_project["projectId"] = json!(made.id());
    let answer = post(&creator, MEMBERSHIPS, of_project).await;
    assert_eq!(answer.status, 400, "it is no role of a project: {}", answer.body);
    created(&owner, PROJECTS, "Another").await;
    let global = post(&owner, MEMBERSHIPS, wanted(&user, &["SELF_MANAGEMENT_GLOBAL"])).await;
    global.assert_refused("an owner of the organization", 403, "PERMISSION_DENIED");
    let id = done(&acme.admin, &acme.path(USERS), json!({ "username": "new", "service": {} })).await.id();
    let given =
        post(&owner, &acme.path(MEMBERSHIPS), wanted(&id, &["ORG_PROJECT_CREATOR", "ORG_USER_SELF_MANAGER"])).await;
    assert_eq!(given.status, 201, "{}", given.body);
}

#[tokio::test]
async fn who_manages_itself_creates_organizations_and_gets_no_role_in_them() {
    let acme = Acme::start().await;
    let (id, client) = acme.user("self", MEMBERSHIPS, "SELF_MANAGEMENT_GLOBAL").await;
    let made = created(&client, ORGANIZATIONS, "Mine").await;
    assert_eq!(acme.memberships(&id, &made).await.len(), 1);
    let read = get(&client, &format!("{ORGANIZATIONS}/{}", made.id()), &made).await;
    assert!([403, 404].contains(&read.status.as_u16()), "{}", read.body);
    let deleted = send(client.request(Method::DELETE, &format!("{USERS}/{id}"))).await;
    deleted.assert_refused("no operation asks for user.self.delete yet", 403, "PERMISSION_DENIED");
    let settings = get(&client, "/settings/v3alpha/languages", &made).await;
    assert_eq!(settings.status, 200, "it reads settings: {}", settings.body);
}
