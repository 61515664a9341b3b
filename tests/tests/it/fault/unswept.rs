//! Dependents of a removed object are gone for every read, even if the node that sweeps them was killed meanwhile.

use futures::{StreamExt, stream};
use reqwest::Method;
use serde_json::{Value, json};
use tests::{
    auditor::connect,
    client::{Client, after, created, post, send},
    cluster::Cluster,
    eventually,
};

const API: &str = "/resources/v3alpha";
/// More objects than two steps of a sweep remove.
const MANY: usize = 450;

#[tokio::test]
async fn what_a_sweep_has_not_reached_is_neither_shown_nor_found_nor_counted() {
    let cluster = Cluster::start().await;
    let _projector = cluster.node("projector", "projector", &[], &[]);
    let query = cluster.node("query", "query", &[], &[]);
    let mut command = cluster.node("command", "first", &[], &[]);
    cluster.writes(&command).await;
    cluster.is_ready(&query).await;
    let (admin, reader) = (&cluster.client(&command), &cluster.client(&query));
    let organization = created(admin, &format!("{API}/organizations"), json!({ "name": "Crowd" })).await.id();
    let project = async |name: &str| {
        created(admin, &format!("{API}/projects?ctx.orgId={organization}"), json!({ "name": name })).await.id()
    };
    let (going, staying) = (project("Going").await, project("Staying").await);
    let role = async |project: &str, key: String| {
        let wanted = json!({ "projectId": project, "key": key, "displayName": key });
        created(admin, &format!("{API}/roles"), wanted).await.id()
    };
    let roles = stream::iter(0..MANY).map(|number| role(&going, format!("r{number}")));
    let roles: Vec<String> = roles.buffer_unordered(32).collect().await;
    let stays = role(&staying, "stays".into()).await;
    eventually("all are found", async || (count_roles(reader).await == json!((MANY + 1).to_string())).then_some(()))
        .await;

    // The one that writes next removes the project, and dies in the second step of the sweep.
    command.process.kill().await;
    let mut command = cluster.node("command", "first", &[], &[("PLATFORM_FAULT", "commit.answered:3:kill")]);
    cluster.writes(&command).await;
    let admin = cluster.client(&command);
    let removed = send(admin.request(Method::DELETE, &format!("{API}/projects/{going}"))).await;
    assert_eq!(removed.status, 200, "{}", removed.body);
    command.process.ended().await;
    for role in &roles {
        let read = after(&removed, reader.request(Method::GET, &format!("{API}/roles/{role}"))).await;
        assert_eq!(read.status, 404, "{}", read.body);
    }
    let search = reader.request(Method::POST, &format!("{API}/roles/_search")).json(&json!([]));
    let search = after(&removed, search).await;
    assert_eq!(search.body["details"]["totalResult"], "1", "{}", search.body);
    assert_eq!(search.body["result"][0]["details"]["id"], json!(stays), "{}", search.body);
    assert!(rows(&cluster).await > 1, "some are still there");

    let _command = cluster.node("command", "second", &[("--node-number", "1")], &[]);
    eventually("they are swept", async || (rows(&cluster).await == 1).then_some(())).await;
}

/// Returns how many roles of projects a search counts.
async fn count_roles(reader: &Client) -> Value {
    post(reader, &format!("{API}/roles/_search?query.limit=1"), json!([])).await.body["details"]["totalResult"].take()
}

/// Returns how many roles of projects the read model has.
async fn rows(cluster: &Cluster) -> i64 {
    let postgres = connect(&cluster.servers.places.postgres_url).await;
    let text = "select count(*) from access_10.project_roles";
    postgres.query_one(text, &[]).await.expect("the table is there").get(0)
}
