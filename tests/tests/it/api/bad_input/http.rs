//! Requests that are refused for their HTTP properties: path, method, type, size, host.

use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::json;
use tests::{
    client::{Client, TARGETS, send, target},
    instance::Instance,
    tenant::{Shared, Tenant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

const DISCOVERY: &str = "/.well-known/openid-configuration";
const KEYS: &str = "/oauth/v2/keys";
const TOKEN: &str = "/oauth/v2/token";

#[tokio::test]
async fn an_id_is_any_text_of_1_to_200_characters() {
    let tenant = Tenant::start().await;
    let client = tenant.client().await;
    let long = "x".repeat(200);
    for id in
        [long.as_str(), "0", "-1", "18446744073709551616", "%F0%9D%84%9E", "a%2Fb", "%00", "'%20or%201=1--", "..."]
    {
        for method in [Method::GET, Method::DELETE, Method::PATCH] {
            let request = client.request(method.clone(), &format!("{TARGETS}/{id}"));
            let request = if method == Method::PATCH { request.json(&json!({ "name": "x" })) } else { request };
            send(request).await.assert_refused(&format!("{method} {id}"), 404, "RESOURCE_NOT_FOUND");
        }
    }
    let four_bytes = "%F0%9D%84%9E".repeat(200);
    let request = client.request(Method::GET, &format!("{TARGETS}/{four_bytes}"));
    send(request).await.assert_refused("200 characters of four bytes", 404, "RESOURCE_NOT_FOUND");
    for id in ["x".repeat(201), "x".repeat(5000), "%F0%9D%84%9E".repeat(201), "%ff".into()] {
        for method in [Method::GET, Method::DELETE] {
            let request = client.request(method.clone(), &format!("{TARGETS}/{id}"));
            send(request).await.assert_refused(&format!("{method} {}", &id[..3]), 400, "INVALID_REQUEST");
        }
    }
}

#[tokio::test]
async fn a_request_of_another_kind_is_told_what_is_wrong() {
    let tenant = Tenant::start().await;
    let client = tenant.client().await;
    let typed = |kind: Option<&str>| {
        let request = client.request(Method::POST, TARGETS).body(target("typed").to_string());
        kind.into_iter().fold(request, |request, kind| request.header("content-type", kind))
    };
    for kind in
        [None, Some("text/plain"), Some("application/x-www-form-urlencoded"), Some("application/jsonp"), Some("")]
    {
        send(typed(kind)).await.assert_refused(&format!("{kind:?}"), 415, "UNSUPPORTED_MEDIA_TYPE");
    }
    for kind in ["application/json", "application/json; charset=utf-8", "Application/JSON"] {
        assert_eq!(send(typed(Some(kind))).await.status, StatusCode::CREATED, "{kind}");
    }
    for (method, path, allowed) in [
        (Method::PUT, TARGETS, vec!["POST"]),
        (Method::GET, TARGETS, vec!["POST"]),
        (Method::POST, "/resources/v3alpha/targets/1", vec!["GET", "PATCH", "DELETE"]),
        (Method::PUT, "/resources/v3alpha/targets/1", vec!["GET", "PATCH", "DELETE"]),
    ] {
        let refused = send(client.request(method.clone(), path)).await;
        refused.assert_refused(&format!("{method} {path}"), 405, "METHOD_NOT_ALLOWED");
        assert_eq!(refused.body["code"], json!(12), "{method} {path}");
        let allow = refused.headers["allow"].to_str().unwrap_or_default().to_owned();
        assert!(allowed.iter().all(|method| allow.contains(method)), "{method} {path}: {allow}");
    }
    let asked = send(client.request(Method::OPTIONS, "/resources/v3alpha/targets/1")).await;
    let allow = asked.headers["allow"].to_str().unwrap_or_default().to_owned();
    assert_eq!(asked.status, StatusCode::OK, "who asks which methods there are is told");
    assert!(["GET", "PATCH", "DELETE"].iter().all(|method| allow.contains(method)), "{allow}");
    for path in
        ["/nowhere", "/resources/v3alpha/targets/", "/resources/v3alpha/targets/1/2", "/RESOURCES/v3alpha/targets"]
    {
        for request in [client.request(Method::GET, path), client.anonymous(Method::POST, path).body("{")] {
            send(request).await.assert_refused(path, 404, "ROUTE_NOT_FOUND");
        }
    }
    let with_body = client.request(Method::DELETE, &format!("{TARGETS}/1")).json(&json!({}));
    send(with_body).await.assert_refused("a body where none belongs", 400, "INVALID_REQUEST");
}

#[tokio::test]
async fn a_body_of_more_than_a_mebibyte_is_answered_all_the_same() {
    let tenant = Tenant::start().await;
    let client = tenant.client().await;
    let body = |size: usize| {
        let text = target("padded").to_string();
        let padding = " ".repeat(size - text.len());
        text + &padding
    };
    let post =
        |size: usize| client.request(Method::POST, TARGETS).header("content-type", "application/json").body(body(size));
    assert_eq!(send(post(1 << 20)).await.status, StatusCode::CREATED);
    for size in [(1 << 20) + 1, 5_000_000, 16 << 20] {
        send(post(size)).await.assert_refused(&format!("{size} bytes"), 413, "BODY_TOO_LARGE");
    }
    let anonymous = client.anonymous(Method::POST, TARGETS).header("content-type", "application/json");
    let refused = send(anonymous.body(body(5_000_000))).await;
    refused.assert_refused("5 MB without a token", 401, "TOKEN_MISSING");
    let form = client.anonymous(Method::POST, TOKEN).form(&[("grant_type", "x".repeat(5_000_000))]);
    let refused = send(form).await;
    assert_eq!((refused.status, &refused.body["error"]), (StatusCode::BAD_REQUEST, &json!("invalid_request")));
}

/// Returns a request to each kind of endpoint.
fn everywhere(client: &Client) -> Vec<(&'static str, RequestBuilder)> {
    let form = [("grant_type", "client_credentials"), ("scope", "openid")];
    vec![
        ("the API", client.request(Method::GET, &format!("{TARGETS}/1"))),
        ("the token endpoint", client.anonymous(Method::POST, TOKEN).basic_auth("x", Some("y")).form(&form)),
        ("discovery", client.anonymous(Method::GET, DISCOVERY)),
        ("the keys", client.anonymous(Method::GET, KEYS)),
    ]
}

/// Case 147 of the OpenID Connect cases of the design.
#[tokio::test]
async fn an_unknown_host_is_nobody() {
    let shared = Shared::find().await;
    let client = shared.client().await;
    let port = shared.bootstrap.issuer.rsplit_once(':').map(|(_, port)| port.to_owned()).expect("it has a port");
    for host in ["evil.example", "127.0.0.1.evil.example", "[::1]", "127.0.0.2", "localhost.", "xn--nxasmq6b"] {
        for (what, request) in everywhere(&client) {
            let refused = send(request.header("host", format!("{host}:{port}"))).await;
            refused.assert_refused(&format!("{what} under {host}"), 404, "INSTANCE_NOT_FOUND");
        }
    }
    for (what, request) in everywhere(&client) {
        let refused = send(request.header("host", "127.0.0.1").header("host", "evil.example")).await;
        refused.assert_refused(&format!("{what} with two hosts"), 400, "INVALID_REQUEST");
    }
    for header in ["x-forwarded-host", "forwarded", "x-forwarded-proto", "x-forwarded-port", "x-original-host"] {
        let value = if header == "forwarded" { "host=evil.example;proto=https" } else { "evil.example" };
        let answer = send(client.anonymous(Method::GET, DISCOVERY).header(header, value)).await;
        assert_eq!(answer.body["issuer"], json!(shared.bootstrap.issuer), "{header}");
        assert!(!answer.body.to_string().contains("evil"), "{header}: {}", answer.body);
    }
    // Every host of the instance leads to the one issuer, in whatever case and with whatever port.
    for host in [format!("localhost:{port}"), "LOCALHOST".into(), "127.0.0.1:1".into()] {
        let answer = send(client.anonymous(Method::GET, DISCOVERY).header("host", &host)).await;
        assert_eq!(answer.body["issuer"], json!(shared.bootstrap.issuer), "{host}");
        let answer = send(client.request(Method::GET, &format!("{TARGETS}/1")).header("host", &host)).await;
        answer.assert_refused(&host, 404, "RESOURCE_NOT_FOUND");
    }
}

/// Sends bytes, and reads the answer until the platform closes the connection.
async fn raw(instance: &Instance, request: &str) -> String {
    let mut stream = TcpStream::connect(instance.address()).await.expect("the platform takes connections");
    stream.write_all(request.as_bytes()).await.expect("it reads");
    let mut answer = vec![];
    stream.read_to_end(&mut answer).await.expect("it answers");
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn the_host_in_the_request_line_counts_and_none_is_refused() {
    let shared = Shared::find().await;
    let end = "Connection: close\r\n\r\n";
    let absolute = format!("GET http://evil.example{DISCOVERY} HTTP/1.1\r\nHost: 127.0.0.1\r\n{end}");
    let answer = raw(&shared, &absolute).await;
    assert!(answer.starts_with("HTTP/1.1 404") && answer.contains("INSTANCE_NOT_FOUND"), "{answer}");
    let absolute = format!("GET http://127.0.0.1{DISCOVERY} HTTP/1.1\r\nHost: evil.example\r\n{end}");
    let answer = raw(&shared, &absolute).await;
    assert!(answer.contains(&format!("\"issuer\":\"{}\"", shared.bootstrap.issuer)), "{answer}");
    assert!(!answer.contains("evil"), "{answer}");
    for head in [
        format!("GET {DISCOVERY} HTTP/1.1\r\n{end}"),
        format!("GET {DISCOVERY} HTTP/1.1\r\nHost:\r\n{end}"),
        format!("GET {DISCOVERY} HTTP/1.1\r\nHost: a b\r\n{end}"),
        format!("GET {DISCOVERY} HTTP/1.1\r\nHost: 127.0.0.1, evil.example\r\n{end}"),
    ] {
        let answer = raw(&shared, &head).await;
        assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("INVALID_REQUEST"), "{head}: {answer}");
    }
    // A length and a chunked body at once is how requests are smuggled past a proxy.
    let smuggled = format!(
        "POST {TOKEN} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n{end}0\r\n\r\nGET {KEYS} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    );
    let answer = raw(&shared, &smuggled).await;
    assert_eq!(answer.matches("HTTP/1.1").count(), 1, "{answer}");
}

#[tokio::test]
async fn a_request_keeps_its_id_where_it_can_be_logged() {
    let tenant = Tenant::start().await;
    let client = tenant.client().await;
    let send_with = |id: String| send(client.request(Method::GET, &format!("{TARGETS}/1")).header("x-request-id", id));
    for id in ["mine".to_owned(), "x".repeat(128)] {
        let answer = send_with(id.clone()).await;
        assert_eq!(answer.headers["x-request-id"], id.as_str());
        answer.assert_refused("a request with an id", 404, "RESOURCE_NOT_FOUND");
    }
    for id in [String::new(), "two words".into(), "x".repeat(129), "\u{e9}".into()] {
        let answer = send_with(id.clone()).await;
        assert_ne!(answer.headers["x-request-id"].as_bytes(), id.as_bytes());
        answer.assert_refused("a request with a bad id", 404, "RESOURCE_NOT_FOUND");
    }
}
