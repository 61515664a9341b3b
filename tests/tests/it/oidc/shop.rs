//! A project with roles, an app that introspects tokens, and users with and without grants.

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, ServiceUser, created, done, send, service_user},
    tenant::Tenant,
};

pub(super) const API: &str = "/resources/v3alpha";
pub(super) const ROLES: &str = "urn:platform:iam:org:projects:roles";

/// The project, with its app and users.
pub(super) struct Shop {
    pub(super) tenant: Tenant,
    pub(super) admin: Client,
    pub(super) project: String,
    /// The app that introspects tokens, and its secret.
    pub(super) app: (String, String),
    pub(super) user: ServiceUser,
}

impl Shop {
    /// Creates a project with these policies and two roles, and a user with a secret and without grants.
    pub(super) async fn open(policies: Value) -> Self {
        let tenant = Tenant::start().await;
        let admin = tenant.client().await;
        let mut project = json!({ "name": "Shop" });
        project.as_object_mut().expect("it is one").extend(policies.as_object().expect("it is one").clone());
        let project = created(&admin, &format!("{API}/projects"), project).await.id();
        for key in ["admin", "clerk"] {
            let role = json!({ "projectId": project, "key": key, "displayName": key });
            created(&admin, &format!("{API}/roles"), role).await;
        }
        let app = json!({ "projectId": project, "name": "Checks", "api": {} });
        let app = done(&admin, &format!("{API}/apps"), app).await;
        let secret = app.body["clientSecret"].as_str().expect("it is shown").to_owned();
        let user = user(&admin, "robot", "").await;
        Self { app: (app.id(), secret), tenant, admin, project, user }
    }

    /// Gives the user roles, and returns the id of the grant.
    pub(super) async fn grant(&self, roles: &[&str]) -> String {
        let grant = json!({ "userId": self.user.user_id, "projectId": self.project, "roleKeys": roles });
        done(&self.admin, &format!("{API}/user_grants"), grant).await.id()
    }

    /// Sends a change, and waits until all read models have it.
    pub(super) async fn change(&self, method: Method, path: &str, body: Option<Value>) -> Answer {
        let request = self.admin.request(method, &format!("{API}/{path}")).header("prefer", "wait=10");
        let answer = send(body.iter().fold(request, RequestBuilder::json)).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer
    }

    /// Returns the scope of the audience of the project, and more.
    pub(super) fn scope(&self, more: &str) -> String {
        format!("openid urn:platform:iam:org:project:id:{}:aud {more}", self.project)
    }

    /// Requests a token of a user for the project.
    pub(super) async fn ask(&self, user: &ServiceUser, more: &str) -> Answer {
        let scope = self.scope(more);
        let form = [("grant_type", "client_credentials"), ("scope", &scope)];
        let request = self.admin.anonymous(Method::POST, "/oauth/v2/token");
        send(request.basic_auth(&user.client_id, Some(&user.client_secret)).form(&form)).await
    }

    /// Returns a token of the user for the project.
    pub(super) async fn token(&self, more: &str) -> String {
        let answer = self.ask(&self.user, more).await;
        answer.body["access_token"].as_str().unwrap_or_else(|| panic!("there is a token: {}", answer.body)).to_owned()
    }

    /// Introspects a token as the app.
    pub(super) async fn introspect(&self, token: &str) -> Value {
        let answer = self.introspected_by((&self.app.0, &self.app.1), token).await;
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert_eq!(answer.headers["cache-control"], "no-store", "123");
        answer.body
    }

    /// Introspects a token as another app.
    pub(super) async fn introspected_by(&self, (id, secret): (&str, &str), token: &str) -> Answer {
        let request = self.admin.anonymous(Method::POST, "/oauth/v2/introspect");
        send(request.basic_auth(id, Some(secret)).form(&[("token", token)])).await
    }
}

/// Creates a service user with a secret.
pub(super) async fn user(admin: &Client, name: &str, context: &str) -> ServiceUser {
    service_user(admin, (name, json!({})), context).await
}
