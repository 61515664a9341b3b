//! Every operation, for every kind of caller, over HTTP with JSON and over gRPC: who gets in and who does not.
//!
//! What gets in is refused for what it asks, which is nothing, or of an object that is not there: nothing is changed.

use domain::permission::{IAM_OWNER_VIEWER, ORG_OWNER, Role};
use proto::operation::{Body, Facts, OPERATIONS};
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, SCOPE, TARGETS, send},
    eventually,
    platform::{Platform, ServiceUser},
};

const HOST: &str = "blocked.id.example";

/// A kind of caller.
struct Caller {
    case: &'static str,
    client: Client,
    /// The host that is asked, where it is not the platform's own.
    host: Option<&'static str>,
    expects: Expects,
}

/// How a caller fares.
#[derive(Clone, Copy)]
enum Expects {
    /// This HTTP status and gRPC code, whatever is asked.
    Refusal(u16, u16),
    /// To get in where a role gives the permission, or where none is needed.
    Role(&'static Role),
    /// To get in where no permission is needed.
    NoRole,
    /// To get in.
    Entry,
}

const DENIED: (u16, u16) = (403, 7);

impl Expects {
    fn of(self, facts: &Facts) -> Option<(u16, u16)> {
        match (self, facts.permission) {
            (Self::Refusal(status, code), _) => Some((status, code)),
            (Self::Entry, _) | (_, None) => None,
            (Self::NoRole, Some(_)) => Some(DENIED),
            (Self::Role(role), Some(permission)) => (!role.permissions.contains(&permission)).then_some(DENIED),
        }
    }
}

/// A request that asks for nothing, over HTTP.
fn over_http(caller: &Caller, facts: &Facts) -> RequestBuilder {
    let method = facts.verb.method().parse().expect("it is a method");
    let request = asking(caller, method, &facts.path.replace("{id}", "1"));
    match facts.body {
        Body::None => request,
        Body::Field { repeated: true, .. } => request.json(&json!([])),
        Body::Field { .. } | Body::Whole => request.json(&json!({})),
    }
}

/// The same over gRPC-web: an empty message.
fn over_grpc(caller: &Caller, facts: &Facts) -> RequestBuilder {
    let request = asking(caller, Method::POST, facts.grpc);
    request.header("content-type", "application/grpc-web+proto").body(vec![0; 5])
}

fn asking(caller: &Caller, method: Method, path: &str) -> RequestBuilder {
    let request = match caller.client.token.as_str() {
        "" => caller.client.anonymous(method, path),
        _ => caller.client.request(method, path),
    };
    caller.host.iter().fold(request, |request, host| request.header("host", *host))
}

/// The gRPC code of an answer; 0 where it is in the trailers, behind a message.
fn code(answer: &Answer) -> u16 {
    let code = answer.headers.get("grpc-status").and_then(|code| code.to_str().ok());
    code.and_then(|code| code.parse().ok()).unwrap_or_default()
}

async fn check(caller: &Caller, facts: &Facts) {
    let what = format!("{}, {}", facts.method, caller.case);
    let (http, grpc) = (send(over_http(caller, facts)).await, send(over_grpc(caller, facts)).await);
    match caller.expects.of(facts) {
        Some((status, wanted)) => {
            assert_eq!(http.status.as_u16(), status, "{what}: {}", http.body);
            assert_eq!(code(&grpc), wanted, "{what}, over gRPC: {:?}", grpc.headers);
        }
        None => {
            let status = http.status.as_u16();
            assert!(![401, 403, 429].contains(&status) && status < 500, "{what}: {}", http.body);
            assert!(![7, 8, 13, 14, 16].contains(&code(&grpc)), "{what}, over gRPC: {:?}", grpc.headers);
        }
    }
}

async fn post(client: &Client, path: &str, body: Value) -> Answer {
    let request = client.request(Method::POST, &format!("/resources/v3alpha/{path}")).json(&body);
    let answer = send(request.header("prefer", "wait=10")).await;
    assert!(answer.status.is_success(), "{path}: {}", answer.body);
    answer
}

/// A user of an organization with these roles there, and its token.
async fn user(platform: &Platform, admin: &Client, organization: &str, name: &str, roles: &[&str]) -> (String, Client) {
    let id =
        post(admin, &format!("users?ctx.orgId={organization}"), json!({ "username": name, "service": {} })).await.id();
    if !roles.is_empty() {
        post(admin, &format!("memberships?ctx.orgId={organization}"), json!({ "userId": id, "roles": roles })).await;
    }
    let secret = post(admin, &format!("users/{id}/_generate_secret"), json!({})).await;
    let client_secret = secret.body["clientSecret"].as_str().expect("it is shown").to_owned();
    let user = ServiceUser { user_id: id.clone(), client_id: name.to_owned(), client_secret };
    (id, Client::log_in(&platform.bootstrap.issuer, &user).await)
}

/// The first user of another instance.
async fn of_another(operator: &Client) -> (String, Client) {
    let made = post(operator, "instances", json!({ "name": "Other", "domain": HOST })).await;
    let text = |name: &str| made.body["serviceUser"][name].as_str().expect("it is shown").to_owned();
    let token = eventually("it gives tokens", async || {
        let request = operator.anonymous(Method::POST, "/oauth/v2/token").header("host", HOST);
        let form = [("grant_type", "client_credentials"), ("scope", SCOPE)];
        let answer = send(request.basic_auth(text("clientId"), Some(text("clientSecret"))).form(&form)).await;
        answer.body["access_token"].as_str().map(str::to_owned)
    })
    .await;
    (made.id(), operator.with(token))
}

/// All kinds of callers.
async fn callers(platform: &Platform) -> Vec<Caller> {
    let (admin, operator) = (platform.client().await, platform.operator().await);
    let other = post(&admin, "organizations", json!({ "name": "Other" })).await.id();
    let ending = post(&admin, "organizations", json!({ "name": "Ending" })).await.id();
    let (_, owner) = user(platform, &admin, &other, "owner-of-other", &["ORG_OWNER"]).await;
    let (ended, ended_user) = user(platform, &admin, &other, "ended", &["ORG_OWNER"]).await;
    let (_, homeless) = user(platform, &admin, &ending, "homeless", &["ORG_OWNER"]).await;
    let (instance, foreign) = of_another(&operator).await;
    post(&admin, &format!("users/{ended}/_deactivate"), json!({})).await;
    post(&admin, &format!("organizations/{ending}/_deactivate"), json!({})).await;
    post(&operator, &format!("instances/{instance}/_limit"), json!({ "block": true })).await;
    let unknown = Expects::Refusal(401, 16);
    let caller = |case, client: &Client, expects| Caller { case, client: client.clone(), host: None, expects };
    let blocked = Caller { host: Some(HOST), ..caller("of a blocked instance", &foreign, Expects::Refusal(429, 8)) };
    let callers = vec![
        caller("no token", &admin.with(String::new()), unknown),
        caller("garbage", &admin.with("garbage".to_owned()), unknown),
        caller("of another instance", &foreign, unknown),
        caller("of another organization", &owner, Expects::Role(&ORG_OWNER)),
        caller("no role", &platform.client_named("nobody").await, Expects::NoRole),
        caller("read-only", &platform.client_named("viewer").await, Expects::Role(&IAM_OWNER_VIEWER)),
        caller("all rights", &operator, Expects::Entry),
        caller("ended", &ended_user, unknown),
        caller("of an ended organization", &homeless, unknown),
        blocked,
    ];
    for caller in callers.iter().filter(|caller| matches!(caller.expects, Expects::Refusal(..))) {
        eventually(caller.case, async || {
            let search = asking(caller, Method::POST, &format!("{TARGETS}/_search")).json(&json!([]));
            matches!(send(search).await.status.as_u16(), 401 | 429).then_some(())
        })
        .await;
    }
    callers
}

#[tokio::test]
async fn every_operation_lets_in_whom_it_shall() {
    let platform = Platform::start().await;
    platform.ready().await;
    let (admin, callers) = (platform.client().await, callers(&platform).await);
    let mut checked = 0;
    for facts in OPERATIONS {
        let built = caller_of(&admin);
        if send(over_http(&built, facts)).await.status == 501 {
            continue;
        }
        for caller in &callers {
            check(caller, facts).await;
            checked += 1;
        }
    }
    println!("{checked} kinds of callers of operations, on two transports");
    assert!(checked > 400, "{checked}");
}

fn caller_of(client: &Client) -> Caller {
    Caller { case: "who asks", client: client.clone(), host: None, expects: Expects::Entry }
}
