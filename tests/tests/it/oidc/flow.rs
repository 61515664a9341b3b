//! An app, a person, and a login page of the test's own: the code flow, step by step.

use std::collections::BTreeMap;

use base::secret::{random_secret, sha256};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use reqwest::{Method, RequestBuilder, StatusCode, Url};
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, done, post, send},
    eventually,
    tenant::{Tenant, new_name},
};

pub(crate) const API: &str = "/resources/v3alpha";
pub(crate) const PASSWORD: &str = "nine-lives-of-a-tabby-cat";
pub(crate) const CALLBACK: &str = "https://shop.example/callback";
const LOGIN: &str = "https://login.example/start";
/// The PKCE verifier of a test's app.
pub(crate) const VERIFIER: &str = "the-app-draws-something-random-and-long-enough";

/// Parameters by name.
pub(crate) type Parameters = BTreeMap<String, String>;

/// An instance with a project, an app in which people log in, and a person.
pub(crate) struct Flow<T = Tenant> {
    pub(crate) tenant: T,
    pub(crate) admin: Client,
    pub(crate) project: String,
    pub(crate) app: App,
    /// The id of the person, and the user name.
    pub(crate) person: (String, String),
}

/// An app with its credentials.
#[derive(Clone)]
pub(crate) struct App {
    pub(crate) id: String,
    pub(crate) secret: Option<String>,
}

/// Returns the challenge of a verifier.
pub(crate) fn challenge(verifier: &str) -> String {
    URL_SAFE_NO_PAD.encode(sha256(verifier.as_bytes()))
}

