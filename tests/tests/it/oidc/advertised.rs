//! Case 147: the discovery document lists exactly what works. Each member has candidates, which are all standard values
//! for it; those that work must be those that are listed.

mod login;

use std::collections::BTreeSet;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, SCOPE, ServiceUser, created, done, send},
    eventually,
    instance::Instance,
    tenant::{Tenant, new_name},
};

use super::{
    exchange::{self, EXCHANGE},
    flow::{App, Flow, PASSWORD, access_token, answered, location, refresh_token},
    rotation::KEYS,
    shop::{self, API, Shop},
    signer::{BEARER, BY_ASSERTION, FAR, Signer, ask, authenticated, exchanged, user},
    token::assert_error,
};

const TOKEN: &str = "/oauth/v2/token";
const INTROSPECT: &str = "/oauth/v2/introspect";
const REVOKE: &str = "/oauth/v2/revoke";

async fn discovery(instance: &Instance) -> Value {
    let client = Client::with_token(&instance.bootstrap.issuer, String::new());
    send(client.anonymous(Method::GET, "/.well-known/openid-configuration")).await.body
}

/// Returns the values of a member.
fn listed(document: &Value, member: &str) -> BTreeSet<String> {
    let words = document[member].as_array().unwrap_or_else(|| panic!("{member} is there: {document}"));
    words.iter().map(|word| word.as_str().expect("it is a word").to_owned()).collect()
}

/// Fails unless the working candidates are those that are listed.
fn assert_listed(document: &Value, member: &str, works: &[&str]) {
    let works: BTreeSet<String> = works.iter().map(|word| (*word).to_owned()).collect();
    assert_eq!(listed(document, member), works, "{member}: what is listed, and what works");
}

/// The algorithms of JWTs (RFC 7518, section 3.1; RFC 8037; RFC 8812; RFC 9864).
const ALGORITHMS: [&str; 17] = [
    "none", "HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512",
    "ES256K", "EdDSA", "Ed25519", "Ed448",
];

/// The keys of the holder at a path.
struct Ring {
    rsa: Signer,
    p256: Signer,
    p384: Signer,
    ed25519: Signer,
}

impl Ring {
    async fn new(tenant: &Tenant, path: &str) -> Self {
        let [rsa, p256, ed25519] = [
            Signer::new(tenant, path, "RSA").await,
            Signer::new(tenant, path, "EC").await,
            Signer::new(tenant, path, "ED25519").await,
        ];
        // The platform makes no keys of this curve.
        let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).expect("it is made");
        let wanted = json!({ "publicKey": pair.public_key_pem(), "expirationDate": FAR });
        let kid = done(&tenant.client().await, &format!("{API}/{path}/keys"), wanted).await.id();
        let p384 = Signer { kid, pem: pair.serialize_pem(), algorithm: Algorithm::ES384, ..p256.clone() };
        Self { rsa, p256, p384, ed25519 }
    }

    /// Returns a JWT with this algorithm in its header, signed accordingly as far as possible.
    fn signed(&self, algorithm: &str, claims: &Value) -> String {
        let signer = match algorithm {
            "ES384" | "ES512" => &self.p384,
            "EdDSA" | "Ed25519" | "Ed448" => &self.ed25519,
            name if name.starts_with("ES") || name == "none" => &self.p256,
            _ => &self.rsa,
        };
        let kid = &signer.kid;
        let header = format!(r#"{{"alg":"{algorithm}","kid":"{kid}"}}"#);
        match algorithm.parse() {
            Ok(symmetric @ (Algorithm::HS256 | Algorithm::HS384 | Algorithm::HS512)) => {
                let header = Header { kid: Some(kid.clone()), ..Header::new(symmetric) };
                let secret = EncodingKey::from_secret(signer.public.to_string().as_bytes());
                encode(&header, claims, &secret).expect("it is made")
            }
            Ok(algorithm) => Signer { algorithm, ..signer.clone() }.signed_texts(&header, &claims.to_string()),
            Err(_) if algorithm == "none" => {
                [header, claims.to_string()].map(|part| URL_SAFE_NO_PAD.encode(part)).join(".") + "."
            }
            Err(_) => signer.signed_texts(&header, &claims.to_string()),
        }
    }

    /// Returns an assertion.
    fn assertion(&self, algorithm: &str) -> String {
        self.signed(algorithm, &self.rsa.claims())
    }
}

