//! The transports: TLS, browsers, health, compression, and malicious clients.

use std::{fs::Permissions, os::unix::fs::PermissionsExt, path::Path, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use proto::{
    action::{GetTargetRequest, GetTargetResponse},
    operation::GET_TARGET,
};
use reqwest::{Certificate, Method, RequestBuilder, StatusCode, Version, header::HeaderValue};
use serde_json::json;
use tests::{
    certificate,
    client::{Answer, SCOPE, TARGETS, http, send, target},
    cluster::Cluster,
    eventually,
    grpc::Grpc,
    platform::Platform,
    process::binary,
    tenant::{Shared, Tenant},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Writes a new certificate for loopback with its key.
fn certify(folder: &Path) -> Certificate {
    Certificate::from_pem(certificate::certify(folder).as_bytes()).expect("it is a certificate")
}

fn trusting(root: &Certificate) -> reqwest::ClientBuilder {
    let builder = reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(10));
    // Every request shakes hands anew.
    builder.tls_certs_only([root.clone()]).pool_max_idle_per_host(0)
}

#[tokio::test]
async fn tls_speaks_both_protocols_and_takes_new_certificates_up() {
    let cluster = Cluster::start().await;
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let first = certify(folder.path());
    let files = ["cert.pem", "key.pem"].map(|name| folder.path().join(name).display().to_string());
    let node = cluster.node("oidc", "oidc", &[("--tls-cert", &files[0]), ("--tls-key", &files[1])], &[]);
    let url = format!("{}/.well-known/openid-configuration", node.url.replace("http://", "https://"));
    let get = async |client: reqwest::Client| client.get(&url).send().await.ok();

    let both = trusting(&first).build().expect("a client");
    let answer = eventually("an answer over TLS", || get(both.clone())).await;
    assert_eq!((answer.status(), answer.version()), (StatusCode::OK, Version::HTTP_2));
    let old = get(trusting(&first).http1_only().build().expect("a client")).await.expect("HTTP/1.1 is spoken too");
    assert_eq!((old.status(), old.version()), (StatusCode::OK, Version::HTTP_11));
    let plain = reqwest::Client::builder().no_proxy().build().expect("a client").get(url.replace("https", "http"));
    assert!(plain.send().await.is_err(), "nothing is answered without TLS");

    let second = certify(folder.path());
    let renewed = trusting(&second).build().expect("a client");
    eventually("the new certificate", || get(renewed.clone())).await;
    assert!(get(trusting(&first).build().expect("a client")).await.is_none(), "the old one is gone");
    std::fs::write(folder.path().join("cert.pem"), "nonsense").expect("the folder can be written");
    let told = || async { node.log().contains("the new certificate is not used").then_some(()) };
    eventually("a warning", told).await;
    assert!(get(renewed).await.is_some(), "the last good one goes on");
}

#[test]
fn a_certificate_that_cannot_be_used_is_refused_with_the_file() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    certify(folder.path());
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::rename(path("key.pem"), path("other.pem")).expect("it is there");
    certify(folder.path());
    std::fs::write(path("empty.pem"), "").expect("the folder can be written");
    std::fs::set_permissions(path("empty.pem"), Permissions::from_mode(0o600)).expect("it is ours");
    std::fs::copy(path("key.pem"), path("open.pem")).expect("the folder can be written");
    std::fs::set_permissions(path("open.pem"), Permissions::from_mode(0o644)).expect("it is ours");
    for (certificate, key, word) in [
        ("cert.pem", "open.pem", "chmod 600"),
        ("missing.pem", "key.pem", "missing.pem"),
        ("empty.pem", "key.pem", "empty.pem must hold a certificate"),
        ("cert.pem", "empty.pem", "empty.pem must hold a private key"),
        ("cert.pem", "other.pem", "do not fit together"),
    ] {
        let mut command = std::process::Command::new(binary());
        let data = path("data");
        command.args(["standalone", "--listen", "127.0.0.1:0", "--data-dir", &data]);
        let output =
            command.args(["--tls-cert", &path(certificate), "--tls-key", &path(key)]).output().expect("it runs");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && told.contains(word), "{certificate}, {key}: {told}");
    }
}

