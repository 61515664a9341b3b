//! Logins: the cost of logging somebody in to an app, of refreshes, and of userinfo, without the hash of the password,
//! in comparison with bare handlers with the same cryptography and, for a refresh, the same durable write. The baseline
//! of a login on the platform's pages is that of a login on other pages: what it signs.

use std::sync::Arc;

use base::secret::sha256;
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use futures::{FutureExt, future::join_all};
use reqwest::{Method, Url};
use serde_json::{Value, json};
use tests::{
    client::{Client, done, post},
    eventually,
    platform::Platform,
};
use tokio::sync::Mutex;

use crate::{
    bare, pages,
    pair::{self, Call, Floor, Operation, Row},
};

const API: &str = "/resources/v3alpha";
const CALLBACK: &str = "https://shop.example/callback";
const VERIFIER: &str = "the-app-draws-something-random-and-long-enough";
const SCOPE: &str = "openid profile email offline_access";
const PASSWORD: &str = "nine-lives-of-a-tabby-cat";
/// The part of an introspection response for a valid token.
const ACTIVE: &str = "\"active\":true";
/// How many logins are refreshed.
const APPS: usize = 16;

/// An app that cannot keep a secret, and a session of a person.
#[derive(Clone)]
struct Shop {
    admin: Client,
    http: reqwest::Client,
    issuer: String,
    app: String,
    /// The app that checks tokens, and its secret.
    checks: (String, String),
    session: String,
}

/// Measures each request in turns with its baseline.
pub(crate) async fn measure(platform: &mut Platform) {
    let (floor, shop) = (Floor::start(platform).await, Shop::open(platform).await);
    let tokens = shop.log_in().await.expect("somebody logs in");
    let of_floor = bare_tokens(&floor.url).await;
    let text = |tokens: &Value, name: &str| tokens[name].as_str().expect("there is one").to_owned();
    let called = |name, ours: Call, bare: Call| Row { name, ours: ours.operation(), bare: bare.operation() };
    let bearing = |call: Call, tokens: &Value| Call { bearer: Some(text(tokens, "access_token")), ..call };
    let ours = |path: &str| format!("{}{path}", shop.issuer);
    let at_floor = |path: &str| format!("{}{path}", floor.url);
    let redeeming = Call::post(at_floor("/code"), vec![("scope", SCOPE.to_owned())], "id_token");
    let token = ("refresh_token", text(&of_floor, "refresh_token"));
    let refreshing = Call::post(at_floor("/refresh"), vec![("scope", SCOPE.to_owned()), token], "id_token");
    let secret = ("client_secret", bare::SECRET.to_owned());
    let checked = vec![("token", text(&of_floor, "access_token")), secret];
    let at_floor_introspecting = Call::post(at_floor("/introspect"), checked, ACTIVE);
    let document = || Call::get(at_floor("/document"), "iss");
    let (on_pages, redeeming_too) = (pages::logging_in(platform).await, redeeming.clone().operation());
    let rows = vec![
        Row { name: "a login on the platform's pages", ours: on_pages, bare: redeeming_too },
        Row { name: "a login: authorize, finish, token", ours: shop.logging_in(), bare: redeeming.operation() },
        Row { name: "a refresh", ours: shop.refreshing().await, bare: refreshing.operation() },
        called(
            "userinfo",
            bearing(Call::get(ours("/oidc/v1/userinfo"), "given_name"), &tokens),
            bearing(Call::get(at_floor("/userinfo"), "given_name"), &of_floor),
        ),
        called("introspection", shop.introspecting(&text(&tokens, "access_token")), at_floor_introspecting),
        called("discovery", Call::get(ours("/.well-known/openid-configuration"), "issuer"), document()),
        called("the key set", Call::get(ours("/oauth/v2/keys"), "keys"), document()),
    ];
    let title = "logins: RS256 and opaque, without the hash of the password";
    pair::print(platform, floor, (title, rows)).await;
    println!(
        "(of a login, to reach: 1 ms beyond its floor; one on pages takes seven requests or more and a session of its own)"
    );
}

async fn bare_tokens(url: &str) -> Value {
    let call = Call::post(format!("{url}/code"), vec![("scope", SCOPE.to_owned())], "");
    call.request(&pair::client()).send().await.expect("it answers").json().await.expect("it is JSON")
}

