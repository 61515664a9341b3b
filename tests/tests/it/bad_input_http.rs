//! Hosts: an instance is found by the host of the request and by nothing else.

use reqwest::{Method, StatusCode};
use tests::{
    client::{SCOPE, TARGETS, send},
    platform::Platform,
};

#[tokio::test]
async fn an_unknown_host_is_no_instance_anywhere() {
    let platform = Platform::start().await;
    let client = platform.client().await;
    for (method, path) in [
        (Method::GET, format!("{TARGETS}/1")),
        (Method::GET, "/.well-known/openid-configuration".to_owned()),
        (Method::GET, "/oauth/v2/keys".to_owned()),
        (Method::POST, "/oauth/v2/token".to_owned()),
    ] {
        let request = client.request(method, &path).header("host", "elsewhere.example");
        let answer = send(request.form(&[("grant_type", "client_credentials"), ("scope", SCOPE)])).await;
        assert_eq!((answer.status, answer.reason()), (StatusCode::NOT_FOUND, "INSTANCE_NOT_FOUND"), "{path}");
    }
    let discovery = "/.well-known/openid-configuration";
    for header in ["x-forwarded-host", "forwarded"] {
        let answer = send(client.anonymous(Method::GET, discovery).header(header, "host=elsewhere.example")).await;
        assert_eq!(answer.body["issuer"], platform.bootstrap.issuer, "{header} is not trusted");
    }
    let port = platform.bootstrap.issuer.rsplit(':').next().expect("an issuer has a port");
    let other = send(client.anonymous(Method::GET, discovery).header("host", format!("LOCALHOST:{port}"))).await;
    assert_eq!(other.body["issuer"], platform.bootstrap.issuer, "one issuer, whichever host is used");
}
