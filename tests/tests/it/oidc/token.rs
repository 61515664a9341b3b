//! The token endpoint, discovery and keys.

use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, SCOPE, send},
    tenant::{Tenant, instance_beside},
};

use super::{exchange::EXCHANGE, signer::BEARER};

const TOKEN: &str = "/oauth/v2/token";
const USERS: &str = "/resources/v3alpha/users";

/// Returns the header and the claims of a token, unverified.
pub(super) fn parts(token: &str) -> [Value; 2] {
    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
    let mut parts = token.split('.').map(|part| URL_SAFE_NO_PAD.decode(part).expect("tokens are base64url"));
    [0, 1].map(|_| serde_json::from_slice(&parts.next().expect("a token has three parts")).expect("it is JSON"))
}

fn ask(client: &Client) -> RequestBuilder {
    client.anonymous(Method::POST, TOKEN)
}

pub(super) fn assert_error(case: &str, answer: &Answer, status: u16, error: &str) {
    assert_eq!((answer.status.as_u16(), answer.body["error"].as_str()), (status, Some(error)), "{case}: {answer:?}");
    assert!(answer.body["error_description"].is_string(), "{case}");
    assert_eq!(answer.headers["cache-control"], "no-store", "{case}");
    assert!(answer.headers.contains_key("x-request-id"), "{case}");
}

#[tokio::test]
async fn discovery_lists_what_works_and_nothing_else() {
    let tenant = Tenant::start().await;
    let (client, issuer) = (tenant.client().await, &tenant.bootstrap.issuer);
    // 147: what works, under the issuer of the host.
    let discovery = send(client.anonymous(Method::GET, "/.well-known/openid-configuration")).await;
    assert_eq!(discovery.headers["content-type"], "application/json");
    let algorithms = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"];
    let methods = ["client_secret_basic", "client_secret_post", "none", "private_key_jwt"];
    let document = json!({
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/oauth/v2/authorize"),
        "userinfo_endpoint": format!("{issuer}/oidc/v1/userinfo"),
        "end_session_endpoint": format!("{issuer}/oidc/v1/end_session"),
        "token_endpoint": format!("{issuer}{TOKEN}"),
        "introspection_endpoint": format!("{issuer}/oauth/v2/introspect"),
        "revocation_endpoint": format!("{issuer}/oauth/v2/revoke"),
        "jwks_uri": format!("{issuer}/oauth/v2/keys"),
        "scopes_supported": ["openid", "profile", "email", "phone", "address", "offline_access"],
        "claims_supported": discovery.body["claims_supported"],
        "claims_parameter_supported": false,
        "response_types_supported": ["code", "id_token", "id_token token"],
        "response_modes_supported": ["query", "fragment", "form_post"],
        "prompt_values_supported": ["none", "login", "consent", "select_account", "create"],
        "ui_locales_supported": ["en", "de", "fr", "es", "it", "pt", "nl", "pl", "ja", "zh", "ar"],
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": true,
        "request_parameter_supported": true,
        "request_object_signing_alg_values_supported": discovery.body["token_endpoint_auth_signing_alg_values_supported"],
        "request_uri_parameter_supported": false,
        "grant_types_supported":
            ["authorization_code", "implicit", "refresh_token", "client_credentials", EXCHANGE, BEARER],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256", "RS256"],
        "token_endpoint_auth_methods_supported": methods,
        "token_endpoint_auth_signing_alg_values_supported": algorithms,
        "introspection_endpoint_auth_methods_supported": ["client_secret_basic", "private_key_jwt"],
        "introspection_endpoint_auth_signing_alg_values_supported": algorithms,
        "revocation_endpoint_auth_methods_supported": methods,
        "revocation_endpoint_auth_signing_alg_values_supported": algorithms,
    });
    assert_eq!(discovery.body, document);
    for path in ["/.well-known/openid-configuration", "/oauth/v2/keys"] {
        let tag = send(client.anonymous(Method::GET, path)).await.headers["etag"].clone();
        let again = client.anonymous(Method::GET, path).header("if-none-match", tag).send().await;
        assert_eq!(again.expect("it is answered").status(), StatusCode::NOT_MODIFIED, "148: {path}");
        let other = send(client.anonymous(Method::GET, path).header("if-none-match", "\"other\"")).await;
        assert_eq!(other.status, StatusCode::OK, "{path}");
    }
    assert_eq!(send(client.anonymous(Method::GET, "/oauth/v2/keys")).await.status, StatusCode::OK);
    for path in ["/.well-known/openid-configuration/", "//.well-known/openid-configuration", "/oauth/v2/keys/"] {
        assert_eq!(send(client.anonymous(Method::GET, path)).await.status, StatusCode::NOT_FOUND, "147: {path}");
    }
    assert_error("the token endpoint", &send(ask(&client).form(&[("a", "b")])).await, 400, "invalid_request");
}

