//! The naive way to publish a durable event: one message each, by every client for itself.

use async_nats::jetstream::{self, stream};
use tests::platform::Platform;

use crate::{SECONDS, load};

/// Publishes 700-byte messages from a number of connections, each waiting for its acknowledgement, and returns the
/// outcome.
pub(crate) async fn publish(platform: &Platform, connections: usize) -> load::Outcome {
    let mut contexts = vec![];
    for _ in 0..connections {
        let (url, token) = platform.nats();
        let client = async_nats::ConnectOptions::with_token(token).connect(url).await.expect("NATS is there");
        contexts.push(jetstream::new(client));
    }
    let config = stream::Config { name: "NAIVE".into(), subjects: vec!["naive".into()], ..stream::Config::default() };
    contexts[0].get_or_create_stream(config).await.expect("the stream can be made");
    let outcome = load::run(connections, SECONDS, {
        let contexts = contexts.clone();
        move |client| {
            let context = contexts[client].clone();
            async move {
                match context.publish("naive", vec![7; 700].into()).await {
                    Ok(answer) => answer.await.is_ok(),
                    Err(_) => false,
                }
            }
        }
    });
    let outcome = outcome.await;
    contexts[0].delete_stream("NAIVE").await.expect("the stream can be removed");
    outcome
}