/// Whether an answer is a success; else it must be a refusal.
fn is_taken(case: &str, answer: &Answer) -> bool {
    let (status, error) = (answer.status.as_u16(), answer.body["error"].as_str());
    assert!(status == 200 || (matches!(status, 400 | 401) && error.is_some()), "{case}: {answer:?}");
    status == 200
}

#[tokio::test]
async fn assertions_are_signed_by_what_is_listed_and_nothing_else() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let robot = Ring::new(&tenant, &user(&tenant, "robot").await).await;
    let project = created(&admin, &format!("{API}/projects"), json!({ "name": "Shop" })).await.id();
    let by_key = json!({ "authMethodType": "API_AUTH_METHOD_TYPE_PRIVATE_KEY_JWT" });
    let app = json!({ "projectId": project, "name": "Checks", "api": by_key });
    let app = done(&admin, &format!("{API}/apps"), app).await.id();
    let app = Ring::new(&tenant, &format!("apps/{app}")).await;
    let (mut token, mut granted, mut told, mut revoked) = (vec![], vec![], vec![], vec![]);
    for algorithm in ALGORITHMS {
        let client = async |ring: &Ring, path: &str| {
            let by = [("client_assertion_type", BY_ASSERTION), ("client_assertion", &ring.assertion(algorithm))];
            ask(&tenant, path, &[&by[..], &[("token", "unknown")]].concat()).await
        };
        for (works, answer) in [
            (&mut token, authenticated(&tenant, &robot.assertion(algorithm)).await),
            (&mut granted, exchanged(&tenant, &robot.assertion(algorithm)).await),
            (&mut told, client(&app, INTROSPECT).await),
            (&mut revoked, client(&robot, REVOKE).await),
        ] {
            works.extend(is_taken(algorithm, &answer).then_some(algorithm));
        }
    }
    let document = discovery(&tenant).await;
    assert_listed(&document, "token_endpoint_auth_signing_alg_values_supported", &token);
    assert_listed(&document, "introspection_endpoint_auth_signing_alg_values_supported", &told);
    assert_listed(&document, "revocation_endpoint_auth_signing_alg_values_supported", &revoked);
    assert_eq!(granted, token, "what is exchanged is signed in the same ways");
}

#[tokio::test]
async fn request_objects_are_signed_by_what_is_listed_and_nothing_else() {
    let flow = Flow::start().await;
    let ring = Ring::new(&flow.tenant, &format!("apps/{}", flow.app.id)).await;
    let mut works = vec![];
    for algorithm in ALGORITHMS {
        let now = base::clock::now().as_second();
        let (issuer, id) = (&flow.tenant.bootstrap.issuer, &flow.app.id);
        let claims = json!({ "iss": id, "aud": issuer, "iat": now, "exp": now + 300, "state": "inside" });
        let answer = flow
            .sent(&flow.authorize_parameters(&[("request", &ring.signed(algorithm, &claims)), ("prompt", "none")]))
            .await;
        let told = answered(&location(&answer));
        match (&*told["error"], &*told["state"]) {
            // It was read, as far as what is asked for.
            ("login_required", "inside") => works.push(algorithm),
            ("invalid_request_object" | "request_not_supported", "a b&c") => {}
            other => panic!("{algorithm}: {other:?}"),
        }
    }
    let document = discovery(&flow.tenant).await;
    assert_listed(&document, "request_object_signing_alg_values_supported", &works);
    assert_eq!(document["request_parameter_supported"], true);
}

