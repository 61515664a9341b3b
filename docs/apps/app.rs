//! A web app that people log in to by OpenID Connect, with axum and jsonwebtoken. docs/login.md says how to start it.

use std::{collections::HashMap, env, error::Error, sync::Arc, sync::Mutex, time::Duration};

use aws_lc_rs::{digest, rand, rand::SecureRandom};
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode, header::COOKIE, header::SET_COOKIE};
use axum::response::{AppendHeaders, Html, IntoResponse, Redirect, Response};
use axum::{Router, routing::get, routing::post};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header, jwk::JwkSet};
use reqwest::{RequestBuilder, Url};
use serde::{Deserialize, de::DeserializeOwned};

const ATTRIBUTES: &str = "Path=/; HttpOnly; SameSite=Lax"; // over https also Secure, and names that begin with __Host-

struct App {
    id: String,
    secret: String,
    home: String,
    http: reqwest::Client,
    platform: Discovery,
    /// Who is logged in, by session, with the ID token: a database in an app that restarts.
    people: Mutex<HashMap<String, (Person, String)>>,
}

#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    userinfo_endpoint: String,
    end_session_endpoint: String,
}

#[derive(Deserialize)]
struct Tokens {
    id_token: String,
    access_token: String,
}

#[derive(Deserialize)]
struct IdToken {
    sub: String,
    nonce: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Person {
    sub: String,
    name: String,
    email: String,
}

/// Any error ends a login, and the person is told why.
struct Failed(Box<dyn Error>);

impl<E: Into<Box<dyn Error>>> From<E> for Failed {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        (StatusCode::BAD_REQUEST, format!("The login failed: {}", self.0)).into_response()
    }
}

async fn home(State(app): State<Arc<App>>, headers: HeaderMap) -> Html<String> {
    let people = app.people.lock().expect("nothing panics that holds it");
    let body = people.get(cookie(&headers, "session")).map(|(person, _)| {
        let (name, email) = (escaped(&person.name), escaped(&person.email));
        let form = r#"<form method="post" action="/logout"><button>Log out</button></form>"#;
        format!("<p>You are logged in as {name} ({email}).</p>{form}")
    });
    let body = body.unwrap_or_else(|| r#"<a href="/login">Log in</a>"#.to_owned());
    Html(format!("<!doctype html><title>My app</title>{body}"))
}

async fn login(State(app): State<Arc<App>>) -> Result<impl IntoResponse, Failed> {
    let (state, nonce, verifier) = (random()?, random()?, random()?);
    let asked = [
        ("response_type", "code"),
        ("client_id", &app.id),
        ("redirect_uri", &format!("{}callback", app.home)),
        ("scope", "openid profile email"),
        ("state", &state),
        ("nonce", &nonce),
        ("code_challenge", &URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, verifier.as_bytes()))),
        ("code_challenge_method", "S256"),
    ];
    let url = Url::parse_with_params(&app.platform.authorization_endpoint, asked)?;
    let begun = format!("login={state}.{nonce}.{verifier}; {ATTRIBUTES}; Max-Age=3600");
    Ok(([(SET_COOKIE, begun)], Redirect::to(url.as_str())))
}