#[tokio::test]
async fn a_page_of_another_origin_uses_the_api_and_gets_tokens_and_takes_no_part_in_a_login() {
    let shared = Shared::find().await;
    let client = shared.client().await;
    let preflight = |path: &str| {
        let request = client.anonymous(Method::OPTIONS, path).header("origin", "https://app.example");
        let request = request.header("access-control-request-method", "PATCH");
        send(request.header("access-control-request-headers", "authorization,if-match,x-grpc-web"))
    };
    let of_apps = ["/oauth/v2/keys", "/oauth/v2/token", "/oauth/v2/revoke", "/oidc/v1/userinfo"];
    let others = [TARGETS, GET_TARGET.facts.grpc, "/.well-known/openid-configuration"];
    for path in others.into_iter().chain(of_apps) {
        let answer = preflight(path).await;
        assert_eq!(answer.status, StatusCode::OK, "{path}");
        assert_eq!(answer.headers["access-control-allow-origin"], "https://app.example", "127: {path}");
        assert_eq!(answer.headers["access-control-allow-headers"], "authorization,if-match,x-grpc-web", "{path}");
        assert!(!answer.headers.contains_key("access-control-allow-credentials"), "{path}");
    }
    for path in ["/oauth/v2/introspect", "/oauth/v2/authorize", "/oidc/v1/end_session", "/ui/login/static/page.css"] {
        assert!(!preflight(path).await.headers.contains_key("access-control-allow-origin"), "{path}");
    }
    let read = client.request(Method::GET, &format!("{TARGETS}/1")).header("origin", "https://app.example");
    let read = send(read).await;
    assert_eq!(read.status, StatusCode::NOT_FOUND);
    assert_eq!(read.headers["access-control-allow-origin"], "https://app.example", "an error is readable too");
    let exposed = read.headers["access-control-expose-headers"].to_str().unwrap_or_default();
    assert!(exposed.contains("consistency-token") && exposed.contains("grpc-status"), "{exposed}");
    let form = [("grant_type", "client_credentials"), ("scope", SCOPE)];
    let token = client.anonymous(Method::POST, "/oauth/v2/token").header("origin", "https://app.example").form(&form);
    let answer = send(token).await;
    assert_eq!(answer.headers["access-control-allow-origin"], "https://app.example", "an app in a page gets tokens");
    assert!(!answer.headers.contains_key("access-control-allow-credentials"));
}

#[tokio::test]
async fn health_is_told_of_every_service() {
    use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse, health_check_response::ServingStatus};
    let shared = Shared::find().await;
    let grpc = Grpc::connect(&shared.bootstrap.issuer, None).await;
    let check = async |service: &str| {
        let request = HealthCheckRequest { service: service.to_owned() };
        grpc.call_path::<_, HealthCheckResponse>("/grpc.health.v1.Health/Check", request, &[]).await
    };
    for service in ["", GET_TARGET.facts.service] {
        assert_eq!(check(service).await.expect("it is known").into_inner().status(), ServingStatus::Serving);
    }
    assert_eq!(check("nothing").await.expect_err("it is not known").code(), tonic::Code::NotFound);
}

#[tokio::test]
async fn large_answers_are_compressed_for_who_can_read_them() {
    let tenant = Tenant::start().await;
    let client = tenant.client().await;
    for number in 0..20 {
        client.create_target(&format!("target {number}")).await.expect("it is created");
    }
    let http = http(&tenant.bootstrap.issuer).no_gzip().build().expect("a client");
    let search = |limit: u32, accept: &str| {
        let url = format!("{}{TARGETS}/_search?query.limit={limit}", tenant.bootstrap.issuer);
        send(http.post(url).bearer_auth(&client.token).header("accept-encoding", accept).json(&json!([])))
    };
    let large = search(20, "gzip").await;
    assert_eq!(large.headers.get("content-encoding"), Some(&HeaderValue::from_static("gzip")));
    assert!(large.headers.get_all("vary").iter().any(|vary| vary == "accept-encoding"), "{large:?}");
    assert!(!search(20, "identity").await.headers.contains_key("content-encoding"));
    let small = search(1, "gzip").await;
    assert!(!small.headers.contains_key("content-encoding"), "a small one is not worth it: {small:?}");

    // How long it gets would tell of the secret in it.
    let user = &tenant.bootstrap.service_user;
    let scope = format!("{SCOPE} urn:platform:iam:org:project:role:{}", "x".repeat(300));
    let form = [("grant_type", "client_credentials"), ("scope", &scope)];
    let asking = http.post(format!("{}/oauth/v2/token", tenant.bootstrap.issuer)).header("accept-encoding", "gzip");
    let token = send(asking.basic_auth(&user.client_id, Some(&user.client_secret)).form(&form)).await;
    assert!(token.status == 200 && token.body.to_string().len() > 1024, "{}", token.body);
    assert!(!token.headers.contains_key("content-encoding"), "{token:?}");
}