/// Parameters, of which those that are given come after those that a request has that is right.
pub(crate) fn parameters(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Returns the parameters in the query of a URL, or in its fragment.
pub(crate) fn answered(url: &str) -> Parameters {
    let url: Url = url.parse().unwrap_or_else(|_| panic!("it is a URL: {url}"));
    let fragment = Url::parse(&format!("x:?{}", url.fragment().unwrap_or_default())).expect("it is one");
    url.query_pairs().chain(fragment.query_pairs()).map(|(name, value)| (name.into(), value.into())).collect()
}

/// Creates a person of an instance with a password, and returns the id and the user name.
pub(crate) async fn person(admin: &Client) -> (String, String) {
    let name = new_name();
    let user = json!({ "username": name, "human": {
        "data": { "given_name": "Radia", "family_name": "Perlman", "locale": "en", "address": { "country": "US" } },
        "email": { "address": format!("{name}@example.com") },
        "phone": { "number": "+15550001234" },
        "password": { "password": PASSWORD },
    } });
    (done(admin, &format!("{API}/users"), user).await.id(), name)
}

impl App {
    /// Creates an app of a project with these settings in addition to the common ones.
    pub(crate) async fn create(admin: &Client, project: &str, settings: Value) -> Self {
        let mut oidc = json!({ "redirectUris": [CALLBACK], "loginUri": LOGIN });
        oidc.as_object_mut().expect("it is one").extend(settings.as_object().expect("settings are an object").clone());
        let app = json!({ "projectId": project, "name": "Shop", "oidc": oidc });
        let made = done(admin, &format!("{API}/apps"), app).await;
        Self { id: made.id(), secret: made.body["clientSecret"].as_str().map(str::to_owned) }
    }

    /// Returns the settings of an app that cannot keep a secret.
    pub(crate) fn public() -> Value {
        json!({ "appType": "OIDC_APP_TYPE_USER_AGENT", "authMethodType": "OIDC_AUTH_METHOD_TYPE_NONE" })
    }
}

impl Flow {
    /// Starts a flow with an app that cannot keep a secret.
    pub(crate) async fn start() -> Self {
        Self::with(App::public()).await
    }

    /// Starts a flow with an app with these settings.
    pub(crate) async fn with(settings: Value) -> Self {
        let tenant = Tenant::start().await;
        let admin = tenant.client().await;
        Self::on(tenant, admin, settings).await
    }
}

impl<T> Flow<T> {
    /// Starts a flow on an instance that the test has started.
    pub(crate) async fn on(tenant: T, admin: Client, settings: Value) -> Self {
        let project = done(&admin, &format!("{API}/projects"), json!({ "name": "Shop" })).await.id();
        let app = App::create(&admin, &project, settings).await;
        let person = person(&admin).await;
        Self { tenant, admin, project, app, person }
    }

    /// Returns the parameters of a valid request of the app, with other values, or without those that are empty.
    pub(crate) fn authorize_parameters(&self, others: &[(&str, &str)]) -> Vec<(String, String)> {
        let challenge = challenge(VERIFIER);
        let mut asked: Parameters = parameters(&[
            ("client_id", &self.app.id),
            ("redirect_uri", CALLBACK),
            ("response_type", "code"),
            ("scope", "openid profile email"),
            ("state", "a b&c"),
            ("nonce", "n-0S6_WzA2Mj"),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ])
        .into_iter()
        .collect();
        asked.extend(parameters(others));
        asked.into_iter().filter(|(_, value)| !value.is_empty()).collect()
    }

    /// Sends an authorization request of the app.
    pub(crate) async fn sent(&self, parameters: &[(String, String)]) -> Answer {
        send(self.admin.anonymous(Method::GET, "/oauth/v2/authorize").query(parameters)).await
    }

    /// Sends an authorization request of the app, and returns its id.
    pub(crate) async fn waiting(&self, others: &[(&str, &str)]) -> String {
        let answer = self.sent(&self.authorize_parameters(others)).await;
        let url = location(&answer);
        assert!(url.starts_with(LOGIN), "it is led to log in: {url}");
        answered(&url).remove("authRequest").unwrap_or_else(|| panic!("it waits: {url}"))
    }

    /// Reactivates something, and waits until the app can send people.
    pub(crate) async fn switch_on(&self, path: &str) {
        done(&self.admin, &format!("{path}/_reactivate"), json!({})).await;
        eventually("the app is on", async || {
            let answer = self.sent(&self.authorize_parameters(&[])).await;
            (answer.status == StatusCode::FOUND).then_some(())
        })
        .await;
    }

    /// Creates a session in which the person and the password are checked, and returns its id and its token.
    pub(crate) async fn session(&self) -> (String, String) {
        let checks = json!({ "user": { "userId": self.person.0 }, "password": { "password": PASSWORD } });
        let made = post(&self.admin, &format!("{API}/sessions"), json!({ "checks": checks })).await;
        let token = made.body["sessionToken"].as_str().unwrap_or_else(|| panic!("a session: {}", made.body));
        (made.id(), token.to_owned())
    }

    /// Finishes a request with a session, as the login page.
    pub(crate) async fn finished(&self, request: &str, session: &str) -> Answer {
        let path = format!("{API}/auth_requests/{request}/_finish");
        post(&self.admin, &path, json!({ "sessionToken": session })).await
    }

    /// Logs the person in, in a session of its own, and returns the answer to the app, and the id of the session.
    pub(crate) async fn log_in(&self, others: &[(&str, &str)]) -> (Parameters, String) {
        let request = self.waiting(others).await;
        let (id, token) = self.session().await;
        let answer = self.finished(&request, &token).await;
        let url = answer.body["callbackUrl"].as_str().unwrap_or_else(|| panic!("it is finished: {}", answer.body));
        (answered(url), id)
    }

    /// Returns a request of the app for tokens with a code, with other values, or without those that are empty.
    pub(crate) fn redeeming(&self, code: &str, others: &[(&str, &str)]) -> RequestBuilder {
        let mut form: Parameters = parameters(&[
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", CALLBACK),
            ("code_verifier", VERIFIER),
        ])
        .into_iter()
        .collect();
        if self.app.secret.is_none() {
            form.insert("client_id".to_owned(), self.app.id.clone());
        }
        form.extend(parameters(others));
        form.retain(|_, value| !value.is_empty());
        let request = self.admin.anonymous(Method::POST, "/oauth/v2/token").form(&form);
        match &self.app.secret {
            Some(secret) if !others.iter().any(|(name, _)| name.starts_with("client_")) => {
                request.basic_auth(&self.app.id, Some(secret))
            }
            _ => request,
        }
    }

    /// Returns what the app gets for a code.
    pub(crate) async fn redeemed(&self, code: &str) -> Value {
        let answer = send(self.redeeming(code, &[])).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
        assert_eq!(answer.headers["cache-control"], "no-store");
        answer.body
    }

    /// Logs the person in, and returns the tokens, and the id of the session.
    pub(crate) async fn tokens(&self, others: &[(&str, &str)]) -> (Value, String) {
        let (answer, session) = self.log_in(others).await;
        (self.redeemed(&answer["code"]).await, session)
    }

    /// Returns a request of the app for the next tokens, with other values, or without those that are empty.
    pub(crate) fn refreshing(&self, token: &str, others: &[(&str, &str)]) -> RequestBuilder {
        let fixed = [("grant_type", "refresh_token"), ("refresh_token", token)];
        let without = [("code", ""), ("redirect_uri", ""), ("code_verifier", "")];
        self.redeeming("", &[&without[..], &fixed, others].concat())
    }

    /// Returns what the app gets for a refresh token.
    pub(crate) async fn refreshed(&self, token: &str) -> Value {
        let answer = send(self.refreshing(token, &[])).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
        assert_eq!(answer.headers["cache-control"], "no-store");
        answer.body
    }

    /// Requests userinfo with an access token.
    pub(crate) async fn userinfo(&self, token: &str) -> Answer {
        send(self.admin.anonymous(Method::GET, "/oidc/v1/userinfo").bearer_auth(token)).await
    }
}

/// Returns the location that an answer redirects to.
pub(crate) fn location(answer: &Answer) -> String {
    let location = answer.headers.get("location").unwrap_or_else(|| panic!("it leads on: {answer:?}"));
    assert!([StatusCode::FOUND, StatusCode::SEE_OTHER].contains(&answer.status), "{answer:?}");
    assert_eq!(answer.headers["cache-control"], "no-store");
    location.to_str().expect("it is text").to_owned()
}

/// Returns the access token of an answer.
pub(crate) fn access_token(tokens: &Value) -> &str {
    tokens["access_token"].as_str().unwrap_or_else(|| panic!("there is one: {tokens}"))
}

/// Returns the refresh token of an answer.
pub(crate) fn refresh_token(tokens: &Value) -> &str {
    tokens["refresh_token"].as_str().unwrap_or_else(|| panic!("there is one: {tokens}"))
}

/// Returns a random verifier.
pub(crate) fn other_verifier() -> String {
    random_secret()
}
