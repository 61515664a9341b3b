//! The floors of tokens: axum handlers that do the cryptography of an endpoint and nothing else. They run as a process of
//! their own, so that its CPU time can be told.

use axum::{
    Form, Json, Router,
    extract::State,
    routing::{MethodRouter, post},
};
use base::{clock, secret, signing};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation, decode, encode};
use serde::Deserialize;
use serde_json::{Value, json};

/// The secret that the handlers check.
pub(crate) const SECRET: &str = "a-secret-of-about-the-length-of-a-real-one-";
/// What a sealed token is bound to.
const PURPOSE: &str = "access token of 117482342049644545";

#[derive(Default, Deserialize)]
#[serde(default)]
struct Request {
    client_secret: String,
    scope: String,
    assertion: String,
    token: String,
}

#[derive(Clone)]
struct Floor {
    key: secret::Key,
    hash: [u8; 32],
    signing: EncodingKey,
    verifying: DecodingKey,
}

/// Serves on a free port, which it prints.
pub(crate) async fn serve() {
    let (key, pair) = (secret::Key::random(), signing::es256("1"));
    let hash = key.mac(&[SECRET.as_bytes()]);
    let public = serde_json::from_value(pair.public).expect("it is a key");
    let verifying = DecodingKey::from_jwk(&public).expect("it is a key");
    let floor = Floor { hash, key, signing: EncodingKey::from_ec_der(&pair.private), verifying };
    let router = Router::new()
        .route("/token", issuing(Floor::signed))
        .route("/sealed", issuing(Floor::sealed))
        .route("/roles", issuing(Floor::with_roles))
        .route("/bearer", issuing(Floor::exchanged))
        .route("/introspect", post(introspect))
        .with_state(floor);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    println!("{}", listener.local_addr().expect("it has an address"));
    axum::serve(listener, router).await.expect("it serves");
}

/// Answers with the token that a floor makes of a request.
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

impl Floor {
    fn is_right(&self, request: &Request) -> bool {
        secret::same(&self.key.mac(&[request.client_secret.as_bytes()]), &self.hash)
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

    /// With two roles of each of five projects.
    fn with_roles(&self, request: &Request) -> String {
        let mut claims = claims(request);
        for number in 0..5 {
            let given = json!({ "117482342049644545": "127.0.0.1" });
            let claim = format!("urn:platform:iam:org:project:11748234204964454{number}:roles");
            claims[claim] = json!({ "admin": given, "clerk": given });
        }
        if self.is_right(request) { self.sign(&claims) } else { String::new() }
    }

    /// For what was signed before.
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