#[tokio::test]
async fn grpc_web_in_text_is_the_same_in_base64() {
    let tenant = Tenant::start().await;
    let client = tenant.client().await;
    let id = client.create_target("text").await.expect("it is created");
    let message = prost::Message::encode_to_vec(&GetTargetRequest { id });
    let frame = [vec![0], u32::try_from(message.len()).unwrap_or_default().to_be_bytes().to_vec(), message].concat();
    // A client may send it in parts, each with its padding.
    let (head, rest) = frame.split_at(4);
    let parts = [STANDARD.encode(head), STANDARD.encode(rest)].concat();
    for body in [STANDARD.encode(&frame), parts] {
        let request = client.request(Method::POST, GET_TARGET.facts.grpc).body(body);
        let response = request.header("content-type", "application/grpc-web-text").send().await.expect("it answers");
        assert_eq!(response.headers()["content-type"], "application/grpc-web-text+proto");
        let answer = STANDARD.decode(response.bytes().await.expect("a body")).expect("it is base64");
        let length = usize::from(answer[4]) + (usize::from(answer[3]) << 8);
        let read: GetTargetResponse = prost::Message::decode(&answer[5..5 + length]).expect("it is a target");
        assert_eq!(read.target.and_then(|found| found.target).map(|target| target.name).as_deref(), Some("text"));
        assert_eq!(&answer[5 + length..], b"\x80\x00\x00\x00\x0fgrpc-status:0\r\n");
    }
    for body in ["!!!!", "AAA", "AAAA\n"] {
        let request = client.request(Method::POST, GET_TARGET.facts.grpc).body(body);
        let response = request.header("content-type", "application/grpc-web-text").send().await.expect("it answers");
        assert_eq!(response.headers()["grpc-status"], "3", "{body}");
    }
}

#[tokio::test]
async fn good_clients_are_served_while_others_mean_harm() {
    let platform = Platform::start().await;
    let client = platform.client().await;
    let id = client.create_target("good").await.expect("it is created");
    let address = platform.bootstrap.issuer.trim_start_matches("http://").to_owned();

    // Connections that say half of a request, slowly.
    let mut slow = vec![];
    for _ in 0..300 {
        let mut stream = TcpStream::connect(&address).await.expect("there is room");
        stream.write_all(b"GET /nowhere HTTP/1.1\r\nhost: x\r\nx-slow: ").await.expect("it is written");
        slow.push(stream);
    }
    // Heads beyond all bounds.
    let bomb =
        format!("GET / HTTP/1.1\r\nhost: x\r\n{}\r\n", "x-bomb: 0123456789012345678901234567890\r\n".repeat(2000));
    let mut stream = TcpStream::connect(&address).await.expect("there is room");
    // The server may have hung up before the last byte.
    let _ = stream.write_all(bomb.as_bytes()).await;
    let mut answer = vec![0; 12];
    let _ = stream.read_exact(&mut answer).await;
    assert!(answer.starts_with(b"HTTP/1.1 431") || answer == [0; 12], "{}", String::from_utf8_lossy(&answer));
    // Requests that are reset before they are answered (CVE-2023-44487).
    let resets = rapid_resets(&address, 2000).await;
    assert!(resets < 2000, "the connection was closed after {resets} resets");
    for _ in 0..50 {
        let read = client.get_target(&id, None).await;
        assert_eq!(read.status, StatusCode::OK);
    }
    let created = send(client.request(Method::POST, TARGETS).json(&target("another"))).await;
    assert_eq!(created.status, StatusCode::CREATED);
    drop(slow);
}

/// Repeats a request until it is refused as too frequent: on a slow machine, requests are allowed again meanwhile.
async fn refused_at_last(request: impl Fn() -> RequestBuilder) -> Answer {
    for _ in 0..100 {
        let answer = send(request()).await;
        if answer.status == StatusCode::TOO_MANY_REQUESTS {
            return answer;
        }
    }
    panic!("a hundred are not too many")
}

