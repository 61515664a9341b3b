//! Domains: they have no effect before they are verified, and afterwards belong to one owner only.

use std::{fs::Permissions, net::SocketAddr, os::unix::fs::PermissionsExt, path::PathBuf};

use ::domain::address::Networks;
use axum::{Router, routing::get};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use server::{
    connections::{self, Limits, Listening},
    tls::Certificate,
};
use tests::{
    client::{Answer, Client, SCOPE, after, done, send, waited},
    dns::Dns,
    eventually,
    platform::Platform,
    process::run,
    tenant::{Tenant, new_host},
};
use tokio::net::TcpListener;

const DOMAINS: &str = "/resources/v3alpha/domains";
const ORGANIZATIONS: &str = "/resources/v3alpha/organizations";
const INSTANCES: &str = "/resources/v3alpha/instances";
const USERS: &str = "/resources/v3alpha/users";

async fn start() -> (Platform, Dns) {
    let dns = Dns::start().await;
    let flags = ["--dns-server".to_owned(), dns.address.to_string()];
    (Platform::start_with(&flags, &[]).await, dns)
}

async fn validate(client: &Client, domain: &Answer, kind: &str) -> Answer {
    let path = format!("{DOMAINS}/{}/_validate?validationType=DOMAIN_VALIDATION_TYPE_{kind}", domain.id());
    waited(client, &path, json!({})).await
}

/// Publishes the challenge token as the answer to the create says.
fn publish(dns: &Dns, made: &Answer) {
    let text = |name: &str| made.body["challenge"][name].as_str().expect("it is told").to_owned();
    dns.text(&text("dnsRecord"), &text("token"));
}

async fn discovery(client: &Client, host: &str) -> Answer {
    send(client.anonymous(Method::GET, "/.well-known/openid-configuration").header("host", host)).await
}

#[tokio::test]
async fn a_host_serves_once_it_is_validated() {
    let (platform, dns) = start().await;
    let admin = platform.client().await;
    let domain = json!({ "domain": "acme.example" });
    let made = done(&admin, DOMAINS, domain.clone()).await;
    assert_eq!(made.body["challenge"]["dnsRecord"], "_platform-challenge.acme.example");
    assert_eq!(made.body["challenge"]["token"].as_str().map(str::len), Some(32));
    waited(&admin, DOMAINS, domain).await.assert_refused("again", 409, "RESOURCE_EXISTS");

    let refused = validate(&admin, &made, "DNS").await;
    refused.assert_refused("nothing is published", 400, "CHALLENGE_NOT_FOUND");
    assert!(refused.body["message"].as_str().is_some_and(|text| text.contains("_platform-challenge.acme.example")));
    dns.text("_platform-challenge.acme.example", "something else");
    validate(&admin, &made, "DNS").await.assert_refused("another text", 400, "CHALLENGE_NOT_FOUND");
    let primary = |made: &Answer| format!("{DOMAINS}/{}/_set_as_primary", made.id());
    waited(&admin, &primary(&made), json!({})).await.assert_refused("too early", 400, "PRECONDITION_FAILED");
    discovery(&admin, "acme.example").await.assert_refused("not validated", 404, "INSTANCE_NOT_FOUND");

    publish(&dns, &made);
    assert_eq!(validate(&admin, &made, "DNS").await.status, 200);
    assert_eq!(validate(&admin, &made, "HTTP").await.status, 200, "what is verified is not looked for again");
    let read = send(admin.request(Method::GET, &format!("{DOMAINS}/{}", made.id()))).await.body;
    assert_eq!(read["domain"]["domain"], json!({ "domain": "acme.example", "isVerified": true }));
    assert_eq!(read["domain"]["challenge"], Value::Null);
    let issuer = &platform.bootstrap.issuer;
    eventually("it serves", async || (discovery(&admin, "acme.example").await.status == 200).then_some(())).await;
    assert_eq!(discovery(&admin, "acme.example").await.body["issuer"], json!(issuer), "its first domain is another");

    let found = waited(&admin, &format!("{DOMAINS}/_search"), json!([{ "isPrimary": true }])).await.body;
    assert_eq!(found["details"]["totalResult"], "1", "{found}");
    let first = found["result"][0]["details"]["id"].as_str().expect("it has an id").to_owned();
    let changed = waited(&admin, &primary(&made), json!({})).await;
    assert_eq!(changed.status, 200, "{}", changed.body);
    let new_issuer = eventually("the issuer changes", async || {
        let now = discovery(&admin, "127.0.0.1").await.body["issuer"].as_str().unwrap_or_default().to_owned();
        now.contains("acme.example").then_some(now)
    });
    let new_issuer = new_issuer.await;
    send(admin.request(Method::GET, &format!("{DOMAINS}/{first}"))).await.assert_refused(
        "a token of the issuer before",
        401,
        "TOKEN_INVALID",
    );
    let admin = platform.client().await;
    let found = waited(&admin, &format!("{DOMAINS}/_search"), json!([{ "isPrimary": true }])).await.body;
    assert_eq!(found["details"]["totalResult"], "1", "{found}");
    assert_eq!(found["result"][0]["domain"]["domain"], "acme.example", "{new_issuer}");

    goes_back(&admin, (&made.id(), &first), issuer).await;
    let admin = platform.client().await;
    assert_eq!(send(admin.request(Method::DELETE, &format!("{DOMAINS}/{}", made.id()))).await.status, 200);
    eventually("it serves no more", async || (discovery(&admin, "acme.example").await.status == 404).then_some(()))
        .await;
}