#[tokio::test]
async fn no_user_name_can_be_taken_for_an_id() {
    let tenant = Tenant::start().await;
    let client = tenant.client().await;
    let named = |name: &str| client.request(Method::POST, USERS).json(&json!({ "username": name, "service": {} }));
    let id = tenant.bootstrap.service_user.user_id.as_str();
    for name in [id, "1", "000000000000000000"] {
        let refused = send(named(name)).await;
        assert_eq!((refused.status.as_u16(), refused.reason()), (400, "INVALID_REQUEST"), "{name}: {}", refused.body);
        let message = "user.username must not consist of digits only, like an id";
        assert_eq!(refused.body["message"], message, "{name}");
    }
    assert_eq!(send(named(&format!("{id}-robot"))).await.status, 201);
    let renamed = client.request(Method::PATCH, &format!("{USERS}/{id}")).json(&json!({ "username": "2" }));
    assert_eq!(send(renamed).await.status, 400);
}

#[tokio::test]
async fn a_service_user_gets_a_token_that_the_keys_verify() {
    let tenant = Tenant::start().await;
    let client = tenant.client().await;
    let bootstrap = &tenant.bootstrap;
    let keys = send(client.anonymous(Method::GET, "/oauth/v2/keys")).await;
    let all = keys.body["keys"].as_array().unwrap();
    for key in all {
        let members: Vec<_> = key.as_object().unwrap().keys().map(String::as_str).collect();
        let expected: &[&str] = match key["kty"].as_str() {
            Some("RSA") => &["alg", "e", "kid", "kty", "n", "use"],
            _ => &["alg", "crv", "kid", "kty", "use", "x", "y"],
        };
        assert_eq!(members, expected, "nothing private is published");
    }
    assert_eq!((all.len(), all[1]["alg"].as_str()), (2, Some("RS256")));
    let key = &all[0];
    // 148: neither is published by another instance.
    let beside = send(instance_beside(&tenant).await.client().await.anonymous(Method::GET, "/oauth/v2/keys")).await;
    let theirs = beside.body["keys"].as_array().unwrap();
    let is_theirs = |name: &str| {
        theirs.iter().any(|other| all.iter().any(|own| own.get(name).is_some_and(|own| other.get(name) == Some(own))))
    };
    assert!(theirs.len() == 2 && !["kid", "n", "x", "y"].into_iter().any(is_theirs), "148: {}", beside.body);
    assert_eq!((key["alg"].as_str(), key["use"].as_str()), (Some("ES256"), Some("sig")));

    let user = &bootstrap.service_user;
    let form = |how: &[(&str, &str)]| {
        let mut form = vec![("grant_type", "client_credentials"), ("scope", SCOPE)];
        form.extend_from_slice(how);
        form.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect::<Vec<_>>()
    };
    let basic = send(ask(&client).basic_auth(&user.client_id, Some(&user.client_secret)).form(&form(&[]))).await;
    let post = form(&[("client_id", &user.client_id), ("client_secret", &user.client_secret)]);
    let post = send(ask(&client).form(&post)).await;
    let by_id = send(ask(&client).basic_auth(&user.user_id, Some(&user.client_secret)).form(&form(&[]))).await;
    let mut seen = vec![];
    for answer in [basic, post, by_id] {
        assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
        assert_eq!(
            (&answer.headers["cache-control"], &answer.headers["pragma"]),
            (&"no-store".parse().unwrap(), &"no-cache".parse().unwrap())
        );
        assert_eq!(answer.body["token_type"], "Bearer");
        assert_eq!(answer.body["expires_in"], 43_200);
        assert_eq!(answer.body["scope"], SCOPE);
        let token = answer.body["access_token"].as_str().unwrap();
        let [header, claims] = parts(token);
        assert_eq!(header, json!({ "typ": "at+jwt", "alg": "ES256", "kid": key["kid"] }));
        assert_eq!((&claims["iss"], &claims["sub"]), (&json!(bootstrap.issuer), &json!(user.user_id)));
        assert_eq!((&claims["aud"], &claims["client_id"]), (&json!([bootstrap.project_id]), &json!(user.user_id)));
        assert!(!seen.contains(&claims["jti"]), "every token has an id of its own");
        seen.push(claims["jti"].clone());
        assert_eq!(claims["scope"], SCOPE);
        assert_eq!(claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap(), 43_200);
        let decoding = jsonwebtoken::DecodingKey::from_jwk(&serde_json::from_value(key.clone()).unwrap()).unwrap();
        let mut validation = jsonwebtoken::Validation::new(jsonwebtoken::Algorithm::ES256);
        validation.set_audience(&[&bootstrap.project_id]);
        jsonwebtoken::decode::<Value>(token, &decoding, &validation).expect("the published key verifies it");
    }
}

