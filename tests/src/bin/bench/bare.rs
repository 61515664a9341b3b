//! The baselines of tokens: axum handlers that do the cryptography of an endpoint and nothing else. They run in a
//! process of their own, so that its CPU time can be measured.

use async_nats::jetstream;
use axum::{
    Form, Json, Router,
    extract::State,
    routing::{MethodRouter, get, post},
};
use base::{
    clock,
    key_pair::{self, KeyType, private_pem},
    secret, signing,
};
use http::{HeaderMap, header::AUTHORIZATION};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation, decode, encode};
use serde::Deserialize;
use serde_json::{Value, json};

/// The secret that the handlers check.
pub(crate) const SECRET: &str = "a-secret-of-about-the-length-of-a-real-one-";
/// The purpose that a sealed token is bound to.
const PURPOSE: &str = "access token of 117482342049644545";

#[derive(Default, Deserialize)]
#[serde(default)]
struct Request {
    client_secret: String,
    scope: String,
    assertion: String,
    token: String,
    refresh_token: String,
}

#[derive(Clone)]
struct Floor {
    key: secret::SymmetricKey,
    hash: [u8; 32],
    signing: EncodingKey,
    verifying: DecodingKey,
    /// The key that signs ID tokens.
    rsa: EncodingKey,
    log: jetstream::Context,
}

/// The stream that refreshes are written to.
const STREAM: &str = "BARE";

/// Serves on a free port, which it prints, and writes to the NATS server that the command line names.
pub(crate) async fn serve() {
    let (key, pair) = (secret::SymmetricKey::random(), signing::es256("1"));
    let hash = key.mac(&[SECRET.as_bytes()]);
    let public = serde_json::from_value(pair.public).expect("it is a key");
    let verifying = DecodingKey::from_jwk(&public).expect("it is a key");
    let signing = EncodingKey::from_ec_der(&pair.private);
    let (rsa, log) = (rsa(), log().await);
    let floor = Floor { key, hash, signing, verifying, rsa, log };
    let router = Router::new()
        .route("/token", issuing(Floor::signed))
        .route("/sealed", issuing(Floor::sealed))
        .route("/roles", issuing(Floor::with_roles))
        .route("/bearer", issuing(Floor::exchanged))
        .route("/introspect", post(introspect))
        .route("/userinfo", get(userinfo))
        .route("/code", post(code))
        .route("/refresh", post(refresh))
        .route("/document", get(async || Json(person(""))))
        .with_state(floor);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    println!("{}", listener.local_addr().expect("it has an address"));
    axum::serve(listener, router).await.expect("it serves");
}

/// Answers with the token that a function makes for a request.
fn issuing(make: fn(&Floor, &Request) -> String) -> MethodRouter<Floor> {
    post(move |State(floor): State<Floor>, Form(request): Form<Request>| async move {
        let token = make(&floor, &request);
        Json(json!({ "access_token": token, "token_type": "Bearer", "expires_in": 43200, "scope": request.scope }))
    })
}

async fn introspect(State(floor): State<Floor>, Form(request): Form<Request>) -> Json<Value> {
    let opened = floor.key.open(PURPOSE, &request.token).ok();
    let claims = match opened {
        Some(sealed) => serde_json::from_slice(&sealed).ok(),
        None => floor.verified(&request.token),
    };
    let mut claims = claims.filter(|_| floor.is_right(&request)).unwrap_or_else(|| json!({}));
    claims["active"] = json!(claims["sub"].is_string());
    Json(claims)
}

/// Answers with the user of a sealed token.
async fn userinfo(State(floor): State<Floor>, headers: HeaderMap) -> Json<Value> {
    let sent = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let claims = floor.key.open(PURPOSE, sent.unwrap_or_default()).ok();
    let claims: Option<Value> = claims.and_then(|claims| serde_json::from_slice(&claims).ok());
    Json(claims.map(|claims| person(claims["sub"].as_str().unwrap_or_default())).unwrap_or_default())
}

/// Answers with all tokens of a login, without any of its steps.
async fn code(State(floor): State<Floor>, Form(request): Form<Request>) -> Json<Value> {
    Json(floor.of_login(&request))
}