#[tokio::test]
async fn who_asks_too_often_is_told_when_to_come_back() {
    let flags = ["--rate-limit-loopback", "--rate-limit-client", "2", "--rate-limit-address", "20"].map(str::to_owned);
    let platform = Platform::start_with(&flags, &[]).await;
    let client = platform.client().await;
    let read = || send(client.request(Method::GET, &format!("{TARGETS}/1")));
    let mut refused = None;
    for count in 0..12 {
        let answer = read().await;
        if answer.status == StatusCode::TOO_MANY_REQUESTS {
            refused = Some(answer);
            break;
        }
        assert_eq!(answer.status, StatusCode::NOT_FOUND);
        assert_eq!(answer.headers["ratelimit-policy"], "\"client\";q=10;w=5");
        let left = answer.headers["ratelimit"].to_str().unwrap_or_default().to_owned();
        assert!(left.starts_with("\"client\";r=") && count < 11, "{left}");
    }
    let refused = refused.expect("ten are too many within a second");
    refused.assert_refused("too many", 429, "RATE_LIMITED");
    assert_eq!(refused.body["details"][0]["metadata"], json!({ "limit": "client" }));
    assert_eq!(refused.headers["retry-after"], "1");
    let wait = Duration::from_secs(1);
    assert!(refused.headers["ratelimit"].to_str().is_ok_and(|left| left.starts_with("\"client\";r=0;t=")));
    let other = platform.client_named("viewer").await;
    let answer = send(other.request(Method::GET, &format!("{TARGETS}/1"))).await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND, "another client has a bucket of its own");
    let grpc = Grpc::connect(&platform.bootstrap.issuer, Some(&client.token)).await;
    refused_at_last(|| client.request(Method::GET, &format!("{TARGETS}/1"))).await;
    let too_much = async || {
        let answered = grpc.call(&GET_TARGET, GetTargetRequest { id: "1".into() }).await;
        answered.err().filter(|refused| refused.code() != tonic::Code::NotFound)
    };
    let refused = eventually("it is too much", too_much).await;
    assert_eq!(
        (refused.code(), tests::grpc::reason(&refused).as_str()),
        (tonic::Code::ResourceExhausted, "RATE_LIMITED")
    );
    let of_page = || client.request(Method::GET, &format!("{TARGETS}/1")).header("origin", "https://page.example");
    assert_eq!(refused_at_last(of_page).await.headers["access-control-allow-origin"], "https://page.example");
    let beforehand = client.anonymous(Method::OPTIONS, TARGETS).header("origin", "https://page.example");
    let beforehand = send(beforehand.header("access-control-request-method", "GET")).await;
    assert!(beforehand.headers.contains_key("ratelimit"), "what a browser asks beforehand counts too");
    // It waits as long as it was told, which is not too short.
    tokio::time::sleep(wait).await;
    assert_eq!(read().await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn an_object_has_the_tag_that_a_change_can_insist_on() {
    let tenant = Tenant::start().await;
    let client = tenant.client().await;
    let created = send(client.request(Method::POST, TARGETS).json(&target("tagged"))).await;
    let path = format!("{TARGETS}/{}", created.id());
    let tag = |answer: &Answer| answer.headers["etag"].to_str().unwrap_or_default().to_owned();
    let read = send(client.request(Method::GET, &path)).await;
    assert_eq!(tag(&created), tag(&read));
    let change = |name: &str, tag: &str| {
        send(client.request(Method::PATCH, &path).header("if-match", tag).json(&json!({ "name": name })))
    };
    let changed = change("changed", &tag(&read)).await;
    assert_eq!(changed.status, StatusCode::OK);
    change("late", &tag(&read)).await.assert_refused("an old tag", 412, "SEQUENCE_MISMATCH");
    assert_eq!(change("again", &tag(&changed)).await.status, StatusCode::OK);
    let read = send(client.request(Method::GET, &path)).await;
    assert_eq!(
        (&read.headers["cache-control"], &read.headers["x-content-type-options"]),
        (&"no-store".parse().unwrap(), &"nosniff".parse().unwrap())
    );
    let known = send(client.request(Method::GET, &path).header("if-none-match", tag(&read))).await;
    assert_eq!((known.status, tag(&known)), (StatusCode::NOT_MODIFIED, tag(&read)));
    let deleted = send(client.request(Method::DELETE, &path)).await;
    assert!(!deleted.headers.contains_key("etag"), "what is gone has none");
}

/// Opens and resets streams until the server closes the connection, and returns how many it took.
async fn rapid_resets(address: &str, most: usize) -> usize {
    let stream = TcpStream::connect(address).await.expect("there is room");
    let (mut sender, connection) = h2::client::handshake(stream).await.expect("it speaks HTTP/2");
    let ended = tokio::spawn(connection);
    for count in 0..most {
        let Ok(ready) = sender.ready().await else { return count };
        sender = ready;
        let request = http::Request::get(format!("http://{address}/nowhere")).body(()).expect("it is a request");
        let Ok((_, mut body)) = sender.send_request(request, false) else { return count };
        body.send_reset(h2::Reason::CANCEL);
        if count % 50 == 0 {
            tokio::task::yield_now().await;
        }
    }
    drop(sender);
    let closed = tokio::time::timeout(Duration::from_secs(5), ended).await;
    if matches!(closed, Ok(Ok(Err(_)))) { most - 1 } else { most }
}
