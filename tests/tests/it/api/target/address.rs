//! The addresses of targets: a literal IP address is checked when the target is written.

use reqwest::{Method, StatusCode};
use serde_json::json;
use tests::{
    client::{TARGETS, send},
    platform::Platform,
};

#[tokio::test]
async fn an_address_of_a_private_network_is_refused_unless_it_is_allowed() {
    let flags = ["--allow-targets", "10.7.0.0/16,hooks.localhost"].map(str::to_owned);
    let platform = Platform::start_with(&flags, &[]).await;
    let client = platform.client().await;
    let id = client.create_target("public").await.expect("it is created");
    let end = platform.log_end().await;
    for url in [
        "http://10.0.0.1/",
        "https://192.168.1.1:8443/hook",
        "http://169.254.169.254/latest/meta-data",
        "http://[fd00::1]/",
        "http://[::ffff:10.0.0.1]/",
        "http://167772161/",
        "http://0xa.0.0.1/",
        "http://012.0.0.1/",
        "http://10.1./",
    ] {
        for (kind, path) in
            [("restWebhook", "target.restWebhook.url"), ("restRequestResponse", "target.restRequestResponse.url")]
        {
            let target = json!({ "name": "x", kind: { "url": url } });
            for (method, at) in [(Method::POST, TARGETS.to_owned()), (Method::PATCH, format!("{TARGETS}/{id}"))] {
                let refused = send(client.request(method, &at).json(&target)).await;
                refused.assert_refused(url, 400, "INVALID_REQUEST");
                assert_eq!(refused.body["details"][1]["fieldViolations"][0]["field"], path, "{}", refused.body);
            }
        }
    }
    assert_eq!(platform.log_end().await, end, "what was refused has changed nothing");
    // It listens on loopback, so this machine is allowed.
    for url in ["http://10.7.1.1/", "http://127.0.0.1:9/", "http://localhost:9/", "http://[::1]/", "https://8.8.8.8/"] {
        let target = json!({ "name": "x", "restWebhook": { "url": url } });
        let created = send(client.request(Method::POST, TARGETS).json(&target)).await;
        assert_eq!(created.status, StatusCode::CREATED, "{url}: {}", created.body);
    }
}
