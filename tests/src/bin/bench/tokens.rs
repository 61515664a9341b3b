//! Tokens: the cost of issuing and checking them in comparison with bare handlers that do the same cryptography and
//! nothing else.

use base::{clock, key_pair::private_pem, signing};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use reqwest::Method;
use serde_json::{Value, json};
use tests::{
    client::{Client, ServiceUser, created, done, send, service_user},
    eventually,
    platform::Platform,
};

use crate::{
    bare,
    pair::{self, Call, Floor, Row},
};

/// The number of projects of which a token has roles.
const PROJECTS: usize = 5;
const API: &str = "/resources/v3alpha";
const ROLES: &str = "urn:platform:iam:org:projects:roles";

/// Measures each request in turns with its baseline.
pub(crate) async fn measure(platform: &mut Platform) {
    let floor = Floor::start(platform).await;
    let rows = rows(platform, &floor.url).await;
    pair::print(platform, floor, ("tokens: ES256 or opaque", rows)).await;
}

/// The clients that request and check tokens on the platform.
struct Shop {
    client: Client,
    issuer: String,
    projects: Vec<String>,
    app: (String, String),
    signed: ServiceUser,
    opaque: ServiceUser,
}

async fn rows(platform: &Platform, bare: &str) -> Vec<Row> {
    let shop = Shop::open(platform).await;
    let audience = |project: &String| format!("urn:platform:iam:org:project:id:{project}:aud");
    let one = audience(&shop.projects[0]);
    let all = shop.projects.iter().map(audience).chain([ROLES.to_owned()]).collect::<Vec<_>>().join(" ");
    let floor = |path: &str, more: Vec<(&'static str, String)>, has| {
        let form = [("client_secret", bare::SECRET.to_owned()), ("scope", one.clone())].into_iter().chain(more);
        Call::post(format!("{bare}/{path}"), form.collect(), has)
    };
    let at = |path: &str, form, has| Call::post(format!("{}/oauth/v2/{path}", shop.issuer), form, has);
    let asking = |user, scope| at("token", Shop::asking(user, scope), "access_token");
    let checking = |token: String| {
        let call = at("introspect", vec![("token", token)], "\"active\":true");
        Call { basic: Some(shop.app.clone()), ..call }
    };
    let assertion = shop.assertion().await;
    let exchanging = [("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer".to_owned())];
    let exchanging = exchanging.into_iter().chain([("assertion", assertion), ("scope", one.clone())]).collect();
    let of_floor = async |path: &str| token(&floor(path, vec![], "")).await;
    let (bare_signed, bare_sealed) = (of_floor("token").await, of_floor("sealed").await);
    let (signed, opaque) = (token(&asking(&shop.signed, &one)).await, token(&asking(&shop.opaque, &one)).await);
    assert!(opaque.starts_with("at-") && !signed.starts_with("at-"), "{opaque} {signed}");
    let row = |name, ours: Call, bare: Call| Row { name, ours: ours.operation(), bare: bare.operation() };
    vec![
        row("client_credentials", asking(&shop.signed, &one), floor("token", vec![], "access_token")),
        row("client_credentials, opaque", asking(&shop.opaque, &one), floor("sealed", vec![], "access_token")),
        row(
            "client_credentials, 5 projects' roles",
            asking(&shop.signed, &all),
            floor("roles", vec![], "access_token"),
        ),
        row(
            "jwt-bearer",
            at("token", exchanging, "access_token"),
            floor("bearer", vec![("assertion", bare_signed.clone())], "access_token"),
        ),
        row(
            "introspection of a JWT",
            checking(signed),
            floor("introspect", vec![("token", bare_signed)], "\"active\":true"),
        ),
        row(
            "introspection of an opaque token",
            checking(opaque),
            floor("introspect", vec![("token", bare_sealed)], "\"active\":true"),
        ),
    ]
}

/// Sends a call, and returns the token of its answer.
async fn token(call: &Call) -> String {
    let answer = call.request(&pair::client()).send().await.expect("it answers");
    let body: Value = answer.json().await.expect("it is JSON");
    body["access_token"].as_str().unwrap_or_else(|| panic!("there is a token: {body}")).to_owned()
}

impl Shop {
    async fn open(platform: &Platform) -> Self {
        let client = platform.client().await;
        let signed = user(&client, "signed", "JWT").await;
        let opaque = user(&client, "opaque", "BEARER").await;
        let mut projects = vec![];
        for number in 0..PROJECTS {
            let project =
                created(&client, &format!("{API}/projects"), json!({ "name": format!("Shop {number}") })).await.id();
            for key in ["admin", "clerk"] {
                let role = json!({ "projectId": project, "key": key, "displayName": key });
                created(&client, &format!("{API}/roles"), role).await;
            }
            let grant = json!({ "userId": signed.user_id, "projectId": project, "roleKeys": ["admin", "clerk"] });
            done(&client, &format!("{API}/user_grants"), grant).await;
            projects.push(project);
        }
        let app = json!({ "projectId": projects[0], "name": "Checks", "api": { "authMethodType": "API_AUTH_METHOD_TYPE_BASIC" } });
        let app = done(&client, &format!("{API}/apps"), app).await;
        let secret = app.body["clientSecret"].as_str().expect("it is shown").to_owned();
        let issuer = platform.bootstrap.issuer.clone();
        Self { app: (app.id(), secret), client, issuer, projects, signed, opaque }
    }

    fn asking(user: &ServiceUser, scope: &str) -> Vec<(&'static str, String)> {
        vec![
            ("grant_type", "client_credentials".to_owned()),
            ("client_id", user.user_id.clone()),
            ("client_secret", user.client_secret.clone()),
            ("scope", scope.to_owned()),
        ]
    }

    /// Returns an assertion of the user with the longest lifetime.
    async fn assertion(&self) -> String {
        let id = &self.signed.user_id;
        let pair = signing::es256("1");
        let mut public = pair.public;
        public.as_object_mut().expect("it is an object").remove("kid");
        let key = json!({ "publicKey": public.to_string(), "expirationDate": "2099-01-01T00:00:00Z" });
        let kid = done(&self.client, &format!("{API}/users/{id}/keys"), key).await.id();
        let end = clock::now().as_second() + 3500;
        let claims = json!({ "iss": id, "sub": id, "aud": self.issuer, "iat": end - 3500, "exp": end });
        let header = Header { kid: Some(kid), ..Header::new(Algorithm::ES256) };
        let signs = EncodingKey::from_ec_pem(private_pem(&pair.private).as_bytes()).expect("it is a key");
        encode(&header, &claims, &signs).expect("it signs")
    }
}

/// Creates a service user whose tokens have a format.
async fn user(client: &Client, name: &str, form: &str) -> ServiceUser {
    let service = json!({ "accessTokenType": format!("ACCESS_TOKEN_TYPE_{form}") });
    let user = service_user(client, (name, service), "").await;
    eventually("the secret is known", async || {
        let form = Shop::asking(&user, "openid");
        let answer = send(client.anonymous(Method::POST, "/oauth/v2/token").form(&form)).await;
        (answer.status == 200).then_some(())
    })
    .await;
    user
}
