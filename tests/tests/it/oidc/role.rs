//! Roles of projects in tokens: of whom, by which requests, and users without a token.

use reqwest::Method;
use serde_json::{Value, json};
use tests::{
    client::{Client, ServiceUser, done, post, send},
    eventually,
};

use super::{
    shop::{API, ROLES, Shop, user},
    token::{assert_error, parts},
};

/// Returns the claim of the roles of a project.
fn claim(project: &str) -> String {
    format!("urn:platform:iam:org:project:{project}:roles")
}

/// Returns the keys of the project's roles in a token.
async fn keys(shop: &Shop, more: &str) -> Vec<String> {
    let [_, claims] = parts(&shop.token(more).await);
    let roles = claims[claim(&shop.project)].as_object().cloned().unwrap_or_default();
    roles.into_iter().map(|(key, _)| key).collect()
}

/// Returns the host of the instance, as for an organization without a domain of its own.
fn host(shop: &Shop) -> String {
    let issuer = shop.tenant.bootstrap.issuer.trim_start_matches("http://");
    issuer.split(':').next().unwrap_or_default().to_owned()
}

/// Waits until tokens have these roles.
async fn wait_for_roles(shop: &Shop, expected: &[&str]) {
    let probe = || async { (keys(shop, ROLES).await == expected).then_some(()) };
    eventually(&format!("tokens tell of {expected:?}"), probe).await;
}

#[tokio::test]
async fn a_token_tells_the_roles_that_its_scopes_ask_for() {
    let shop = Shop::open(json!({})).await;
    shop.grant(&["admin", "clerk"]).await;
    assert_eq!(keys(&shop, "").await, [""; 0], "nobody asked");
    assert_eq!(keys(&shop, ROLES).await, ["admin", "clerk"]);
    assert_eq!(keys(&shop, "urn:platform:iam:org:project:role:clerk").await, ["clerk"]);
    assert_eq!(keys(&shop, "urn:platform:iam:org:project:role:none").await, [""; 0]);
    let organization = &shop.tenant.bootstrap.organization_id;
    let only = format!("{ROLES} urn:platform:iam:org:roles:id:{organization}");
    let [_, claims] = parts(&shop.token(&format!("{only} urn:platform:iam:user:resourceowner")).await);
    let roles = &claims[claim(&shop.project)];
    let host = host(&shop);
    assert_eq!(roles, &json!({ "admin": { organization: host }, "clerk": { organization: host } }), "who gave them");
    assert_eq!(claims["urn:platform:iam:user:resourceowner:id"], json!(organization));
    assert_eq!(keys(&shop, &format!("{ROLES} urn:platform:iam:org:roles:id:0")).await, [""; 0]);
    // Of a project that the token is not for nothing is told.
    let form = [("grant_type", "client_credentials"), ("scope", &*format!("openid {ROLES}"))];
    let request = shop.admin.anonymous(Method::POST, "/oauth/v2/token");
    let request = request.basic_auth(&shop.user.client_id, Some(&shop.user.client_secret)).form(&form);
    let answer = send(request).await;
    let [_, claims] = parts(answer.body["access_token"].as_str().expect("there is a token"));
    assert_eq!(claims.get(claim(&shop.project)), None, "{claims}");

    let asserting = json!({ "projectRoleAssertion": true });
    shop.change(Method::PATCH, &format!("projects/{}", shop.project), Some(asserting)).await;
    eventually("the project asserts them", async || (keys(&shop, "").await == ["admin", "clerk"]).then_some(())).await;
}

