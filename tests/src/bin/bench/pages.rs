//! A login on the platform's own pages, as a browser performs it: cookie, form tokens, PKCE, code and tokens. The hash
//! of the password costs next to nothing, so that everything else is measured.

use std::sync::Arc;

use argon2::{Algorithm, Argon2, Params, Version};
use base::secret::sha256;
use base64::{
    Engine,
    engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD},
};
use futures::FutureExt;
use reqwest::Url;
use serde_json::{Value, json};
use tests::{
    browser::{Browser, Page},
    client::done,
    eventually,
    platform::Platform,
};
use tokio::sync::Mutex;

use crate::pair::{self, Operation};

const API: &str = "/resources/v3alpha";
const CALLBACK: &str = "https://shop.example/callback";
const VERIFIER: &str = "the-app-draws-something-random-and-long-enough";
const SCOPE: &str = "openid profile email offline_access";
/// Longer than passwords that are hashed again with the usual cost after a successful check.
const PASSWORD: &str = "nine-lives-of-a-tabby-cat, eight of a hive of bees, seven of whoever is asked for so much";
/// The memory of a hash in KiB, and its passes: the smallest possible.
const COST: (u32, u32) = (8, 1);
/// How many people log in, each in a browser of its own.
const PEOPLE: usize = 16;
/// How many pages a login has at most.
const STEPS: usize = 12;

/// An app that cannot keep a secret, and the browsers of people.
struct Pages {
    http: reqwest::Client,
    issuer: String,
    app: String,
    browsers: Vec<Mutex<Browser>>,
}

/// Returns the operation of a login, by the people in turn.
pub(crate) async fn logging_in(platform: &Platform) -> Operation {
    let admin = platform.client().await;
    let project = done(&admin, &format!("{API}/projects"), json!({ "name": "Shop with pages" })).await.id();
    let oidc = json!({
        "redirectUris": [CALLBACK], "responseTypes": ["OIDC_RESPONSE_TYPE_CODE"],
        "grantTypes": ["OIDC_GRANT_TYPE_AUTHORIZATION_CODE", "OIDC_GRANT_TYPE_REFRESH_TOKEN"],
        "appType": "OIDC_APP_TYPE_USER_AGENT", "authMethodType": "OIDC_AUTH_METHOD_TYPE_NONE",
    });
    let app = json!({ "projectId": project, "name": "Shop", "oidc": oidc });
    let app = done(&admin, &format!("{API}/apps"), app).await.id();
    let hash = cheap();
    for person in 0..PEOPLE {
        let data = json!({ "given_name": "Radia", "family_name": "Perlman" });
        let human = json!({ "data": data, "password": { "hash": hash } });
        done(&admin, &format!("{API}/users"), json!({ "username": name(person), "human": human })).await;
    }
    let issuer = platform.bootstrap.issuer.clone();
    let browsers = (0..PEOPLE).map(|_| Mutex::new(Browser::new(&issuer))).collect();
    let pages = Arc::new(Pages { http: pair::client(), issuer, app, browsers });
    for person in 0..PEOPLE {
        eventually("somebody can log in on pages", async || pages.log_in(person).await.map(drop)).await;
    }
    Arc::new(move |client| {
        let pages = pages.clone();
        async move { pages.log_in(client % PEOPLE).await.is_some() }.boxed()
    })
}

fn name(person: usize) -> String {
    format!("radia{person}")
}

/// Returns the password hash that people are imported with.
fn cheap() -> String {
    let ((memory, passes), salt, mut hash) = (COST, b"a salt of bytes.", [0; 32]);
    let params = Params::new(memory, passes, 1, Some(hash.len())).expect("they are in range");
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    argon2.hash_password_into(PASSWORD.as_bytes(), salt, &mut hash).expect("it hashes");
    let [salt, hash] = [&salt[..], &hash[..]].map(|bytes| STANDARD_NO_PAD.encode(bytes));
    format!("$argon2id$v=19$m={memory},t={passes},p=1${salt}${hash}")
}

impl Pages {
    /// Returns the tokens of one login, by a browser without cookies; nothing where a step fails.
    async fn log_in(&self, person: usize) -> Option<Value> {
        let mut browser = self.browsers[person].lock().await;
        browser.cookies.clear();
        let mut shown = browser.try_get(&self.authorize_path()).await.ok()?;
        for _ in 0..STEPS {
            let location = shown.location();
            if location.starts_with(CALLBACK) {
                let url: Url = location.parse().ok()?;
                let code = url.query_pairs().find(|(name, _)| name == "code")?.1.into_owned();
                return self.redeemed(&code).await;
            }
            shown = match location.strip_prefix(&self.issuer).unwrap_or(location) {
                "" => submit(&mut browser, &shown, person).await?,
                path => browser.try_get(path).await.ok()?,
            };
        }
        None
    }

    fn authorize_path(&self) -> String {
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
        format!("/oauth/v2/authorize?{}", serde_urlencoded::to_string(asked).unwrap_or_default())
    }

    async fn redeemed(&self, code: &str) -> Option<Value> {
        let form = [
            ("grant_type", "authorization_code"),
            ("client_id", self.app.as_str()),
            ("code", code),
            ("redirect_uri", CALLBACK),
            ("code_verifier", VERIFIER),
        ];
        let answer = self.http.post(format!("{}/oauth/v2/token", self.issuer)).form(&form).send().await.ok()?;
        let tokens: Value = answer.json().await.ok()?;
        (tokens["refresh_token"].is_string() && tokens["id_token"].is_string()).then_some(tokens)
    }
}

/// Fills in the form of a page, and returns the next page.
async fn submit(browser: &mut Browser, shown: &Page, person: usize) -> Option<Page> {
    let username = name(person);
    let mut fields = vec![("username", username.as_str())];
    if shown.text.contains("name=\"password\"") {
        fields.push(("password", PASSWORD));
    }
    browser.try_post(&shown.action(), &shown.form(&fields)).await.ok()
}