#[tokio::test]
async fn a_wrong_token_request_gets_the_error_of_the_rfc() {
    let tenant = Tenant::start().await;
    let client = tenant.client().await;
    let user = &tenant.bootstrap.service_user;
    let with = |form: &[(&str, &str)]| ask(&client).basic_auth(&user.client_id, Some(&user.client_secret)).form(form);
    let credentials = ("grant_type", "client_credentials");
    let scope = ("scope", SCOPE);
    for (case, request, status, error) in [
        ("no grant type", with(&[scope]), 400, "invalid_request"),
        ("an empty grant type", with(&[("grant_type", ""), scope]), 400, "invalid_request"),
        ("an unknown grant type", with(&[("grant_type", "magic"), scope]), 400, "unsupported_grant_type"),
        ("a password", with(&[("grant_type", "password"), scope]), 400, "unsupported_grant_type"),
        ("a parameter twice", with(&[credentials, scope, scope]), 400, "invalid_request"),
        ("99: no scope", with(&[credentials]), 400, "invalid_scope"),
        ("a scope that is none", with(&[credentials, ("scope", "a\u{e9}")]), 400, "invalid_scope"),
        ("85: two ways at once", with(&[credentials, scope, ("client_secret", "x")]), 400, "invalid_request"),
        ("87: another client", with(&[credentials, scope, ("client_id", "x")]), 400, "invalid_request"),
        ("JSON", ask(&client).json(&json!({ "grant_type": "client_credentials" })), 400, "invalid_request"),
        ("nobody", ask(&client).form(&[credentials, scope]), 401, "invalid_client"),
        ("a bearer", ask(&client).bearer_auth("x").form(&[credentials, scope]), 401, "invalid_client"),
        (
            "86: no base64",
            ask(&client).header("authorization", "Basic !").form(&[credentials, scope]),
            401,
            "invalid_client",
        ),
        (
            "86: no colon",
            ask(&client).header("authorization", "Basic YQ==").form(&[credentials, scope]),
            401,
            "invalid_client",
        ),
        ("two headers", with(&[credentials, scope]).bearer_auth("x"), 400, "invalid_request"),
        ("no secret", ask(&client).form(&[credentials, scope, ("client_id", &user.client_id)]), 401, "invalid_client"),
        ("86: an empty secret", ask(&client).basic_auth(&user.client_id, Some("")).form(&[credentials, scope]), 401, {
            "invalid_client"
        }),
        ("a control character", with(&[credentials, ("scope", "openid\u{0}")]), 400, "invalid_scope"),
        ("a grant type that is nearly one", with(&[("grant_type", "Client_Credentials"), scope]), 400, {
            "unsupported_grant_type"
        }),
        ("a coded form", with(&[credentials, scope]).header("content-encoding", "gzip"), 400, "invalid_request"),
        ("nothing", ask(&client).header("content-type", "application/x-www-form-urlencoded"), 400, "invalid_request"),
    ] {
        assert_error(case, &send(request).await, status, error);
    }
    let form = [credentials, scope];
    let wrong = send(ask(&client).basic_auth(&user.client_id, Some("wrong")).form(&form)).await;
    let unknown = send(ask(&client).basic_auth("unknown", Some("wrong")).form(&form)).await;
    assert_error("a wrong secret", &wrong, 401, "invalid_client");
    assert_eq!((unknown.status, &unknown.body), (wrong.status, &wrong.body), "92: an unknown client is not told apart");
    assert!(wrong.headers["www-authenticate"].to_str().unwrap().starts_with("Basic"));
    let get = send(client.anonymous(Method::GET, TOKEN)).await;
    assert_eq!((get.status, &get.headers["allow"]), (StatusCode::METHOD_NOT_ALLOWED, &"POST".parse().unwrap()));
    let query = format!("{TOKEN}?client_id={}&client_secret={}", user.client_id, user.client_secret);
    let query = send(client.anonymous(Method::POST, &query).form(&form)).await;
    assert_error("a secret in the address", &query, 401, "invalid_client");
}

#[tokio::test]
async fn tokens_live_as_long_as_their_instance_says() {
    let tenant = Tenant::start().await;
    let client = tenant.client().await;
    let user = &tenant.bootstrap.service_user;
    let lifetime = async || {
        let request = ask(&client).basic_auth(&user.client_id, Some(&user.client_secret));
        let granted = send(request.form(&[("grant_type", "client_credentials"), ("scope", SCOPE)])).await.body;
        let [_, claims] = parts(granted["access_token"].as_str().expect("there is a token"));
        let lives = claims["exp"].as_i64().zip(claims["iat"].as_i64()).map(|(exp, iat)| exp - iat);
        assert_eq!(lives, granted["expires_in"].as_i64(), "{granted}");
        lives
    };
    assert_eq!(lifetime().await, Some(43_200));
    let minute = json!({ "accessTokenLifetime": { "set": "61.5s" } });
    let set = send(client.request(Method::PATCH, "/settings/v3alpha/oidc").json(&minute)).await;
    assert_eq!(set.status, StatusCode::OK, "{}", set.body);
    assert_eq!(lifetime().await, Some(61), "in whole seconds, at once on the node that wrote it");
}