#[tokio::test]
async fn what_roles_stand_on_takes_them_away() {
    let shop = Shop::open(json!({})).await;
    let grant = shop.grant(&["admin", "clerk"]).await;
    wait_for_roles(&shop, &["admin", "clerk"]).await;
    let path = format!("user_grants/{grant}");
    // Other roles are told at once, though what it was before was read a moment ago.
    for role in ["clerk", "admin", "clerk"] {
        shop.change(Method::PATCH, &path, Some(json!({ "roleKeys": { "values": [role] } }))).await;
        assert_eq!(keys(&shop, ROLES).await, [role]);
    }
    shop.change(Method::POST, &format!("{path}/_deactivate"), None).await;
    assert_eq!(keys(&shop, ROLES).await, [""; 0]);
    shop.change(Method::POST, &format!("{path}/_reactivate"), None).await;
    wait_for_roles(&shop, &["clerk"]).await;
    let path = format!("{API}/roles/_search");
    let found = post(&shop.admin, &path, json!([{ "projectId": shop.project }])).await;
    let roles = found.body["result"].as_array().expect("there are two");
    let clerk = roles.iter().find(|role| role["role"]["key"] == "clerk").expect("it is one of them");
    let id = clerk["details"]["id"].as_str().expect("it has an id");
    shop.change(Method::DELETE, &format!("roles/{id}"), None).await;
    assert_eq!(keys(&shop, ROLES).await, [""; 0]);
}

/// Creates an organization with a user.
async fn reseller(admin: &Client) -> (String, ServiceUser) {
    let organization = done(admin, &format!("{API}/organizations"), json!({ "name": "Reseller" })).await.id();
    let seller = user(admin, "seller", &format!("?ctx.orgId={organization}")).await;
    (organization, seller)
}

/// Waits until a user gets a token, or is refused.
async fn is_let_in(shop: &Shop, user: &ServiceUser, expected: bool) {
    let probe = || async { ((shop.ask(user, "").await.status == 200) == expected).then_some(()) };
    eventually(&format!("whether {} is let in: {expected}", user.client_id), probe).await;
    if !expected {
        assert_error("who is not let in", &shop.ask(user, "").await, 400, "invalid_scope");
    }
}

#[tokio::test]
async fn a_project_that_asks_for_a_grant_refuses_tokens_to_who_has_none() {
    let shop = Shop::open(json!({ "authorizationRequired": true })).await;
    is_let_in(&shop, &shop.user, false).await;
    let grant = shop.grant(&[]).await;
    is_let_in(&shop, &shop.user, true).await;
    let token = shop.token("").await;
    assert_eq!(shop.introspect(&token).await["active"], true);
    shop.change(Method::DELETE, &format!("user_grants/{grant}"), None).await;
    is_let_in(&shop, &shop.user, false).await;
    let ended = async || (shop.introspect(&token).await == json!({ "active": false })).then_some(());
    eventually("its tokens end with it", ended).await;
}

#[tokio::test]
async fn an_organization_that_a_project_is_granted_to_gives_its_roles() {
    let shop = Shop::open(json!({ "projectAccessRequired": true })).await;
    let (organization, seller) = reseller(&shop.admin).await;
    is_let_in(&shop, &shop.user, true).await;
    is_let_in(&shop, &seller, false).await;
    let granted = json!({ "projectId": shop.project, "orgId": organization, "roleKeys": ["admin", "clerk"] });
    let project_grant = done(&shop.admin, &format!("{API}/project_grants"), granted).await.id();
    is_let_in(&shop, &seller, true).await;
    let roles = json!({
        "userId": seller.user_id, "projectId": shop.project, "projectGrantId": project_grant, "roleKeys": ["admin"]
    });
    done(&shop.admin, &format!("{API}/user_grants"), roles).await;
    let roles_of = async |user| {
        let answer = shop.ask(user, ROLES).await;
        let [_, claims] = parts(answer.body["access_token"].as_str().expect("there is a token"));
        claims.get(claim(&shop.project)).cloned().unwrap_or(Value::Null)
    };
    let has_one = async || roles_of(&seller).await.get("admin").and_then(|by| by.get(&organization)).cloned();
    eventually("the role is told with who gave it", has_one).await;
    shop.change(Method::POST, &format!("project_grants/{project_grant}/_deactivate"), None).await;
    is_let_in(&shop, &seller, false).await;
}

/// A shop of one organization, and a seller of another one with a role in it by a project grant.
struct Resold {
    shop: Shop,
    home: String,
    organization: String,
    project_grant: String,
    seller: ServiceUser,
}