/// Answers a refresh token with all tokens of a login, after its use was written.
async fn refresh(State(floor): State<Floor>, Form(request): Form<Request>) -> Json<Value> {
    let opened = floor.key.open(PURPOSE, &request.refresh_token);
    let written = match floor.log.publish(STREAM, vec![7; 450].into()).await {
        Ok(answer) => answer.await.is_ok(),
        Err(_) => false,
    };
    Json(if opened.is_ok() && written { floor.of_login(&request) } else { json!({}) })
}

fn rsa() -> EncodingKey {
    let pair = key_pair::generate(KeyType::Rsa2048);
    EncodingKey::from_rsa_pem(private_pem(&pair.der).as_bytes()).expect("it is a key")
}

async fn log() -> jetstream::Context {
    let [url, token] = [2, 3].map(|place| std::env::args().nth(place).expect("the command line names a NATS server"));
    let client = async_nats::ConnectOptions::with_token(token).connect(url).await.expect("NATS is there");
    let log = jetstream::new(client);
    let config = jetstream::stream::Config { name: STREAM.into(), subjects: vec![STREAM.into()], ..Default::default() };
    log.get_or_create_stream(config).await.expect("the stream can be made");
    log
}

impl Floor {
    /// Makes an opaque access token, an ID token, and a refresh token.
    fn of_login(&self, request: &Request) -> Value {
        let (said, claims) = (person("117482342049644545"), claims(request));
        let access_token = self.key.seal(PURPOSE, &serde_json::to_vec(&claims).expect("it is JSON"));
        let id_token = encode(&Header::new(Algorithm::RS256), &said, &self.rsa).expect("it signs");
        let refresh_token = self.key.seal(PURPOSE, &serde_json::to_vec(&said).expect("it is JSON"));
        json!({
            "access_token": access_token, "token_type": "Bearer", "expires_in": 43200, "scope": request.scope,
            "id_token": id_token, "refresh_token": refresh_token,
        })
    }

    fn is_right(&self, request: &Request) -> bool {
        secret::constant_time_eq(&self.key.mac(&[request.client_secret.as_bytes()]), &self.hash)
    }

    fn verified(&self, token: &str) -> Option<Value> {
        let mut validation = Validation::new(Algorithm::ES256);
        validation.validate_aud = false;
        Some(decode::<Value>(token, &self.verifying, &validation).ok()?.claims)
    }

    fn sign(&self, claims: &Value) -> String {
        encode(&Header::new(Algorithm::ES256), claims, &self.signing).expect("it signs")
    }

    fn signed(&self, request: &Request) -> String {
        if self.is_right(request) { self.sign(&claims(request)) } else { String::new() }
    }

    fn sealed(&self, request: &Request) -> String {
        let claims = serde_json::to_vec(&claims(request)).expect("it is JSON");
        if self.is_right(request) { self.key.seal(PURPOSE, &claims) } else { String::new() }
    }

    /// Makes a token with two roles in each of five projects.
    fn with_roles(&self, request: &Request) -> String {
        let mut claims = claims(request);
        for number in 0..5 {
            let given = json!({ "117482342049644545": "127.0.0.1" });
            let claim = format!("urn:platform:iam:org:project:11748234204964454{number}:roles");
            claims[claim] = json!({ "admin": given, "clerk": given });
        }
        if self.is_right(request) { self.sign(&claims) } else { String::new() }
    }

    /// Makes a token for an assertion.
    fn exchanged(&self, request: &Request) -> String {
        let verified = self.verified(&request.assertion);
        verified.map(|_| self.sign(&claims(request))).unwrap_or_default()
    }
}

fn claims(request: &Request) -> Value {
    let now = clock::now().as_second();
    json!({
        "iss": "http://127.0.0.1:8080", "sub": "117482342049644545", "aud": ["117482342049644546"], "exp": now + 43200,
        "iat": now, "nbf": now, "jti": secret::random_text(22), "client_id": "platform-admin", "scope": request.scope,
    })
}

/// Returns the claims about a person.
fn person(sub: &str) -> Value {
    json!({
        "iss": "http://127.0.0.1:8080", "sub": sub, "aud": ["117482342049644546"], "exp": clock::now().as_second(),
        "name": "Ada Lovelace", "given_name": "Ada", "family_name": "Lovelace", "preferred_username": "ada",
        "email": "ada@example.com", "email_verified": false, "sid": "117482342049644547", "amr": ["pwd"],
    })
}
