//! The addresses of targets: the name is resolved and checked at each call, and that address is connected to.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use tests::{
    certificate,
    client::{Client, TARGETS, send},
    endpoint::{Endpoint, execute},
    platform::Platform,
};

async fn interrupting(client: &Client, url: &str) -> Option<String> {
    let target = json!({ "name": "x", "interruptOnError": true, "timeout": "5s", "restWebhook": { "url": url } });
    let created = send(client.request(Method::POST, TARGETS).json(&target)).await;
    (created.status == StatusCode::CREATED).then(|| created.id())
}

fn on_get() -> Value {
    json!({ "request": { "method": "/platform.resources.action.v3alpha.PlatformActions/GetTarget" } })
}

#[tokio::test]
async fn a_platform_for_others_calls_no_machine_of_its_own_network() {
    // It listens on all addresses, so nothing is allowed by itself.
    let platform = Platform::start_on("0.0.0.0:0", &[]).await;
    let (client, endpoint) = (platform.client().await, Endpoint::start().await);
    let port = endpoint.url.split(':').nth(2).and_then(|rest| rest.split('/').next()).expect("it has a port");
    for host in [
        "127.0.0.1",
        "localhost",
        "LOCALHOST.",
        "a.localhost",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "2130706433",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "127.1",
        "0.0.0.0",
        "[::]",
        "169.254.169.254",
        "[fe80::1]",
        "[fd00:ec2::254]",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.0.1",
        "100.64.0.1",
        "[64:ff9b::7f00:1]",
    ] {
        assert_eq!(interrupting(&client, &format!("http://{host}:{port}/")).await, None, "{host}");
    }
    // A name of this machine is no literal: it can be written, and is refused when it is called.
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
    let id = interrupting(&client, &format!("http://{name}:{port}/")).await.expect("it may be written");
    execute(&client, on_get(), &[&id]).await;
    let refused = send(client.request(Method::GET, &format!("{TARGETS}/{id}"))).await;
    refused.assert_refused("a name of this machine", 400, "EXECUTION_FAILED");
    if tokio::net::lookup_host((name.as_str(), 0)).await.is_ok() {
        let counted = platform.management().sum("platform_target_calls_total", &["\"forbidden\""]).await;
        assert!((counted - 1.).abs() < 0.1, "it was looked up and refused: {counted}");
    } else {
        println!("skipped: the name of this machine leads nowhere");
    }
    assert_eq!(endpoint.calls().len(), 0, "nobody was called");
}

#[tokio::test]
async fn a_standalone_for_this_machine_alone_may_call_it_and_says_so() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let told = folder.path().join("stderr");
    let stderr = std::fs::File::create(&told).expect("the folder can be written");
    let platform = Platform::start_telling(&[], &[], stderr.into()).await;
    let told = std::fs::read_to_string(told).expect("it is there");
    assert!(told.contains("targets on this machine are allowed"), "{told}");
    let (client, endpoint) = (platform.client().await, Endpoint::start().await);
    let url = endpoint.url.replace("127.0.0.1", "localhost");
    let id = interrupting(&client, &url).await.expect("it may be written");
    execute(&client, on_get(), &[&id]).await;
    let read = send(client.request(Method::GET, &format!("{TARGETS}/{id}"))).await;
    assert_eq!((read.status, endpoint.calls().len()), (StatusCode::OK, 1), "{}", read.body);
}

#[tokio::test]
async fn a_certificate_is_verified_before_anything_is_sent() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    certificate::certify(folder.path());
    let flags = certificate::flags(folder.path());
    let behind_tls = Platform::start_with(&flags, &[]).await;
    let url = format!("{}/hook", behind_tls.bootstrap.issuer);
    assert!(url.starts_with("https://"), "{url}");
    for (environment, outcome) in
        [(vec![], "\"unreachable\""), (vec![("SSL_CERT_FILE", flags[1].as_str())], "\"status\"")]
    {
        let platform = Platform::start_with(&[], &environment).await;
        let client = platform.client().await;
        let id = interrupting(&client, &url).await.expect("it may be written");
        execute(&client, on_get(), &[&id]).await;
        let refused = send(client.request(Method::GET, &format!("{TARGETS}/{id}"))).await;
        refused.assert_refused(outcome, 400, "EXECUTION_FAILED");
        // There is nothing behind the address, so a call that arrives is told so.
        let counted = platform.management().sum("platform_target_calls_total", &[outcome]).await;
        assert!((counted - 1.).abs() < 0.1, "{outcome}: {counted}");
    }
}