async fn callback(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    Query(answer): Query<HashMap<String, String>>,
) -> Result<impl IntoResponse, Failed> {
    let begun: Vec<&str> = cookie(&headers, "login").split('.').collect();
    let [state, nonce, verifier] = begun[..] else { return Err("this browser has not begun one".into()) };
    if answer.get("state").is_none_or(|answered| answered != state) {
        return Err("the state is not the one that this browser began with".into());
    }
    let code = answer.get("code").ok_or_else(|| answer.get("error").cloned().unwrap_or_default())?;
    let redirect_uri = format!("{}callback", app.home);
    let sent = [("grant_type", "authorization_code"), ("code", code), ("code_verifier", verifier)];
    let request = app.http.post(&app.platform.token_endpoint).basic_auth(&app.id, Some(&app.secret));
    let tokens: Tokens = json(request.form(&[&sent[..], &[("redirect_uri", &redirect_uri)]].concat())).await?;

    let keys: JwkSet = json(app.http.get(&app.platform.jwks_uri)).await?;
    let key = keys.find(&decode_header(&tokens.id_token)?.kid.unwrap_or_default()).ok_or("the key is not known")?;
    let mut wanted = Validation::new(Algorithm::RS256);
    wanted.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
    wanted.set_issuer(&[&app.platform.issuer]);
    wanted.set_audience(&[&app.id]);
    let claims = decode::<IdToken>(&tokens.id_token, &DecodingKey::from_jwk(key)?, &wanted)?.claims;
    let person: Person = json(app.http.get(&app.platform.userinfo_endpoint).bearer_auth(tokens.access_token)).await?;
    if (claims.nonce.as_str(), &claims.sub) != (nonce, &person.sub) {
        return Err("the ID token is of another login, or userinfo about somebody else".into());
    }
    let session = random()?;
    let cookies = [format!("session={session}; {ATTRIBUTES}"), format!("login=; {ATTRIBUTES}; Max-Age=0")];
    let mut people = app.people.lock().expect("nothing panics that holds it");
    people.remove(cookie(&headers, "session"));
    people.insert(session, (person, tokens.id_token));
    Ok((AppendHeaders(cookies.map(|cookie| (SET_COOKIE, cookie))), Redirect::to("/")))
}

async fn logout(State(app): State<Arc<App>>, headers: HeaderMap) -> Result<Response, Failed> {
    let person = app.people.lock().expect("nothing panics that holds it").remove(cookie(&headers, "session"));
    // A form of another site, which comes without the cookie, ends nothing.
    let Some((_, id_token)) = person else { return Ok(Redirect::to("/").into_response()) };
    let asked = [("id_token_hint", &id_token), ("post_logout_redirect_uri", &app.home)];
    let url = Url::parse_with_params(&app.platform.end_session_endpoint, asked)?;
    Ok(([(SET_COOKIE, format!("session=; {ATTRIBUTES}; Max-Age=0"))], Redirect::to(url.as_str())).into_response())
}

async fn json<T: DeserializeOwned>(request: RequestBuilder) -> reqwest::Result<T> {
    request.send().await?.error_for_status()?.json().await
}

fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    let cookies = headers.get(COOKIE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut pairs = cookies.split("; ").filter_map(|pair| pair.split_once('='));
    pairs.find(|(found, _)| *found == name).map_or("", |(_, value)| value)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;").replace('\'', "&#39;")
}

fn random() -> Result<String, Box<dyn Error>> {
    let mut bytes = [0; 32];
    rand::SystemRandom::new().fill(&mut bytes).map_err(|_| "the system has no randomness")?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|_| format!("{name} is not set"))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let address = format!("127.0.0.1:{}", env::var("PORT").unwrap_or_else(|_| "3000".to_owned()));
    let http = reqwest::Client::builder().timeout(Duration::from_secs(10)).build()?;
    let issuer = variable("ISSUER")?;
    let platform: Discovery = json(http.get(format!("{issuer}/.well-known/openid-configuration"))).await?;
    if platform.issuer != issuer {
        return Err(format!("{} is not the issuer that was asked for", platform.issuer).into());
    }
    let app = App {
        id: variable("CLIENT_ID")?,
        secret: variable("CLIENT_SECRET")?,
        home: format!("http://{address}/"),
        platform,
        people: Mutex::default(),
        http,
    };
    let pages = Router::new().route("/", get(home)).route("/login", get(login)).route("/callback", get(callback));
    let pages = pages.route("/logout", post(logout)).with_state(Arc::new(app));
    Ok(axum::serve(tokio::net::TcpListener::bind(address).await?, pages).await?)
}
