//! All sessions of a person end while a node is in the middle of a request with one of them: its outcome does not count
//! as made after the end.

use reqwest::{Method, StatusCode};
use rustix::process::Signal;
use serde_json::{Value, json};
use tests::{
    client::{Answer, Client, send},
    cluster::{Cluster, Node},
    eventually,
};

use crate::oidc::flow::{API, App, Flow, answered};

/// Returns the answer of a node that is paused at a point until all sessions of a person have ended, which all other
/// nodes know then.
async fn meanwhile(node: &Node, writer: &Client, user: &str, asked: impl Future<Output = Answer>) -> Answer {
    let ending = async {
        eventually("it stands still", async || node.process.is_stopped().then_some(())).await;
        let ending = writer.request(Method::POST, &format!("{API}/users/{user}/sessions/_end"));
        let ended = send(ending.header("prefer", "wait=5").json(&json!({}))).await;
        node.process.signal(Signal::CONT);
        assert_eq!(ended.status, StatusCode::OK, "{}", ended.body);
    };
    tokio::join!(asked, ending).0
}

/// Starts an app with a person on a node that is paused at a point.
async fn start(point: &str) -> (Flow<Cluster>, Client, Node, [Node; 2]) {
    let cluster = Cluster::start().await;
    let others = ["command", "projector"].map(|role| cluster.node(role, role, &[], &[]));
    let node = cluster.node("oidc", "oidc", &[], &[("PLATFORM_FAULT", &format!("{point}:1:stop"))]);
    cluster.writes(&others[0]).await;
    cluster.is_ready(&node).await;
    let writer = cluster.client(&others[0]);
    let mut flow = Flow::on(cluster, writer.clone(), App::public()).await;
    flow.admin = flow.tenant.client(&node);
    (flow, writer, node, others)
}

/// Creates a session of the person, and returns its token.
async fn session(flow: &mut Flow<Cluster>, (writer, node): (&Client, &Node)) -> String {
    flow.admin = writer.clone();
    let (_, token) = flow.session().await;
    flow.admin = flow.tenant.client(node);
    token
}

#[tokio::test]
async fn an_app_is_not_let_in_by_a_session_that_ends_while_it_is_looked_at() {
    let (mut flow, writer, node, _others) = start("finish.session_shown").await;
    let request = flow.waiting(&[]).await;
    let token = session(&mut flow, (&writer, &node)).await;
    let answer = meanwhile(&node, &writer, &flow.person.0, flow.finished(&request, &token)).await;
    answer.assert_refused("it has ended", 400, "INVALID_REQUEST");
    let token = session(&mut flow, (&writer, &node)).await;
    let answer = flow.finished(&request, &token).await;
    assert_eq!(answer.status, StatusCode::OK, "one that was made afterwards is enough: {}", answer.body);
}

#[tokio::test]
async fn a_code_gives_no_tokens_where_all_sessions_end_while_it_is_looked_at() {
    let (mut flow, writer, node, _others) = start("tokens.user_known").await;
    let code = async |flow: &mut Flow<Cluster>| {
        let request = flow.waiting(&[]).await;
        let token = session(flow, (&writer, &node)).await;
        let answer = flow.finished(&request, &token).await;
        let url = answer.body["callbackUrl"].as_str().unwrap_or_else(|| panic!("it is finished: {}", answer.body));
        answered(url)["code"].clone()
    };
    let first = code(&mut flow).await;
    let answer = meanwhile(&node, &writer, &flow.person.0, send(flow.redeeming(&first, &[]))).await;
    assert_eq!((answer.status, &answer.body["error"]), (StatusCode::BAD_REQUEST, &Value::from("invalid_grant")));
    let next = code(&mut flow).await;
    let answer = send(flow.redeeming(&next, &[])).await;
    assert_eq!(answer.status, StatusCode::OK, "one that was made afterwards is good: {}", answer.body);
}
