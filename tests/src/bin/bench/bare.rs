//! The floor of a token: an axum handler that checks a secret and signs, and does nothing else. It runs as a process of
//! its own, so that its CPU time can be told.

use axum::{Form, Json, Router, extract::State, routing::post};
use base::{clock, secret, signing};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use serde::Deserialize;
use serde_json::{Value, json};

/// The secret that the handler checks.
pub(crate) const SECRET: &str = "a-secret-of-about-the-length-of-a-real-one-";

#[derive(Deserialize)]
struct Request {
    client_secret: String,
    scope: String,
}

#[derive(Clone)]
struct Floor {
    key: secret::Key,
    hash: [u8; 32],
    signing: EncodingKey,
}

/// Serves on a free port, which it prints.
pub(crate) async fn serve() {
    let key = secret::Key::random();
    let hash = key.mac(&[SECRET.as_bytes()]);
    let floor = Floor { hash, key, signing: EncodingKey::from_ec_der(&signing::es256("1").private) };
    let router = Router::new().route("/token", post(token)).with_state(floor);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    println!("{}", listener.local_addr().expect("it has an address"));
    axum::serve(listener, router).await.expect("it serves");
}

async fn token(State(floor): State<Floor>, Form(request): Form<Request>) -> Json<Value> {
    let is_right = secret::same(&floor.key.mac(&[request.client_secret.as_bytes()]), &floor.hash);
    let now = clock::now().as_second();
    let claims = json!({
        "iss": "http://127.0.0.1:8080", "sub": "117482342049644545", "aud": ["117482342049644546"], "exp": now + 43200,
        "iat": now, "nbf": now, "jti": secret::random_text(22), "client_id": "platform-admin", "scope": request.scope,
    });
    let token = encode(&Header::new(Algorithm::ES256), &claims, &floor.signing).expect("it signs");
    Json(
        json!({ "access_token": if is_right { token } else { String::new() }, "token_type": "Bearer", "expires_in": 43200 }),
    )
}
