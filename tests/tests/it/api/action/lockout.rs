//! An execution that locks everybody out can be removed by the operator, for whose calls no execution runs.

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    client::{EXECUTIONS, TARGETS, send},
    endpoint::{Endpoint, Reply, execute},
    platform::Platform,
    process::run,
    tenant::Tenant,
};

#[tokio::test]
async fn an_operator_removes_an_execution_that_locks_everybody_out() {
    let flags = ["--allow-targets", "127.0.0.0/8"].map(str::to_owned);
    let platform = Platform::start_on("0.0.0.0:0", &flags).await;
    let (mut client, endpoint) = (platform.client().await, Endpoint::replying(Reply::status(500)).await);
    let (id, _) = endpoint.target(&client, "restWebhook", &json!({ "interruptOnError": true })).await;
    let execution = execute(&client, json!({ "request": { "all": true } }), &[&id]).await.id();
    let path = format!("{EXECUTIONS}/{execution}");
    send(client.request(Method::DELETE, &path)).await.assert_refused("locked out", 400, "EXECUTION_FAILED");

    let called = endpoint.take().len();
    let data = platform.data().display().to_string();
    let owner = client.token.clone();
    let (is_fine, token, said) = run(&["system-token", "--data-dir", &data]);
    assert!(is_fine, "{said}");
    token.trim().clone_into(&mut client.token);
    let search = client.request(Method::POST, &format!("{TARGETS}/_search")).json(&json!([]));
    assert_eq!(send(search).await.status, StatusCode::OK);
    let (is_fine, _, said) = run(&["execution", "delete", "1", "--data-dir", &data]);
    assert!(!is_fine && said.contains("RESOURCE_NOT_FOUND"), "{said}");
    // A node's own address, under which no instance answers.
    let port = platform.bootstrap.issuer.rsplit(':').next().expect("it has a port");
    let node = format!("http://127.0.0.2:{port}");
    let (is_fine, printed, said) = run(&["execution", "delete", &execution, "--data-dir", &data, "--url", &node]);
    assert!(is_fine && printed.contains("removed"), "{said}");
    assert_eq!((called, endpoint.take().len()), (1, 0), "no execution runs on the calls of a system user");
    client.token = owner;
    assert_eq!(send(client.request(Method::GET, &format!("{TARGETS}/{id}"))).await.status, StatusCode::OK);
}

#[tokio::test]
async fn only_a_short_token_of_the_right_key_for_the_right_issuer_is_one_of_a_system_user() {
    let tenant = Tenant::start().await;
    let mut client = tenant.client().await;
    let key = std::fs::read_to_string(tenant.data().join("system-user.key")).expect("it was made");
    let key: Vec<u8> = (0..key.len() / 2).map(|at| u8::from_str_radix(&key[2 * at..2 * at + 2], 16).unwrap()).collect();
    let other = base::signing::es256("other").private;
    let (issuer, now) = (&tenant.bootstrap.issuer, base::clock::now().as_second());
    let good = json!({ "iss": "operator", "sub": "operator", "aud": issuer, "iat": now, "exp": now + 3600 });
    let with = |name: &str, value: Value| {
        let mut claims = good.clone();
        claims[name] = value;
        claims
    };
    for (case, claims, key, is_good) in [
        ("good", good.clone(), &key[..], true),
        ("another key", good.clone(), &other[..], false),
        ("another issuer", with("aud", json!("https://elsewhere.example")), &key, false),
        ("two audiences", with("aud", json!([issuer, "https://elsewhere.example"])), &key, false),
        ("another subject", with("sub", json!("somebody")), &key, false),
        ("another name", with("iss", json!("somebody")), &key, false),
        ("too long", with("exp", json!(now + 3700)), &key, false),
        ("expired", with("exp", json!(now - 1)), &key, false),
        ("from the future", with("iat", json!(now + 3000)), &key, false),
    ] {
        client.token = encode(&Header::new(Algorithm::ES256), &claims, &EncodingKey::from_ec_der(key)).unwrap();
        let answer = send(client.request(Method::POST, &format!("{TARGETS}/_search")).json(&json!([]))).await;
        if is_good {
            assert_eq!(answer.status, StatusCode::OK, "{case}: {}", answer.body);
            assert!(client.create_target("x").await.is_some(), "it writes too");
        } else {
            answer.assert_refused(case, 401, "TOKEN_INVALID");
        }
    }
}