#[tokio::test]
async fn id_tokens_are_signed_by_what_is_listed_and_nothing_else() {
    let tenant = Tenant::start().await;
    let admin = tenant.client().await;
    let path = user(&tenant, "robot").await;
    let signer = Signer::new(&tenant, &path, "EC").await;
    let all = ["RS256", "RS384", "RS512", "ES256", "ES384", "EdDSA"];
    let more = [("ES384", json!({ "ecdsa": { "curve": "ECDSA_CURVE_P384" } })), ("EdDSA", json!({ "ed25519": {} }))];
    for next in [None, Some(&more[0]), Some(&more[1])] {
        if let Some((algorithm, wanted)) = next {
            let made = done(&admin, KEYS, wanted.clone()).await.id();
            done(&admin, &format!("{KEYS}/{made}/_activate"), json!({})).await;
            let is_listed = async || {
                let listed = listed(&discovery(&tenant).await, "id_token_signing_alg_values_supported");
                listed.contains(*algorithm).then_some(())
            };
            eventually("it is listed", is_listed).await;
        }
        let mut works = vec![];
        for algorithm in all {
            let chosen =
                json!({ "service": { "idTokenAlg": format!("TOKEN_ALGORITHM_{}", algorithm.to_uppercase()) } });
            let request = admin.request(Method::PATCH, &format!("{API}/{path}")).header("prefer", "wait=10");
            let answer = send(request.json(&chosen)).await;
            if answer.status != StatusCode::OK {
                answer.assert_refused(algorithm, 400, "PRECONDITION_FAILED");
                continue;
            }
            let signs = async || {
                let answer = exchanged(&tenant, &signer.assertion()).await;
                let header = jsonwebtoken::decode_header(answer.body["id_token"].as_str()?).ok()?;
                (format!("{:?}", header.alg) == algorithm).then_some(())
            };
            eventually("ID tokens are signed so", signs).await;
            works.push(algorithm);
        }
        assert_listed(&discovery(&tenant).await, "id_token_signing_alg_values_supported", &works);
    }
}

/// The authentication methods of clients (RFC 7591, section 2; RFC 8705, section 2).
const METHODS: [&str; 7] = [
    "client_secret_basic",
    "client_secret_post",
    "client_secret_jwt",
    "private_key_jwt",
    "none",
    "tls_client_auth",
    "self_signed_tls_client_auth",
];

/// Returns a request of a client with a secret, a key, or neither, authenticated by one of these methods.
fn by_method(
    request: RequestBuilder,
    (method, client, signer): (&str, &ServiceUser, &Signer),
    form: &[(&str, &str)],
) -> RequestBuilder {
    let (id, secret) = (client.client_id.as_str(), client.client_secret.as_str());
    let asserting = |assertion: &str| {
        let by = [("client_assertion_type", BY_ASSERTION), ("client_assertion", assertion)];
        [form, &by].concat().into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect::<Vec<_>>()
    };
    match method {
        "client_secret_basic" => request.basic_auth(id, Some(secret)).form(form),
        "client_secret_post" => request.form(&[form, &[("client_id", id), ("client_secret", secret)]].concat()),
        "client_secret_jwt" => {
            let now = base::clock::now().as_second();
            let claims =
                json!({ "iss": id, "sub": id, "aud": signer.issuer, "iat": now, "exp": now + 60, "jti": new_name() });
            let key = EncodingKey::from_secret(secret.as_bytes());
            let assertion = encode(&Header::new(Algorithm::HS256), &claims, &key).expect("it is made");
            request.form(&asserting(&assertion))
        }
        "private_key_jwt" => request.form(&asserting(&signer.assertion())),
        // Nobody looks at certificates, so that whoever has one sends nothing but its name.
        _ => request.form(&[form, &[("client_id", id)]].concat()),
    }
}

/// Creates an app of a project with an authentication method.
async fn api_app(shop: &Shop, method: &str) -> (ServiceUser, Signer) {
    let method = json!({ "authMethodType": format!("API_AUTH_METHOD_TYPE_{method}") });
    let app = json!({ "projectId": shop.project, "name": new_name(), "api": method });
    let made = done(&shop.admin, &format!("{API}/apps"), app).await;
    let client_secret = made.body["clientSecret"].as_str().unwrap_or_default().to_owned();
    let signer = Signer::new(&shop.tenant, &format!("apps/{}", made.id()), "EC").await;
    (ServiceUser { user_id: made.id(), client_id: made.id(), client_secret }, signer)
}