/// Checks that the primary domain stays until there is another one.
async fn goes_back(admin: &Client, (now, before): (&str, &str), issuer: &str) {
    send(admin.request(Method::DELETE, &format!("{DOMAINS}/{now}"))).await.assert_refused(
        "the issuer is made of it",
        400,
        "PRECONDITION_FAILED",
    );
    assert_eq!(waited(admin, &format!("{DOMAINS}/{before}/_set_as_primary"), json!({})).await.status, 200);
    eventually("the issuer changes back", async || {
        (discovery(admin, "127.0.0.1").await.body["issuer"] == json!(issuer)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_host_belongs_to_who_validates_it_first() {
    let (platform, dns) = start().await;
    let (admin, operator) = (platform.client().await, platform.operator().await);
    let ours = done(&admin, DOMAINS, json!({ "domain": "acme.example" })).await;
    let other = done(&operator, INSTANCES, json!({ "name": "Other", "domain": "other.example" })).await;
    let theirs = format!("{DOMAINS}?ctx.instanceId={}", other.id());
    // Only whoever may write instances can skip the validation.
    let at_once = json!({ "domain": "acme.example", "isVerified": true });
    waited(&admin, DOMAINS, at_once.clone()).await.assert_refused("an owner", 403, "PERMISSION_DENIED");
    let taken = done(&operator, &theirs, at_once.clone()).await;
    assert_eq!(taken.body["challenge"], Value::Null);
    waited(&operator, DOMAINS, at_once).await.assert_refused("listed already", 409, "RESOURCE_EXISTS");
    let issuer = &other.body["issuer"];
    eventually("it serves", async || (discovery(&admin, "acme.example").await.body["issuer"] == *issuer).then_some(()))
        .await;

    publish(&dns, &ours);
    validate(&admin, &ours, "DNS").await.assert_refused("another one has it", 409, "RESOURCE_EXISTS");
    let removed = send(operator.request(Method::DELETE, &format!("{INSTANCES}/{}", other.id()))).await;
    assert_eq!(removed.status, 200, "{}", removed.body);
    assert_eq!(validate(&admin, &ours, "DNS").await.status, 200, "it is free again");
    eventually("it serves for the other one", async || {
        (discovery(&admin, "acme.example").await.body["issuer"] == json!(platform.bootstrap.issuer)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn another_name_is_validated_again() {
    let (platform, dns) = start().await;
    let admin = platform.client().await;
    let made = done(&admin, DOMAINS, json!({ "domain": "typo.example" })).await;
    publish(&dns, &made);
    let path = format!("{DOMAINS}/{}", made.id());
    let rename = |name: &str| {
        let request = admin.request(Method::PATCH, &path).header("prefer", "wait=10");
        send(request.json(&json!({ "domain": name })))
    };
    assert_eq!(validate(&admin, &made, "DNS").await.status, 200);
    assert_eq!(rename("right.example").await.status, 200);
    let read = send(admin.request(Method::GET, &path)).await.body;
    assert_eq!(read["domain"]["domain"], json!({ "domain": "right.example" }));
    assert_eq!(read["domain"]["challenge"]["dnsRecord"], "_platform-challenge.right.example");
    validate(&admin, &made, "DNS").await.assert_refused("the other name's record", 400, "CHALLENGE_NOT_FOUND");
    eventually("no host", async || (discovery(&admin, "typo.example").await.status == 404).then_some(())).await;
}

#[tokio::test]
async fn an_organization_is_named_by_its_domain() {
    let (platform, dns) = start().await;
    let admin = platform.client().await;
    let mut organizations = vec![];
    for name in ["Acme", "Imitation"] {
        let organization = done(&admin, ORGANIZATIONS, json!({ "name": name })).await.id();
        let domains = format!("{DOMAINS}?ctx.orgId={organization}");
        organizations.push((organization, done(&admin, &domains, json!({ "domain": "acme.example" })).await));
    }
    let [(acme, ours), (imitation, theirs)] = &organizations[..] else { panic!("there are two") };
    let users = format!("{USERS}?ctx.orgDomain=ACME.example");
    let user = |name: &str| json!({ "username": name, "service": {} });
    waited(&admin, &users, user("robot")).await.assert_refused("not validated", 404, "RESOURCE_NOT_FOUND");
    publish(&dns, ours);
    let validated = validate(&admin, ours, "DNS").await;
    assert_eq!(validated.status, 200);
    let robot = after(&validated, admin.request(Method::POST, &users).json(&user("robot"))).await;
    assert_eq!(robot.status, 201, "{}", robot.body);
    assert_eq!(robot.body["details"]["resourceOwner"]["id"], json!(acme));
    discovery(&admin, "acme.example").await.assert_refused("it is no host", 404, "INSTANCE_NOT_FOUND");

    publish(&dns, theirs);
    validate(&admin, theirs, "DNS").await.assert_refused("another one has it", 409, "RESOURCE_EXISTS");
    assert_eq!(waited(&admin, &format!("{DOMAINS}/{}/_set_as_primary", ours.id()), json!({})).await.status, 200);

    // What an organization held is free when it is gone.
    let taken = format!("{USERS}?ctx.orgId={imitation}");
    waited(&admin, &taken, user("robot")).await.assert_refused("the name is taken", 409, "RESOURCE_EXISTS");
    assert_eq!(send(admin.request(Method::DELETE, &format!("{ORGANIZATIONS}/{acme}"))).await.status, 200);
    assert_eq!(validate(&admin, theirs, "DNS").await.status, 200);
    let again = done(&admin, &taken, user("robot")).await;
    let search = format!("{USERS}/_search?ctx.orgDomain=acme.example");
    let found = after(&again, admin.request(Method::POST, &search).json(&json!([]))).await.body;
    assert_eq!(found["details"]["totalResult"], "1", "{found}");
    assert_eq!(found["result"][0]["details"]["resourceOwner"]["id"], json!(imitation));
}

#[tokio::test]
async fn who_reads_an_organization_or_an_instance_is_told_its_primary_domain() {
    let tenant = Tenant::start().await;
    let (admin, operator) = (tenant.client().await, tenant.operator().await);
    let acme = done(&admin, ORGANIZATIONS, json!({ "name": "Acme" })).await.id();
    let instance = tenant.bootstrap.instance_id.clone();
    let verified = async |context: &str, domain: &str| {
        let body = json!({ "domain": domain, "isVerified": true });
        done(&operator, &format!("{DOMAINS}?{context}"), body).await.id()
    };
    let (of_organization, new) = (new_host(), new_host());
    let of_acme = verified(&format!("ctx.orgId={acme}"), &of_organization).await;
    let of_instance = verified(&format!("ctx.instanceId={instance}"), &new).await;
    let told = async |seen: &Answer, path: &str| {
        let read = after(seen, operator.request(Method::GET, path)).await.body;
        read.pointer("/organization/primaryDomain").or(read.pointer("/instance/primaryDomain")).cloned()
    };
    let (acme, instance) = (format!("{ORGANIZATIONS}/{acme}"), format!("{INSTANCES}/{instance}"));
    let set = async |id: &str| waited(&operator, &format!("{DOMAINS}/{id}/_set_as_primary"), json!({})).await;
    let first = set(&of_acme).await;
    assert_eq!(told(&first, &acme).await, Some(json!(of_organization)));
    let issuer = tenant.bootstrap.issuer.parse::<reqwest::Url>().expect("it is a URL");
    let host = issuer.host_str().expect("it has a host").to_owned();
    assert_eq!(told(&first, &instance).await, Some(json!(host)));
    let search = admin.request(Method::POST, &format!("{ORGANIZATIONS}/_search")).json(&json!([]));
    let found = send(search.header("consistency-token", first.consistency())).await.body;
    assert!(
        found["result"]
            .as_array()
            .is_some_and(|all| all.iter().any(|one| one["primaryDomain"] == of_organization.as_str()))
    );
    let removed = send(operator.request(Method::DELETE, &format!("{DOMAINS}/{of_acme}"))).await;
    assert_eq!(removed.status, 200, "{}", removed.body);
    assert_eq!(told(&removed, &acme).await, None);

    let second = set(&of_instance).await;
    assert_eq!(second.status, 200, "{}", second.body);
    // Tokens of the issuer before are good no more.
    let (data, issuer) = (tenant.data().display().to_string(), issuer.as_str().trim_end_matches('/'));
    let issuer = issuer.replace(&host, &new);
    let (is_fine, token, said) = run(&["system-token", "--data-dir", &data, "--issuer", &issuer]);
    assert!(is_fine, "{said}");
    let request = operator.with(token.trim().to_owned()).request(Method::GET, &instance);
    let read = send(request.header("consistency-token", second.consistency())).await.body;
    assert_eq!(read["instance"]["primaryDomain"], new.as_str(), "{read}");
}

/// Starts a web server on the https port with a text; `None` where this machine does not permit the port.
async fn website(address: &str, text: String, (certificate, key): (PathBuf, PathBuf)) -> Option<()> {
    let address: SocketAddr = format!("{address}:443").parse().expect("it is an address");
    let listener = TcpListener::bind(address).await;
    let listener = listener.inspect_err(|error| println!("SKIPPED: {address} cannot be listened on: {error}")).ok()?;
    let certificate = Certificate::load(&certificate, &key).expect("it is one");
    let shown = move || std::future::ready(text.clone());
    let router = Router::new().route("/.well-known/platform-challenge/{file}", get(shown));
    let listening = Listening { listener, certificate: Some(certificate), proxies: Networks::default() };
    tokio::spawn(connections::serve(listening, router, std::future::pending(), Limits::default()));
    Some(())
}

#[tokio::test]
async fn a_domain_is_validated_by_its_website() {
    let pair = rcgen::generate_simple_self_signed(["acme.example".to_owned()]).expect("it can be made");
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let files = ["certificate", "key"].map(|name| folder.path().join(name));
    std::fs::write(&files[0], pair.cert.pem()).expect("the folder can be written");
    std::fs::write(&files[1], pair.signing_key.serialize_pem()).expect("the folder can be written");
    std::fs::set_permissions(&files[1], Permissions::from_mode(0o600)).expect("it is ours");
    let dns = Dns::start().await;
    let flags = ["--dns-server".to_owned(), dns.address.to_string()];
    let trusted = files[0].display().to_string();
    let platform = Platform::start_with(&flags, &[("SSL_CERT_FILE", &trusted)]).await;
    let admin = platform.client().await;
    let made = done(&admin, DOMAINS, json!({ "domain": "acme.example" })).await;
    let token = made.body["challenge"]["token"].as_str().expect("it is told").to_owned();
    let url = format!("https://acme.example/.well-known/platform-challenge/{token}.txt");
    assert_eq!(made.body["challenge"]["httpUrl"], json!(url));

    validate(&admin, &made, "HTTP").await.assert_refused("no address", 400, "CHALLENGE_NOT_FOUND");
    let [certificate, key] = files;
    let sites = [("127.0.0.7", "something else".to_owned()), ("127.0.0.8", format!("{token}\n"))];
    for (address, text) in sites {
        if website(address, text, (certificate.clone(), key.clone())).await.is_none() {
            return;
        }
    }
    dns.address("acme.example", [10, 9, 8, 7].into());
    let refused = validate(&admin, &made, "HTTP").await;
    refused.assert_refused("a private address", 400, "CHALLENGE_NOT_FOUND");
    assert!(refused.body["message"].as_str().is_some_and(|text| text.contains("no address that may be called")));
    dns.address("acme.example", [127, 0, 0, 7].into());
    let refused = validate(&admin, &made, "HTTP").await;
    refused.assert_refused("another page", 400, "CHALLENGE_NOT_FOUND");
    assert!(refused.body["message"].as_str().is_some_and(|text| text.contains("not the token")), "{}", refused.body);
    dns.address("acme.example", [127, 0, 0, 8].into());
    let validated = validate(&admin, &made, "HTTP").await;
    assert_eq!(validated.status, 200, "{}", validated.body);
}

#[tokio::test]
async fn only_a_trusted_proxy_says_for_which_host_a_request_is() {
    for (trusted, status) in [("127.0.0.0/8", StatusCode::OK), ("192.0.2.0/24", StatusCode::UNAUTHORIZED)] {
        let flags = ["--trusted-proxies".to_owned(), trusted.to_owned()];
        let platform = Platform::start_with(&flags, &[]).await;
        let (admin, operator) = (platform.client().await, platform.operator().await);
        let made = done(&operator, INSTANCES, json!({ "name": "Other", "domain": "other.example" })).await;
        let text = |name: &str| made.body["serviceUser"][name].as_str().expect("it is shown").to_owned();
        let form = [("grant_type", "client_credentials"), ("scope", SCOPE)];
        let request = admin.anonymous(Method::POST, "/oauth/v2/token").header("x-forwarded-host", "other.example");
        let answer = send(request.basic_auth(text("clientId"), Some(text("clientSecret"))).form(&form)).await;
        assert_eq!(answer.status, status, "{trusted}: {}", answer.body);
        let twice = admin.anonymous(Method::GET, "/.well-known/openid-configuration");
        let twice = twice.header("x-forwarded-host", "other.example").header("x-forwarded-host", "127.0.0.1");
        let expected = if status == StatusCode::OK { StatusCode::BAD_REQUEST } else { StatusCode::OK };
        assert_eq!(send(twice).await.status, expected, "{trusted}: two hosts");
    }
}
