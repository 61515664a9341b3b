//! Holders of keys, and the answers to their assertions.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use reqwest::Method;
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, SCOPE, done, send},
    instance::Instance,
    tenant::{Tenant, new_name},
};

use super::shop::API;

pub(super) const BEARER: &str = "urn:ietf:params:oauth:grant-type:jwt-bearer";
pub(super) const BY_ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
pub(super) const FAR: &str = "2099-01-01T00:00:00Z";

/// A holder of a key.
#[derive(Clone)]
pub(super) struct Signer {
    pub(super) issuer: String,
    /// The app or the user.
    pub(super) holder: String,
    /// The subject of assertions: itself by default.
    pub(super) subject: String,
    /// The id of the key, and its private half in PEM.
    pub(super) kid: String,
    pub(super) pem: String,
    /// The public half, a JSON Web Key.
    pub(super) public: Value,
    pub(super) algorithm: Algorithm,
}

impl Signer {
    /// Creates a key of the holder at a path of the API, such as `users/1`.
    pub(super) async fn new(tenant: &Tenant, path: &str, r#type: &str) -> Self {
        let wanted = json!({ "keyType": format!("KEY_TYPE_{type}"), "expirationDate": FAR });
        Self::of(tenant, path, wanted).await
    }

    /// Creates a key with this request.
    pub(super) async fn of(tenant: &Tenant, path: &str, wanted: Value) -> Self {
        Self::create(&tenant.client().await, &tenant.bootstrap.issuer, path, wanted).await
    }

    /// Creates a key as `admin`, for assertions to this issuer.
    pub(super) async fn create(admin: &Client, issuer: &str, path: &str, wanted: Value) -> Self {
        let made = done(admin, &format!("{API}/{path}/keys"), wanted).await;
        let pem = made.body["privateKey"]["pem"].as_str().unwrap_or_else(|| panic!("it is shown: {}", made.body));
        let mut jwk: Value = made.body["privateKey"]["jwk"]
            .as_str()
            .and_then(|jwk| serde_json::from_str(jwk).ok())
            .expect("it is shown");
        assert_eq!(jwk["kid"], json!(made.id()));
        let algorithm = match jwk["kty"].as_str() {
            Some("RSA") => Algorithm::RS256,
            Some("EC") => Algorithm::ES256,
            _ => Algorithm::EdDSA,
        };
        for private in ["kid", "d", "p", "q", "dp", "dq", "qi"] {
            jwk.as_object_mut().expect("it is one").remove(private);
        }
        let holder = path.rsplit('/').next().expect("it has an id").to_owned();
        Self {
            issuer: issuer.to_owned(),
            subject: holder.clone(),
            holder,
            kid: made.id(),
            pem: pem.to_owned(),
            public: jwk,
            algorithm,
        }
    }

    fn key(&self) -> EncodingKey {
        let pem = self.pem.as_bytes();
        match self.algorithm {
            Algorithm::ES256 | Algorithm::ES384 => EncodingKey::from_ec_pem(pem),
            Algorithm::EdDSA => EncodingKey::from_ed_pem(pem),
            _ => EncodingKey::from_rsa_pem(pem),
        }
        .expect("it is a key")
    }

    /// Returns the point of an elliptic curve that is the public half.
    pub(super) fn point(&self) -> Vec<u8> {
        let coordinate = |name: &str| URL_SAFE_NO_PAD.decode(self.public[name].as_str().unwrap_or_default());
        [vec![4], coordinate("x").expect("it is base64url"), coordinate("y").expect("it is base64url")].concat()
    }

    /// Returns the signer with another subject.
    pub(super) fn naming(self, subject: &str) -> Self {
        Self { subject: subject.to_owned(), ..self }
    }

    /// Returns the header of assertions.
    pub(super) fn header(&self) -> Header {
        Header { kid: Some(self.kid.clone()), ..Header::new(self.algorithm) }
    }

    /// Returns the claims of a valid assertion.
    pub(super) fn claims(&self) -> Value {
        let now = base::clock::now().as_second();
        let (holder, subject, jti) = (&self.holder, &self.subject, new_name());
        json!({ "iss": holder, "sub": subject, "aud": self.issuer, "iat": now, "exp": now + 60, "jti": jti })
    }

    /// Signs a header and claims.
    pub(super) fn sign(&self, header: &Header, claims: &Value) -> String {
        encode(header, claims, &self.key()).expect("it can be signed")
    }

    /// Returns a valid assertion.
    pub(super) fn assertion(&self) -> String {
        self.sign(&self.header(), &self.claims())
    }

    /// Returns an assertion that differs in some claims; those that are null are left out.
    pub(super) fn with(&self, claims: &Value) -> String {
        let mut all = self.claims();
        let members = all.as_object_mut().expect("it is one");
        for (name, value) in claims.as_object().expect("it is one") {
            if value.is_null() {
                members.remove(name)
            } else {
                members.insert(name.clone(), value.clone())
            };
        }
        self.sign(&self.header(), &all)
    }

    /// Returns an assertion with these texts as header and claims.
    pub(super) fn signed_texts(&self, header: &str, claims: &str) -> String {
        let message = [header, claims].map(|part| URL_SAFE_NO_PAD.encode(part)).join(".");
        let signature = jsonwebtoken::crypto::sign(message.as_bytes(), &self.key(), self.algorithm);
        format!("{message}.{}", signature.expect("it can be signed"))
    }
}

/// Sends a form without further authentication.
pub(super) async fn ask(instance: &Instance, path: &str, form: &[(&str, &str)]) -> Answer {
    let client = Client::with_token(&instance.bootstrap.issuer, String::new());
    send(client.anonymous(Method::POST, path).form(form)).await
}

/// Exchanges an assertion for a token.
pub(super) async fn exchanged(instance: &Instance, assertion: &str) -> Answer {
    ask(instance, "/oauth/v2/token", &[("grant_type", BEARER), ("scope", SCOPE), ("assertion", assertion)]).await
}

/// Requests a token, authenticated by an assertion.
pub(super) async fn authenticated(instance: &Instance, assertion: &str) -> Answer {
    let form = [("grant_type", "client_credentials"), ("scope", SCOPE), ("client_assertion_type", BY_ASSERTION)];
    ask(instance, "/oauth/v2/token", &[&form[..], &[("client_assertion", assertion)]].concat()).await
}

/// Creates a service user without a secret, and returns its path.
pub(super) async fn user(tenant: &Tenant, name: &str) -> String {
    let user = json!({ "username": name, "service": {} });
    format!("users/{}", done(&tenant.client().await, &format!("{API}/users"), user).await.id())
}