#[tokio::test]
async fn clients_authenticate_in_the_ways_that_are_listed_and_in_no_other() {
    let shop = Shop::open(json!({})).await;
    let token = shop.token("").await;
    let robot = Signer::new(&shop.tenant, &format!("users/{}", shop.user.user_id), "EC").await;
    let (basic, basic_key) = api_app(&shop, "BASIC").await;
    let (signing, signing_key) = api_app(&shop, "PRIVATE_KEY_JWT").await;
    let flow = Flow::on((), shop.admin.clone(), App::public()).await;
    let public = flow.app.id.clone();
    let public = ServiceUser { user_id: public.clone(), client_id: public, client_secret: String::new() };
    let (mut asking, mut telling, mut ending) = (vec![], vec![], vec![]);
    for method in METHODS {
        let sent = async |path: &str, client: &ServiceUser, signer: &Signer, form: &[(&str, &str)]| {
            let request = shop.admin.anonymous(Method::POST, path);
            let answer = send(by_method(request, (method, client, signer), form)).await;
            is_taken(&format!("{method}, {path}"), &answer)
        };
        let form = [("grant_type", "client_credentials"), ("scope", SCOPE)];
        asking.extend(sent(TOKEN, &shop.user, &robot, &form).await.then_some(method));
        let form = [("token", token.as_str())];
        let tells =
            sent(INTROSPECT, &basic, &basic_key, &form).await || sent(INTROSPECT, &signing, &signing_key, &form).await;
        telling.extend(tells.then_some(method));
        let form = [("token", "unknown")];
        let ends = sent(REVOKE, &shop.user, &robot, &form).await
            || (method == "none" && sent(REVOKE, &public, &robot, &form).await);
        ending.extend(ends.then_some(method));
    }
    // Who cannot keep a secret gets tokens for those who log in.
    let (tokens, _) = flow.tokens(&[]).await;
    asking.extend(tokens["access_token"].is_string().then_some("none"));
    let document = discovery(&shop.tenant).await;
    assert_listed(&document, "token_endpoint_auth_methods_supported", &asking);
    assert_listed(&document, "introspection_endpoint_auth_methods_supported", &telling);
    assert_listed(&document, "revocation_endpoint_auth_methods_supported", &ending);
}

/// The grant types (RFC 6749; RFC 7522, 7523, 8628, 8693; OpenID CIBA).
const GRANTS: [&str; 10] = [
    "authorization_code",
    "implicit",
    "refresh_token",
    "client_credentials",
    "password",
    BEARER,
    "urn:ietf:params:oauth:grant-type:saml2-bearer",
    "urn:ietf:params:oauth:grant-type:device_code",
    EXCHANGE,
    "urn:openid:params:grant-type:ciba",
];

#[tokio::test]
async fn tokens_are_given_for_what_is_listed_and_nothing_else() {
    let mut settings = App::public();
    settings["responseTypes"] = json!(["OIDC_RESPONSE_TYPE_CODE", "OIDC_RESPONSE_TYPE_ID_TOKEN_TOKEN"]);
    settings["grantTypes"] = json!(
        ["AUTHORIZATION_CODE", "IMPLICIT", "REFRESH_TOKEN", "TOKEN_EXCHANGE"]
            .map(|name| format!("OIDC_GRANT_TYPE_{name}"))
    );
    let flow = Flow::with(settings).await;
    exchange::enable(&flow.admin).await;
    let robot = shop::user(&flow.admin, "robot", "").await;
    let signer = Signer::new(&flow.tenant, &format!("users/{}", robot.user_id), "EC").await;
    let (tokens, _) = flow.tokens(&[("scope", "openid offline_access")]).await;
    let (at_login, _) = flow
        .log_in(&[("response_type", "id_token token"), ("code_challenge", ""), ("code_challenge_method", "")])
        .await;
    let mut works = vec![];
    for grant in GRANTS {
        // All that any of them asks for, of somebody who may have it.
        let sent = async |more: &[(&str, &str)]| {
            let assertion = signer.assertion();
            let form =
                [("grant_type", grant), ("scope", SCOPE), ("assertion", &assertion), ("username", &flow.person.1)];
            let request = flow.admin.anonymous(Method::POST, TOKEN).form(&[&form[..], more].concat());
            send(if grant == BEARER {
                request
            } else {
                request.basic_auth(&robot.client_id, Some(&robot.client_secret))
            })
            .await
        };
        let token = match grant {
            "authorization_code" => tokens["access_token"].clone(),
            "refresh_token" => flow.refreshed(refresh_token(&tokens)).await["access_token"].clone(),
            EXCHANGE => {
                let of = (access_token(&tokens), exchange::ACCESS);
                exchange::exchanged(&flow, of, &[]).await["access_token"].clone()
            }
            "implicit" => json!(at_login["access_token"]),
            _ => sent(&[]).await.body["access_token"].clone(),
        };
        if token.is_string() {
            works.push(grant);
        }
        // What is given at the login is nothing to ask for afterwards.
        if token.is_null() || grant == "implicit" {
            let answer = sent(&[("password", PASSWORD)]).await;
            assert_error(grant, &answer, 400, "unsupported_grant_type");
        }
    }
    assert_listed(&discovery(&flow.tenant).await, "grant_types_supported", &works);
}