impl Resold {
    async fn open() -> Self {
        let mut shop = Shop::open(json!({})).await;
        let home = done(&shop.admin, &format!("{API}/organizations"), json!({ "name": "Maker" })).await.id();
        let project = done(&shop.admin, &format!("{API}/projects?ctx.orgId={home}"), json!({ "name": "Resold" })).await;
        shop.project = project.id();
        for key in ["admin", "clerk"] {
            let role = json!({ "projectId": shop.project, "key": key, "displayName": key });
            done(&shop.admin, &format!("{API}/roles"), role).await;
        }
        let (organization, seller) = reseller(&shop.admin).await;
        let granted = json!({ "projectId": shop.project, "orgId": organization, "roleKeys": ["admin", "clerk"] });
        let project_grant = done(&shop.admin, &format!("{API}/project_grants"), granted).await.id();
        let roles = json!({
            "userId": seller.user_id, "projectId": shop.project, "projectGrantId": project_grant,
            "roleKeys": ["admin", "clerk"]
        });
        done(&shop.admin, &format!("{API}/user_grants"), roles).await;
        Self { shop, home, organization, project_grant, seller }
    }

    /// Waits until tokens of the seller have these roles.
    async fn wait_for_roles(&self, step: &str, expected: &[&str]) {
        let probe = || async {
            let answer = self.shop.ask(&self.seller, ROLES).await;
            let [_, claims] = parts(answer.body["access_token"].as_str()?);
            let roles = claims[claim(&self.shop.project)].as_object().cloned().unwrap_or_default();
            (roles.keys().eq(expected)).then_some(())
        };
        eventually(&format!("{step}: tokens tell of {expected:?}"), probe).await;
    }
}

#[tokio::test]
async fn a_role_counts_as_long_as_all_that_it_stands_on() {
    let resold = Resold::open().await;
    let (shop, both) = (&resold.shop, ["admin", "clerk"]);
    resold.wait_for_roles("granted", &both).await;
    for path in [
        format!("project_grants/{}", resold.project_grant),
        format!("projects/{}", shop.project),
        format!("organizations/{}", resold.home),
    ] {
        shop.change(Method::POST, &format!("{path}/_deactivate"), None).await;
        resold.wait_for_roles(&path, &[]).await;
        shop.change(Method::POST, &format!("{path}/_reactivate"), None).await;
        resold.wait_for_roles(&path, &both).await;
    }
    let fewer = json!({ "roleKeys": { "values": ["clerk"] } });
    shop.change(Method::PATCH, &format!("project_grants/{}", resold.project_grant), Some(fewer)).await;
    resold.wait_for_roles("a role is taken from the project grant", &["clerk"]).await;
    shop.change(Method::POST, &format!("organizations/{}/_deactivate", resold.organization), None).await;
    assert_error("its organization is off", &shop.ask(&resold.seller, ROLES).await, 401, "invalid_client");
}

#[tokio::test]
async fn a_token_that_would_be_too_long_is_refused() {
    let shop = Shop::open(json!({ "projectRoleAssertion": true })).await;
    let keys: Vec<String> = (0..30).map(|number| format!("{number}{}", "x".repeat(190))).collect();
    for key in &keys {
        let role = json!({ "projectId": shop.project, "key": key, "displayName": "long" });
        done(&shop.admin, &format!("{API}/roles"), role).await;
    }
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let grant = shop.grant(&keys).await;
    let is_refused = async || (shop.ask(&shop.user, "").await.status == 400).then_some(());
    eventually("the roles are known", is_refused).await;
    assert_error("too long", &shop.ask(&shop.user, "").await, 400, "invalid_scope");
    let fewer = json!({ "roleKeys": { "values": &keys[..2] } });
    shop.change(Method::PATCH, &format!("user_grants/{grant}"), Some(fewer)).await;
    let is_given = async || (shop.ask(&shop.user, "").await.status == 200).then_some(());
    eventually("fewer fit", is_given).await;
}
