//! Deliveries that were given up, and whose event was written by a newer build than the one that retries them.

use reqwest::StatusCode;
use serde_json::json;
use tests::{auditor::connect, client::post, endpoint::Reply, eventually, platform::Platform, servers::Servers};

use super::mending::{OF_SYSTEM, are_given_up, failing, patient};

#[tokio::test]
async fn one_that_cannot_be_read_keeps_no_others_from_being_made_again() {
    let servers = Servers::start().await;
    let platform = Platform::start_with(&[servers.flags(), patient("1")].concat(), &[]).await;
    platform.ready().await;
    let (client, operator) = (platform.client().await, platform.operator().await);
    let (endpoint, hook) = failing(&client, json!({ "event": "target.added" })).await;
    client.create_target("0").await.expect("it is created");
    let listed = are_given_up(&operator, 1).await;

    // As a newer build keeps and lists it.
    let context = async_nats::jetstream::new(servers.nats().await);
    let subject = format!("actions.0.failed.{}.{hook}", listed[0]["instanceId"].as_str().expect("it has one"));
    let kept = context.publish(subject, "{}".into()).await.expect("NATS is there").await.expect("NATS is there");
    let place = i64::try_from(kept.sequence).expect("it is small");
    let postgres = connect(&servers.places.postgres_url).await;
    let text = "insert into platform.given_up_deliveries select (jsonb_populate_record(g, \
                jsonb_build_object('place', $1::bigint, 'id', g.id + 1))).* from platform.given_up_deliveries g";
    postgres.execute(text, &[&place]).await.expect("the table is there");
    are_given_up(&operator, 2).await;

    endpoint.take();
    endpoint.reply(Reply::status(204));
    let retried = post(&operator, &format!("{OF_SYSTEM}/_retry"), json!({})).await;
    assert_eq!(retried.status, StatusCode::OK, "{}", retried.body);
    endpoint.called(1).await;
    are_given_up(&operator, 0).await;
    let is_left = async || {
        let mut stream = context.get_stream("ACTIONS_0").await.ok()?;
        (stream.info().await.ok()?.state.messages == 1).then_some(())
    };
    eventually("only what cannot be read is in the queue", is_left).await;
}
