//! Roles on projects and on project grants: what they permit, and where they end.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, after, created, done, post, send},
    eventually,
    instance::Instance,
    tenant::Tenant,
};

const APPS: &str = "/resources/v3alpha/apps";
const GRANTS: &str = "/resources/v3alpha/project_grants";
const MEMBERSHIPS: &str = "/resources/v3alpha/memberships";
const ORGANIZATIONS: &str = "/resources/v3alpha/organizations";
const PROJECTS: &str = "/resources/v3alpha/projects";
const ROLES: &str = "/resources/v3alpha/roles";
const USER_GRANTS: &str = "/resources/v3alpha/user_grants";
const USERS: &str = "/resources/v3alpha/users";

/// An organization with two equal projects, and its owner.
struct Acme {
    tenant: Tenant,
    admin: Client,
    id: String,
    owner: Client,
    own: Project,
    other: Project,
}

/// A project with an object of each kind.
struct Project {
    id: String,
    app: String,
    role: String,
    grant: String,
    user_grant: String,
}

/// Returns the objects of a project, by their paths.
fn parts(project: &Project) -> [(&'static str, &str); 5] {
    let Project { id, app, role, grant, user_grant } = project;
    [(PROJECTS, id), (APPS, app), (ROLES, role), (GRANTS, grant), (USER_GRANTS, user_grant)]
}

impl Project {
    async fn new(owner: &Client, (name, user, grantee): (&str, &str, &str)) -> Self {
        let id = created(owner, PROJECTS, json!({ "name": name })).await.id();
        let of = async |path: &str, more: Value| {
            let mut body = json!({ "projectId": id });
            body.as_object_mut().expect("it is one").extend(more.as_object().expect("it is one").clone());
            created(owner, path, body).await.id()
        };
        let role = of(ROLES, json!({ "key": "a", "displayName": "A" })).await;
        Self {
            app: of(APPS, json!({ "name": name, "api": {} })).await,
            grant: of(GRANTS, json!({ "orgId": grantee, "roleKeys": ["a"] })).await,
            user_grant: of(USER_GRANTS, json!({ "userId": user, "roleKeys": ["a"] })).await,
            role,
            id,
        }
    }
}

impl Acme {
    async fn start() -> Self {
        let tenant = Tenant::start().await;
        let admin = tenant.client().await;
        let id = created(&admin, ORGANIZATIONS, json!({ "name": "Acme" })).await.id();
        let grantee = created(&admin, ORGANIZATIONS, json!({ "name": "Grantee" })).await.id();
        let (owner_id, owner) = user(&tenant, &admin, &id, "owner").await;
        done(&admin, &format!("{MEMBERSHIPS}?ctx.orgId={id}"), json!({ "userId": owner_id, "roles": ["ORG_OWNER"] }))
            .await;
        may_search(&owner).await;
        let own = Project::new(&owner, ("Own", &owner_id, &grantee)).await;
        let other = Project::new(&owner, ("Other", &owner_id, &grantee)).await;
        Self { tenant, admin, id, owner, own, other }
    }

    /// Creates a user of the organization, with these roles in a project and in the complete organization.
    async fn member(&self, name: &str, of_project: &[&str], of_all: &[&str]) -> (String, Client) {
        let (id, client) = user(&self.tenant, &self.admin, &self.id, name).await;
        if !of_all.is_empty() {
            let path = format!("{MEMBERSHIPS}?ctx.orgId={}", self.id);
            done(&self.admin, &path, json!({ "userId": id, "roles": of_all })).await;
        }
        let given = json!({ "userId": id, "roles": of_project, "projectId": self.own.id });
        let given = done(&self.owner, MEMBERSHIPS, given).await;
        assert_eq!(
            given.body["details"]["resourceOwner"]["id"],
            self.id.as_str(),
            "it is of the project's organization"
        );
        may_search(&client).await;
        (id, client)
    }
}

async fn user(tenant: &Instance, admin: &Client, organization: &str, name: &str) -> (String, Client) {
    let wanted = json!({ "username": name, "service": {} });
    let id = done(admin, &format!("{USERS}?ctx.orgId={organization}"), wanted).await.id();
    let client = tenant.log_in(admin, &id, name).await;
    (id, client)
}

/// Waits until the roles of a caller are known.
async fn may_search(client: &Client) {
    let may = async || (post(client, &format!("{PROJECTS}/_search"), json!([])).await.status == 200).then_some(());
    eventually("its roles are known", may).await;
}

async fn request_by_id(client: &Client, method: Method, path: &str, id: &str) -> Answer {
    send(client.request(method, &format!("{path}/{id}"))).await
}

async fn patch(client: &Client, path: &str, id: &str, body: Value) -> Answer {
    send(client.request(Method::PATCH, &format!("{path}/{id}")).json(&body)).await
}

/// Returns the ids that a search finds.
async fn search_ids(client: &Client, path: &str, context: &str) -> Vec<String> {
    let answer = post(client, &format!("{path}/_search{context}"), json!([])).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    let all = answer.body["result"].as_array().into_iter().flatten();
    let found: Vec<_> = all.filter_map(|one| Some(one["details"]["id"].as_str()?.to_owned())).collect();
    assert_eq!(answer.body["details"]["totalResult"], found.len().to_string(), "{path}");
    found
}

fn refused(answer: &Answer, case: &str) {
    answer.assert_refused(case, 404, "RESOURCE_NOT_FOUND");
}

#[tokio::test]
async fn an_owner_of_a_project_has_all_of_it_and_nothing_else() {
    let acme = Acme::start().await;
    let Acme { own, other, .. } = &acme;
    let (_, member) = acme.member("member", &["PROJECT_OWNER"], &[]).await;
    for ((path, id), (_, hidden)) in parts(own).into_iter().zip(parts(other)) {
        let read = request_by_id(&member, Method::GET, path, id).await;
        assert_eq!(read.status, 200, "{path}: {}", read.body);
        refused(&request_by_id(&member, Method::GET, path, hidden).await, path);
        refused(&request_by_id(&member, Method::DELETE, path, hidden).await, path);
        for context in [String::new(), format!("?ctx.orgId={}", acme.id)] {
            assert_eq!(search_ids(&member, path, &context).await, [id], "{path}{context}");
        }
    }
    let renamed = patch(&member, PROJECTS, &own.id, json!({ "name": "Renamed" })).await;
    assert_eq!(renamed.status, 200, "{}", renamed.body);
    refused(&patch(&member, PROJECTS, &other.id, json!({ "name": "Renamed" })).await, "another's name");
    let denied = |answer: &Answer, case: &str| answer.assert_refused(case, 403, "PERMISSION_DENIED");
    denied(&post(&member, PROJECTS, json!({ "name": "New" })).await, "a new project");
    let in_organization = format!("{PROJECTS}?ctx.orgId={}", acme.id);
    denied(&post(&member, &in_organization, json!({ "name": "New" })).await, "a new project there");

    let app = |project: &Project| json!({ "projectId": project.id, "name": "New", "api": {} });
    let made = created(&member, APPS, app(own)).await.id();
    refused(&post(&member, APPS, app(other)).await, "an app of another");
    let key = json!({ "keyType": "KEY_TYPE_ED25519", "expirationDate": "2099-01-01T00:00:00Z" });
    let keys = |app: &str| format!("{APPS}/{app}/keys");
    let own_key = done(&member, &keys(&made), key.clone()).await.id();
    assert_eq!(search_ids(&member, &keys(&made), "").await, std::slice::from_ref(&own_key));
    assert_eq!(request_by_id(&member, Method::GET, &keys(&made), &own_key).await.status, 200);
    refused(&post(&member, &keys(&other.app), key.clone()).await, "a key of another's app");
    let hidden = done(&acme.owner, &keys(&other.app), key).await.id();
    assert!(search_ids(&member, &keys(&other.app), "").await.is_empty());
    refused(&request_by_id(&member, Method::GET, &keys(&other.app), &hidden).await, "another's key");
    assert_eq!(request_by_id(&member, Method::DELETE, &keys(&made), &own_key).await.status, 200);
    let role = |project: &Project| json!({ "projectId": project.id, "key": "b", "displayName": "B" });
    created(&member, ROLES, role(own)).await;
    refused(&post(&member, ROLES, role(other)).await, "a role of another");
    for (path, id) in [(USER_GRANTS, &own.user_grant), (GRANTS, &own.grant), (APPS, &own.app), (ROLES, &own.role)] {
        assert_eq!(request_by_id(&member, Method::DELETE, path, id).await.status, 200, "{path}");
    }
    assert_eq!(request_by_id(&acme.owner, Method::GET, PROJECTS, &other.id).await.status, 200);
}

/// Users can be named without being visible.
#[tokio::test]
async fn who_owns_a_project_gives_something_of_it_to_users_of_the_organization_by_their_ids() {
    let acme = Acme::start().await;
    let Acme { own, other, tenant, admin, .. } = &acme;
    let (_, member) = acme.member("member", &["PROJECT_OWNER"], &[]).await;
    let (_, viewer) = acme.member("viewer", &["PROJECT_OWNER_VIEWER"], &[]).await;
    let (colleague, _) = user(tenant, admin, &acme.id, "colleague").await;
    let (stranger, _) = user(tenant, admin, &tenant.bootstrap.organization_id, "stranger").await;
    let grant = |project: &Project, user: &str| json!({ "projectId": project.id, "userId": user, "roleKeys": ["a"] });
    let role = |project: &Project, user: &str| json!({ "projectId": project.id, "userId": user, "roles": ["PROJECT_OWNER_VIEWER"] });
    for (path, asked) in [(USER_GRANTS, &grant as &dyn Fn(&Project, &str) -> Value), (MEMBERSHIPS, &role)] {
        created(&member, path, asked(own, &colleague)).await;
        refused(&post(&member, path, asked(own, &stranger)).await, "a user of another organization");
        refused(&post(&member, path, asked(own, "1")).await, "a user that is not there");
        for user in [&colleague, &stranger] {
            let answer = post(&viewer, path, asked(own, user)).await;
            assert!([403, 404].contains(&answer.status.as_u16()), "who gives nothing: {}", answer.body);
            let answer = post(&member, path, asked(other, user)).await;
            assert!([403, 404].contains(&answer.status.as_u16()), "of another project: {}", answer.body);
        }
    }
    assert_eq!(post(&member, &format!("{USERS}/_search"), json!([])).await.status, 403, "it sees no users");
}

#[tokio::test]
async fn who_sees_all_of_an_organization_changes_only_its_own_project() {
    let acme = Acme::start().await;
    let Acme { own, other, .. } = &acme;
    let (_, manager) = acme.member("manager", &["PROJECT_OWNER"], &["ORG_OWNER_VIEWER"]).await;
    let (other_id, _) = user(&acme.tenant, &acme.admin, &acme.id, "somebody").await;
    let denied = |answer: &Answer, case: &str| answer.assert_refused(case, 403, "PERMISSION_DENIED");
    let grant = |project: &Project| json!({ "projectId": project.id, "userId": other_id });
    created(&manager, USER_GRANTS, grant(own)).await;
    denied(&post(&manager, USER_GRANTS, grant(other)).await, "of another project");
    let of = |project: Option<&Project>, roles: &[&str]| {
        let mut given = json!({ "userId": other_id, "roles": roles });
        if let Some(project) = project {
            given["projectId"] = json!(project.id);
        }
        given
    };
    let viewer = done(&manager, MEMBERSHIPS, of(Some(own), &["PROJECT_OWNER_VIEWER"])).await;
    denied(&post(&manager, MEMBERSHIPS, of(Some(other), &["PROJECT_OWNER_VIEWER"])).await, "in another project");
    let in_all = format!("{MEMBERSHIPS}?ctx.orgId={}", acme.id);
    denied(&post(&manager, &in_all, of(None, &["ORG_OWNER"])).await, "in all of the organization");
    let given = post(&manager, MEMBERSHIPS, of(Some(own), &["PROJECT_OWNER"])).await;
    given.assert_refused("once more", 409, "RESOURCE_EXISTS");
    let raised = patch(&manager, MEMBERSHIPS, &viewer.id(), json!({ "roles": ["PROJECT_OWNER"] })).await;
    assert_eq!(raised.status, 200, "{}", raised.body);
    let misfit = patch(&manager, MEMBERSHIPS, &viewer.id(), json!({ "roles": ["ORG_OWNER"] })).await;
    misfit.assert_refused("a role of the organization", 400, "INVALID_REQUEST");
    let shown = after(&raised, manager.request(Method::GET, &format!("{MEMBERSHIPS}/{}", viewer.id()))).await;
    assert_eq!(shown.body["membership"]["membership"]["projectId"], own.id.as_str(), "{}", shown.body);

    // Who may take over who has roles in a project must be able to give these.
    let (_, plain) = acme.member("plain", &["PROJECT_OWNER_VIEWER"], &["ORG_USER_MANAGER"]).await;
    let secret = post(&plain, &format!("{USERS}/{other_id}/_generate_secret"), json!({})).await;
    denied(&secret, "a secret of an owner of a project");
    denied(&patch(&plain, PROJECTS, &own.id, json!({ "name": "x" })).await, "a viewer writes");
}

/// A stored answer is repeated only for callers who still may send the command.
#[tokio::test]
async fn an_answer_is_given_once_more_while_the_role_is_held() {
    let acme = Acme::start().await;
    let (_, member) = acme.member("member", &["PROJECT_OWNER"], &[]).await;
    let app = json!({ "projectId": acme.own.id, "name": "New", "api": {} });
    let ask = async || send(member.request(Method::POST, APPS).header("idempotency-key", "once").json(&app)).await;
    let (first, again) = (ask().await, ask().await);
    assert_eq!((first.status, again.status), (StatusCode::CREATED, StatusCode::CREATED), "{}", again.body);
    assert_eq!((&first.body, again.body["clientSecret"].is_string()), (&again.body, true));
    let search = post(&acme.owner, &format!("{MEMBERSHIPS}/_search"), json!([{ "projectId": acme.own.id }])).await;
    let held = search.body["result"][0]["details"]["id"].as_str().expect("it is found").to_owned();
    let other = json!({ "userId": search.body["result"][0]["membership"]["userId"], "roles": ["PROJECT_OWNER"], "projectId": acme.other.id });
    done(&acme.owner, MEMBERSHIPS, other).await;
    assert_eq!(request_by_id(&acme.owner, Method::DELETE, MEMBERSHIPS, &held).await.status, 200);
    let lost = async || (ask().await.status == StatusCode::FORBIDDEN).then_some(());
    eventually("a role on another project is not enough", lost).await;
}

#[tokio::test]
async fn roles_on_a_project_go_with_it() {
    let acme = Acme::start().await;
    let (_, member) = acme.member("member", &["PROJECT_OWNER"], &[]).await;
    let of_project = json!([{ "projectId": acme.own.id }]);
    let search = format!("{MEMBERSHIPS}/_search");
    assert_eq!(post(&acme.owner, &search, of_project.clone()).await.body["details"]["totalResult"], "1");
    assert_eq!(request_by_id(&member, Method::DELETE, PROJECTS, &acme.own.id).await.status, 200);
    let gone = async || {
        let left = post(&acme.owner, &search, of_project.clone()).await;
        (left.body["details"]["totalResult"] == "0").then_some(())
    };
    eventually("it is gone", gone).await;
    let nothing = async || (post(&member, &format!("{PROJECTS}/_search"), json!([])).await.status == 403).then_some(());
    eventually("it has no role any more", nothing).await;
}

#[tokio::test]
async fn an_owner_of_a_granted_project_gives_its_roles_and_nothing_else() {
    let acme = Acme::start().await;
    let Acme { tenant, admin, own, other, .. } = &acme;
    let grants = async |id: &str| {
        request_by_id(admin, Method::GET, GRANTS, id).await.body["projectGrant"]["projectGrant"].clone()
    };
    let grantee = grants(&own.grant).await["orgId"].as_str().expect("it says to whom").to_owned();
    let (id, member) = user(tenant, admin, &grantee, "granted").await;
    let given = json!({ "userId": id, "roles": ["PROJECT_GRANT_OWNER"], "projectGrantId": own.grant });
    let membership = done(admin, MEMBERSHIPS, given).await;
    assert_eq!(membership.body["details"]["resourceOwner"]["id"], grantee.as_str());
    for (grant, count) in [(&own.grant, "1"), (&other.grant, "0")] {
        let found = post(admin, &format!("{MEMBERSHIPS}/_search"), json!([{ "projectGrantId": grant }])).await;
        assert_eq!(found.body["details"]["totalResult"], count, "{}", found.body);
    }
    let reads = async || (request_by_id(&member, Method::GET, GRANTS, &own.grant).await.status == 200).then_some(());
    eventually("it reads the grant", reads).await;
    assert_eq!(search_ids(&member, GRANTS, "").await, std::slice::from_ref(&own.grant));
    refused(&request_by_id(&member, Method::GET, GRANTS, &other.grant).await, "another grant");
    let theirs = request_by_id(&member, Method::DELETE, GRANTS, &own.grant).await;
    theirs.assert_refused("what was granted is the other's", 403, "PERMISSION_DENIED");
    refused(&request_by_id(&member, Method::GET, USER_GRANTS, &own.user_grant).await, "what the project's owner gave");

    let grant = |project: &Project| json!({ "projectId": project.id, "projectGrantId": project.grant, "userId": id, "roleKeys": ["a"] });
    let made = eventually("it gives roles", async || {
        let made = post(&member, USER_GRANTS, grant(own)).await;
        (made.status == 201).then_some(made)
    });
    let made = made.await;
    refused(&post(&member, USER_GRANTS, grant(other)).await, "of another grant");
    let of_project = json!({ "projectId": own.id, "userId": id, "roleKeys": ["a"] });
    refused(&post(&member, USER_GRANTS, of_project).await, "as the owner of the project does");
    let (_, of_project) = acme.member("of-project", &["PROJECT_OWNER"], &[]).await;
    let hidden = request_by_id(&of_project, Method::GET, USER_GRANTS, &made.id()).await;
    refused(&hidden, "what is given by a grant is for those to whom it was granted");
    assert!(!search_ids(&of_project, USER_GRANTS, "").await.contains(&made.id()));
    assert_eq!(request_by_id(&member, Method::DELETE, USER_GRANTS, &made.id()).await.status, 200);

    let removed = send(acme.owner.request(Method::DELETE, &format!("{GRANTS}/{}", own.grant))).await;
    assert_eq!(removed.status, 200, "{}", removed.body);
    let gone = async || {
        let left = post(admin, &format!("{MEMBERSHIPS}/_search"), json!([{ "projectGrantId": own.grant }])).await;
        (left.body["details"]["totalResult"] == "0").then_some(())
    };
    eventually("roles on the grant go with it", gone).await;
}

#[tokio::test]
async fn a_membership_of_a_part_names_one_that_is_there_and_roles_of_it() {
    let acme = Acme::start().await;
    let (id, _) = user(&acme.tenant, &acme.admin, &acme.id, "somebody").await;
    let home = &acme.tenant.bootstrap.organization_id;
    let own = acme.own.id.as_str();
    let of = |more: Value, roles: &[&str]| {
        let mut given = json!({ "userId": id, "roles": roles });
        given.as_object_mut().expect("it is one").extend(more.as_object().expect("it is one").clone());
        given
    };
    let both = json!({ "projectId": own, "projectGrantId": acme.own.grant });
    for (case, context, given, status) in [
        ("both", "", of(both, &["PROJECT_OWNER"]), 400),
        ("a role of the organization", "", of(json!({ "projectId": own }), &["ORG_OWNER"]), 400),
        ("a role of a project grant", "", of(json!({ "projectId": own }), &["PROJECT_GRANT_OWNER"]), 400),
        ("no project", &acme.id, of(json!({}), &["PROJECT_OWNER"]), 400),
        ("an unknown project", "", of(json!({ "projectId": "1" }), &["PROJECT_OWNER"]), 404),
        ("an unknown grant", "", of(json!({ "projectGrantId": "1" }), &["PROJECT_GRANT_OWNER"]), 404),
        ("a project of another organization", home, of(json!({ "projectId": own }), &["PROJECT_OWNER"]), 404),
    ] {
        let context = if context.is_empty() { String::new() } else { format!("?ctx.orgId={context}") };
        let answer = post(&acme.admin, &format!("{MEMBERSHIPS}{context}"), given).await;
        let reason = if status == 400 { "INVALID_REQUEST" } else { "RESOURCE_NOT_FOUND" };
        answer.assert_refused(case, status, reason);
    }
    let roles = format!("{MEMBERSHIPS}/_available_roles?ctx.orgId={}", acme.id);
    let roles = send(acme.admin.request(Method::GET, &roles)).await.body["roles"].clone();
    let held = |name: &str| roles.as_array().into_iter().flatten().find(|role| role["role"] == name).cloned();
    assert_eq!(held("PROJECT_OWNER").expect("it is listed")["heldIn"], "AVAILABLE_ROLE_PART_PROJECT");
    assert!(
        held("ORG_OWNER")
            .is_some_and(|role| role["heldIn"] == "AVAILABLE_ROLE_PART_UNSPECIFIED" || role["heldIn"].is_null())
    );
    assert!(held("IAM_OWNER").is_none());
    let in_project = done(&acme.owner, MEMBERSHIPS, of(json!({ "projectId": own }), &["PROJECT_OWNER"])).await;
    let in_other = json!({ "projectId": acme.other.id });
    assert_ne!(in_project.id(), done(&acme.owner, MEMBERSHIPS, of(in_other, &["PROJECT_OWNER"])).await.id());
}