impl Shop {
    async fn open(platform: &Platform) -> Self {
        platform.ready().await;
        let admin = platform.client().await;
        let project = done(&admin, &format!("{API}/projects"), json!({ "name": "Shop" })).await.id();
        let oidc = json!({
            "redirectUris": [CALLBACK], "loginUri": "https://login.example/start",
            "responseTypes": ["OIDC_RESPONSE_TYPE_CODE"],
            "grantTypes": ["OIDC_GRANT_TYPE_AUTHORIZATION_CODE", "OIDC_GRANT_TYPE_REFRESH_TOKEN"],
            "appType": "OIDC_APP_TYPE_USER_AGENT", "authMethodType": "OIDC_AUTH_METHOD_TYPE_NONE",
        });
        let app = json!({ "projectId": project, "name": "Shop", "oidc": oidc });
        let app = done(&admin, &format!("{API}/apps"), app).await.id();
        let checks = json!({ "projectId": project, "name": "Checks", "api": { "authMethodType": "API_AUTH_METHOD_TYPE_BASIC" } });
        let checks = done(&admin, &format!("{API}/apps"), checks).await;
        let checks = (checks.id(), checks.body["clientSecret"].as_str().expect("it is shown").to_owned());
        let person = json!({ "username": "radia", "human": {
            "data": { "given_name": "Radia", "family_name": "Perlman" },
            "email": { "address": "radia@example.com" }, "password": { "password": PASSWORD },
        } });
        let person = done(&admin, &format!("{API}/users"), person).await.id();
        let checked = json!({ "user": { "userId": person }, "password": { "password": PASSWORD } });
        let session = post(&admin, &format!("{API}/sessions"), json!({ "checks": checked })).await;
        let session = session.body["sessionToken"].as_str().expect("there is one").to_owned();
        let issuer = platform.bootstrap.issuer.clone();
        let shop = Self { admin, http: pair::client(), issuer, app, checks, session };
        eventually("somebody can log in", async || shop.log_in().await.map(drop)).await;
        shop
    }

    /// Returns the tokens of one login; nothing where a step fails.
    async fn log_in(&self) -> Option<Value> {
        let challenge = URL_SAFE_NO_PAD.encode(sha256(VERIFIER.as_bytes()));
        let asked = [
            ("client_id", self.app.as_str()),
            ("redirect_uri", CALLBACK),
            ("response_type", "code"),
            ("scope", SCOPE),
            ("state", "af0ifjsldkj"),
            ("nonce", "n-0S6_WzA2Mj"),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ];
        let sent = self.http.get(format!("{}/oauth/v2/authorize", self.issuer)).query(&asked).send().await.ok()?;
        let request = parameter(sent.headers().get("location")?.to_str().ok()?, "authRequest")?;
        let path = format!("{API}/auth_requests/{request}/_finish");
        let finish = self.admin.request(Method::POST, &path).json(&json!({ "sessionToken": self.session }));
        let finished: Value = finish.send().await.ok()?.json().await.ok()?;
        let code = parameter(finished["callbackUrl"].as_str()?, "code")?;
        let form = [
            ("grant_type", "authorization_code"),
            ("client_id", &self.app),
            ("code", &code),
            ("redirect_uri", CALLBACK),
            ("code_verifier", VERIFIER),
        ];
        self.token(&form).await
    }

    async fn token(&self, form: &[(&str, &str)]) -> Option<Value> {
        let answer = self.http.post(format!("{}/oauth/v2/token", self.issuer)).form(form).send().await.ok()?;
        let tokens: Value = answer.json().await.ok()?;
        tokens["refresh_token"].is_string().then_some(tokens)
    }

    fn introspecting(&self, token: &str) -> Call {
        let url = format!("{}/oauth/v2/introspect", self.issuer);
        let call = Call::post(url, vec![("token", token.to_owned())], ACTIVE);
        Call { basic: Some(self.checks.clone()), ..call }
    }

    fn logging_in(&self) -> Operation {
        let shop = self.clone();
        Arc::new(move |_| {
            let shop = shop.clone();
            async move { shop.log_in().await.is_some() }.boxed()
        })
    }

    /// Returns the operation of a refresh. Each client has a login of its own, and uses its newest token.
    async fn refreshing(&self) -> Operation {
        let logged_in = join_all((0..APPS).map(|_| self.log_in())).await;
        let newest = |tokens: Option<Value>| Mutex::new(tokens.expect("somebody logs in")["refresh_token"].clone());
        let newest: Arc<Vec<_>> = Arc::new(logged_in.into_iter().map(newest).collect());
        let shop = self.clone();
        Arc::new(move |client| {
            let (shop, newest) = (shop.clone(), newest.clone());
            async move {
                let mut newest = newest[client % APPS].lock().await;
                let sent = newest.as_str().unwrap_or_default();
                let form = [("grant_type", "refresh_token"), ("client_id", shop.app.as_str()), ("refresh_token", sent)];
                let Some(tokens) = shop.token(&form).await else { return false };
                *newest = tokens["refresh_token"].clone();
                true
            }
            .boxed()
        })
    }
}

/// Returns a parameter of the query of a URL.
fn parameter(url: &str, name: &str) -> Option<String> {
    let url: Url = url.parse().ok()?;
    url.query_pairs().find(|(other, _)| other == name).map(|(_, value)| value.into_owned())
}
